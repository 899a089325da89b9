#include "core/text/jinja/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "ng/utf8.h"

namespace ng::jinja {
namespace {

constexpr int64_t kValueBytes = sizeof(Value) + 16;

int DepthOf(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

// Errors show so many bytes of a text.
constexpr size_t kLongestShown = 300;

// So few keys are looked for one by one.
constexpr size_t kFewKeys = 8;

using Places = std::vector<std::pair<uint64_t, uint32_t>>;

// Leaves each key once, at its first place with its last value. Sorts the hashes of the keys and
// their places, which are then those of what is left. Returns false after a failure.
bool JoinEqualKeys(Run& run, std::vector<std::pair<Value, Value>>* items, Places* places) {
  std::ranges::sort(*places);
  std::vector<bool> is_again(items->size());
  bool any_again = false;
  for (auto begin = places->begin(); begin != places->end();) {
    auto end = begin;
    while (end != places->end() && end->first == begin->first) ++end;
    for (auto later = begin; later != end; ++later) {
      for (auto first = begin; first != later; ++first) {
        if (is_again[first->second]) continue;
        if (!Equal(run, (*items)[first->second].first, (*items)[later->second].first)) continue;
        (*items)[first->second].second = std::move((*items)[later->second].second);
        is_again[later->second] = any_again = true;
        break;
      }
      if (run.failed()) return false;
    }
    begin = end;
  }
  if (!any_again) return true;
  std::vector<uint32_t> now_at(items->size());
  uint32_t n = 0;
  for (size_t i = 0; i < items->size(); ++i) {
    now_at[i] = n;
    if (is_again[i]) continue;
    if (n != i) (*items)[n] = std::move((*items)[i]);
    ++n;
  }
  items->resize(n);
  std::erase_if(*places, [&](const auto& place) { return is_again[place.second]; });
  for (auto& place : *places) place.second = now_at[place.second];
  return true;
}

}  // namespace

Value Run::Fail(std::string_view what) {
  if (status_.ok()) {
    status_ = ModelFileError(
        absl::StrCat(name_, ": line ", line_, ": ", View(Utf8Prefix(what, kLongestShown))));
  }
  return {};
}

Value Run::Refuse(std::string_view what) {
  if (status_.ok()) {
    status_ = UsageError(absl::StrCat(
        name_, ": line ", line_,
        ": the template refuses the conversation: ", View(Utf8Prefix(what, kLongestShown))));
  }
  return {};
}

bool Run::Work(int64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) {
    Fail(absl::StrCat("the template takes more than ", limits_.steps, " steps"));
  }
  return !failed();
}

bool Run::HasRoom(int64_t bytes) {
  if (bytes < 0 || bytes > limits_.bytes - *used_) {
    Fail(absl::StrCat("the template's values take more than ", limits_.bytes, " bytes"));
  }
  return !failed();
}

Value Run::NewText(Text text) {
  const auto size = static_cast<int64_t>(text.size());
  if (!Work(1 + size / 64) || !HasRoom(2 * size)) return {};
  return Value(std::make_shared<const HeldText>(std::move(text), used_));
}

Value Run::NewSequence(SequenceKind kind, std::vector<Value> items) {
  const auto n = static_cast<int64_t>(items.size());
  if (!Work(1 + n / 4) || !HasRoom(n * kValueBytes)) return {};
  const int depth = DepthOf(items);
  if (depth > limits_.depth) {
    return Fail(
        absl::StrCat("lists and dicts in each other, more than ", limits_.depth, " levels"));
  }
  return Value(std::make_shared<Sequence>(kind, std::move(items), depth, used_));
}

Value Run::NewDict(std::vector<std::pair<Value, Value>> items) {
  const auto n = static_cast<int64_t>(items.size());
  if (!Work(1 + n / 4) || !HasRoom(2 * n * kValueBytes)) return {};
  int depth = 0;
  Places places;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& [key, value] = items[i];
    if (key.sequence() != nullptr && key.sequence()->kind != SequenceKind::kTuple) {
      return Fail("a list as the key of a dict; it must be a text, a number or a tuple");
    }
    if (key.dict() != nullptr) {
      return Fail("a dict as the key of a dict; it must be a text, a number or a tuple");
    }
    depth = std::max({depth, key.depth(), value.depth()});
    places.emplace_back(HashOf(*this, key), static_cast<uint32_t>(i));
  }
  if (depth + 1 > limits_.depth) {
    return Fail(
        absl::StrCat("lists and dicts in each other, more than ", limits_.depth, " levels"));
  }
  if (!JoinEqualKeys(*this, &items, &places)) return {};
  if (items.size() <= kFewKeys) places.clear();
  return Value(std::make_shared<const Dict>(std::move(items), std::move(places), depth + 1, used_));
}

Value Run::NewNamespace() {
  if (!Work(1) || !HasRoom(512)) return {};
  // It lives as long as the run, so its memory is not given back before.
  *used_ += 512;
  auto made = std::make_shared<Namespace>();
  Keep([made] { made->attributes.clear(); });
  return Value(made);
}

Value Run::NewUndefined(std::string what) {
  if (!Work(1) || !HasRoom(static_cast<int64_t>(what.size()))) return {};
  return Value(Undefined{std::make_shared<const std::string>(std::move(what))});
}

void Run::Clear() {
  for (const auto& clear : kept_) clear();
  kept_.clear();
}

std::shared_ptr<const Sequence> ItemsOf(Run& run, const Value& value) {
  const auto made = [&](std::vector<Value> items) -> std::shared_ptr<const Sequence> {
    const Value list = run.NewList(std::move(items));
    return run.failed() ? nullptr : list.As<std::shared_ptr<Sequence>>();
  };
  if (value.IsUndefined()) return made({});
  if (value.sequence() != nullptr) {
    const auto& sequence = value.As<std::shared_ptr<Sequence>>();
    if (sequence->kind != SequenceKind::kGenerator) return sequence;
    const auto begin = sequence->items.begin() + static_cast<int64_t>(sequence->taken);
    sequence->taken = sequence->items.size();
    return made(std::vector<Value>(begin, sequence->items.end()));
  }
  std::vector<Value> items;
  if (const Text* text = value.text()) {
    if (!run.HasRoom(static_cast<int64_t>(text->size()) * 64)) return nullptr;
    const std::vector<size_t> begins = text->Characters();
    if (!run.HasRoom(static_cast<int64_t>(begins.size()) * 256)) return nullptr;
    for (size_t i = 0; i + 1 < begins.size() && !run.failed(); ++i) {
      items.push_back(run.NewText(text->Slice(begins[i], begins[i + 1] - begins[i])));
    }
    return made(std::move(items));
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, unused] : dict->items) items.push_back(key);
    return made(std::move(items));
  }
  run.Fail(absl::StrCat("cannot run over ", View(KindOf(value)),
                        "; it must be a list, a dict or a text"));
  return nullptr;
}

}  // namespace ng::jinja
