// What the sampler parts share: options in one line each, the state of each sequence, lists in a
// text.
#ifndef NG_PARTS_SAMPLER_PART_H_
#define NG_PARTS_SAMPLER_PART_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "ng/plugin.h"
#include "ng/sampler.h"

namespace ng_parts {

constexpr ng::OptionSpec Real(const char* name, const char* value, double min, double max,
                              const char* help) {
  return {name, ng::OptionType::kReal, value, min, max, false, false, nullptr, help};
}
constexpr ng::OptionSpec Int(const char* name, const char* value, double min, double max,
                             const char* help) {
  return {name, ng::OptionType::kInt, value, min, max, false, false, nullptr, help};
}
constexpr ng::OptionSpec Text(const char* name, const char* value, const char* help) {
  return {name, ng::OptionType::kText, value, 0, 0, false, false, nullptr, help};
}

// A create function for a stage whose constructor reads the options.
template <class Stage>
absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Make(const ng::PluginContext& context) {
  return std::make_unique<Stage>(context);
}

// The state of each sequence, by slot.
template <class T>
class Slots {
 public:
  T& operator[](int slot) {
    const auto index = static_cast<size_t>(slot);
    if (index >= slots_.size()) slots_.resize(index + 1);
    return slots_[index];
  }
  absl::Status Copy(int from, int to) {
    (*this)[std::max(from, to)];  // makes room for both before a reference is taken
    (*this)[to] = (*this)[from];
    return absl::OkStatus();
  }

 private:
  std::vector<T> slots_;
};

// The parts of a text between separators; none of an empty text.
inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Whether the whole text is a number, which goes to `out`.
template <class T>
bool ParseNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace ng_parts

#endif  // NG_PARTS_SAMPLER_PART_H_
