#include "plugins/drafter/replay/replay.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "ng/sampler.h"

namespace ng {
namespace {

// Of the draws that say which tokens are wrong.
constexpr uint32_t kWrongStream = 0x7265706C;

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> ReplayDrafter::Create(const PluginContext& context) {
  const std::string path(context.options.Text("file"));
  if (path.empty()) {
    return UsageError(
        "drafter.replay.file is empty; it names a file with a line of ids for each "
        "request");
  }
  std::unique_ptr<ReplayDrafter> drafter(new ReplayDrafter(context));
  NG_RETURN_IF_ERROR(drafter->Read(path));
  return drafter;
}

absl::Status ReplayDrafter::Read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return ModelFileError(path + ": is no file" + (error ? ": " + error.message() : ""));
  }
  std::ifstream file(path);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    NG_RETURN_IF_ERROR(ReadLine(path, line, number));
  }
  return file.eof() ? absl::OkStatus() : ModelFileError(path + ": cannot be read");
}

absl::Status ReplayDrafter::ReadLine(const std::string& path, const std::string& line,
                                     int64_t number) {
  std::vector<int32_t>& answer = answers_.emplace_back();
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    const bool known = error == std::errc() && id >= 0 && id < vocab_size_;
    if (!known || (next != end && *next != ' ')) {
      const std::string word(at, std::find(at, end, ' '));
      return ModelFileError(path + ":" + std::to_string(number) + ": '" + word +
                            "', must be ids in [0, " + std::to_string(vocab_size_ - 1) +
                            "] with blanks between them");
    }
    answer.push_back(id);
    at = next;
  }
  return absl::OkStatus();
}

absl::Status ReplayDrafter::Load(const DrafterSpec& spec) {
  slots_.assign(static_cast<size_t>(spec.max_sequences), Slot());
  return absl::OkStatus();
}

absl::Status ReplayDrafter::Open(int slot, const DraftedRequest& request) {
  slots_[static_cast<size_t>(slot)] = {.request = request.number, .step = request.n_answered};
  return absl::OkStatus();
}

absl::Status ReplayDrafter::Accept(int slot, int32_t /*token*/) {
  ++slots_[static_cast<size_t>(slot)].step;
  return absl::OkStatus();
}

absl::Status ReplayDrafter::Close(int /*slot*/) { return absl::OkStatus(); }

int32_t ReplayDrafter::Proposed(const Slot& slot, int64_t step, int32_t token) const {
  const double drawn =
      UniformDraw({.seed = seed_, .request = slot.request, .step = step, .stream = kWrongStream});
  if (drawn >= error_) return token;
  return static_cast<int32_t>((token + int64_t{1}) % vocab_size_);
}

absl::Status ReplayDrafter::Propose(std::span<Draft> drafts) {
  for (Draft& draft : drafts) {
    const Slot& slot = slots_[static_cast<size_t>(draft.slot)];
    if (slot.request >= std::ssize(answers_)) continue;
    const std::vector<int32_t>& answer = answers_[static_cast<size_t>(slot.request)];
    const int64_t n_left = std::max<int64_t>(0, std::ssize(answer) - slot.step);
    draft.n_tokens = std::min(n_left, std::ssize(draft.tokens));
    for (int64_t i = 0; i < draft.n_tokens; ++i) {
      const int64_t step = slot.step + i;
      draft.tokens[static_cast<size_t>(i)] =
          Proposed(slot, step, answer[static_cast<size_t>(step)]);
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
