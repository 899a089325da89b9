#include "core/text/pickle.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/cursor.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// Well above what character vocabularies need. It limits the memory that a small file can take.
constexpr size_t kMaxStringBytes = 64;
constexpr int kMaxDepth = 4;

enum Opcode : uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kEmptyDict = '}',
  kMark = '(',
  kShortUnicode = 0x8C,
  kUnicode = 'X',
  kInt1 = 'K',
  kInt2 = 'M',
  kInt4 = 'J',
  kMemoize = 0x94,
  kPut1 = 'q',
  kPut4 = 'r',
  kGet1 = 'h',
  kGet4 = 'j',
  kSetItem = 's',
  kSetItems = 'u',
  kStop = '.',
};

// The machine that runs a pickle: a stack of values, and a memo of numbered values.
class Machine {
 public:
  Machine(std::string_view bytes, const std::string& path) : cursor_(bytes), path_(path) {}

  absl::StatusOr<PickleValue> Run() {
    if (const auto proto = cursor_.U8(); proto != kProto) return Damaged("is no pickle");
    if (const auto version = cursor_.U8(); !version || *version < 2 || *version > 5) {
      return Damaged("is no pickle of protocol 2 to 5");
    }
    while (const std::optional<uint8_t> opcode = cursor_.U8()) {
      if (*opcode == kStop) {
        if (stack_.size() != 1 || !marks_.empty()) return Damaged("does not end with one value");
        return std::move(stack_.back());
      }
      NG_RETURN_IF_ERROR(Step(*opcode));
    }
    return Damaged("ends in the middle");
  }

 private:
  absl::Status Damaged(std::string_view what) const {
    return ModelFileError(absl::StrCat(path_, ": ", absl::string_view(what.data(), what.size()),
                                       ", at offset ", cursor_.position()));
  }

  absl::Status Step(uint8_t opcode) {
    switch (opcode) {
      case kFrame:
        return cursor_.U64() ? absl::OkStatus() : Damaged("ends in the middle");
      case kEmptyDict:
        return Push(PickleDict());
      case kMark:
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case kShortUnicode:
        return PushString(Wide(cursor_.U8()));
      case kUnicode:
        return PushString(Wide(cursor_.U32()));
      case kInt1:
        return PushInt(Wide(cursor_.U8()));
      case kInt2:
        return PushInt(Wide(cursor_.U16()));
      case kInt4: {
        const std::optional<uint32_t> bits = cursor_.U32();
        return PushInt(bits ? std::optional<int64_t>(static_cast<int32_t>(*bits)) : std::nullopt);
      }
      case kMemoize:
        return Put(static_cast<int64_t>(memo_.size()));
      case kPut1:
        return Put(Wide(cursor_.U8()));
      case kPut4:
        return Put(Wide(cursor_.U32()));
      case kGet1:
        return Get(Wide(cursor_.U8()));
      case kGet4:
        return Get(Wide(cursor_.U32()));
      case kSetItem:
        return SetItems(stack_.size() < 2 ? 0 : stack_.size() - 2);
      case kSetItems: {
        if (marks_.empty()) return Damaged("has no mark for its items");
        const size_t first = marks_.back();
        marks_.pop_back();
        return SetItems(first);
      }
      default:
        return Damaged(
            absl::StrFormat("has the instruction 0x%02X, which is not followed: only "
                            "integers, short strings and dictionaries are read",
                            opcode));
    }
  }

  template <typename T>
  static std::optional<int64_t> Wide(std::optional<T> value) {
    return value ? std::optional<int64_t>(*value) : std::nullopt;
  }

  template <typename T>
  absl::Status Push(T value) {
    stack_.push_back({std::move(value)});
    return absl::OkStatus();
  }

  absl::Status PushInt(std::optional<int64_t> value) {
    return value ? Push(*value) : Damaged("ends in the middle");
  }

  absl::Status PushString(std::optional<int64_t> length) {
    if (!length) return Damaged("ends in the middle");
    if (*length > static_cast<int64_t>(kMaxStringBytes)) return Damaged("has a string too long");
    const std::optional<std::string_view> text = cursor_.Bytes(static_cast<uint64_t>(*length));
    if (!text) return Damaged("ends in the middle");
    if (FindInvalidUtf8(*text)) return Damaged("has a string that is not valid UTF-8");
    return Push(std::string(*text));
  }

  // Dictionaries are not kept, because nothing that is read refers to one twice.
  absl::Status Put(std::optional<int64_t> number) {
    if (!number || stack_.empty()) return Damaged("has nothing to remember");
    const PickleValue& top = stack_.back();
    const bool is_dict = std::holds_alternative<PickleDict>(top.value);
    memo_.insert_or_assign(*number, is_dict ? std::nullopt : std::optional(top));
    return absl::OkStatus();
  }

  absl::Status Get(std::optional<int64_t> number) {
    const auto found = number ? memo_.find(*number) : memo_.end();
    if (found == memo_.end() || !found->second) return Damaged("asks for what it did not keep");
    stack_.push_back(*found->second);
    return absl::OkStatus();
  }

  // The values from `first` on are keys and values of the dictionary before them.
  absl::Status SetItems(size_t first) {
    const bool has_mark_within = !marks_.empty() && marks_.back() >= first;
    if (first == 0 || first > stack_.size() || (stack_.size() - first) % 2 != 0 ||
        has_mark_within || !std::holds_alternative<PickleDict>(stack_[first - 1].value)) {
      return Damaged("has items without their dictionary");
    }
    PickleValue& dict = stack_[first - 1];
    for (size_t i = first; i < stack_.size(); i += 2) {
      dict.depth = std::max({dict.depth, stack_[i].depth + 1, stack_[i + 1].depth + 1});
      std::get<PickleDict>(dict.value).push_back({std::move(stack_[i]), std::move(stack_[i + 1])});
    }
    stack_.resize(first);
    return dict.depth > kMaxDepth ? Damaged("is nested too deep") : absl::OkStatus();
  }

  Cursor cursor_;
  const std::string& path_;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // positions in the stack
  std::unordered_map<int64_t, std::optional<PickleValue>> memo_;
};

}  // namespace

absl::StatusOr<PickleValue> ReadPickle(std::string_view bytes, const std::string& path) {
  return Machine(bytes, path).Run();
}

}  // namespace ng
