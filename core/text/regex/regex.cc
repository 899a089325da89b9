#include "core/text/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/regex/pattern.h"

namespace ng {
namespace {

constexpr size_t kMostPatternBytes = 16384;  // published patterns have up to 700
// Most matches end within so many bytes and steps: they are not counted.
constexpr size_t kNearBytes = 256;
constexpr uint32_t kNearSteps = 128;
constexpr int64_t kFirstSteps = 64;  // that are counted
constexpr int64_t kMostSteps = std::numeric_limits<uint32_t>::max();
constexpr int64_t kWeightOfAStep = 64;
constexpr uint32_t kMostHeapKib = 256 << 10;
constexpr size_t kFirstStackBytes = 32 << 10;
constexpr size_t kMostStackBytes = 16 << 20;

using Pcre = std::unique_ptr<pcre2_code, void (*)(pcre2_code*)>;

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Errors: ModelFileError, what PCRE2 says.
absl::StatusOr<Pcre> CompilePcre(const std::string& pattern, uint32_t options, uint32_t jit) {
  int error = 0;
  size_t at = 0;
  // In Ruby's syntax ^ and $ match at every line.
  options |= PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  Pcre code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                          &error, &at, nullptr),
            pcre2_code_free);
  if (code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (code == nullptr) return ModelFileError(ErrorText(error));
  pcre2_jit_compile(code.get(), jit);  // without it the search is only slower
  return code;
}

// The first place at or after `at` where a character begins, or the end.
size_t NextBegin(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
  return std::min(at, text.size());
}

}  // namespace

struct Regex::Code {
  Pcre near;     // finds a match in a part of the text
  Pcre counted;  // PcrePattern's; a match must begin where the search does
  int64_t step_cost = 1;
};

namespace {

// What searches of one thread share.
class Searcher {
 public:
  Searcher()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kFirstStackBytes, kMostStackBytes, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) {
      Free();
      throw std::bad_alloc();
    }
    pcre2_set_heap_limit(context_, kMostHeapKib);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~Searcher() { Free(); }
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  // The first match at or after `from`: what PCRE2 returns for it. Takes steps from `left`.
  int Search(const Regex::Code& code, std::string_view text, size_t from, int64_t& left) {
    for (;;) {
      const int near = SearchNear(code.near.get(), text, from);
      if (near >= 0 || near == PCRE2_ERROR_NOMATCH) return near;
      const int here = MatchHere(code, text, from, left);
      if (here != PCRE2_ERROR_NOMATCH || from == text.size()) return here;
      from = NextBegin(text, from + 1);
    }
  }
  Regex::Match match() const {
    const size_t* const ends = pcre2_get_ovector_pointer(data_);
    return {ends[0], ends[1]};
  }

 private:
  // Looks among the next bytes only, over and over: a match that has not looked at the end of what
  // it was given is the same in the whole text. Afterwards no match begins before `from`.
  int SearchNear(const pcre2_code* code, std::string_view text, size_t& from) {
    pcre2_set_match_limit(context_, kNearSteps);
    for (;;) {
      const size_t end = NextBegin(text, from + kNearBytes);
      if (end == text.size()) return Run(code, text, from, 0);
      const int found = Run(code, text.substr(0, end), from, PCRE2_PARTIAL_HARD);
      const size_t next = found == PCRE2_ERROR_NOMATCH   ? end
                          : found == PCRE2_ERROR_PARTIAL ? match().begin
                                                         : from;
      if (next <= from) return found;
      from = next;
    }
  }

  // PCRE2 limits the steps of a match that begins in one place, and does not say how many it took.
  // So one that takes more than it may is begun again with twice as many, and what each may take is
  // counted.
  int MatchHere(const Regex::Code& code, std::string_view text, size_t from, int64_t& left) {
    int found = PCRE2_ERROR_MATCHLIMIT;
    int64_t most = std::max<int64_t>(kFirstSteps / code.step_cost, 1);
    for (; found == PCRE2_ERROR_MATCHLIMIT && left >= code.step_cost; most *= 2) {
      const int64_t steps = std::min({most, kMostSteps, left / code.step_cost});
      left -= steps * code.step_cost;
      pcre2_set_match_limit(context_, static_cast<uint32_t>(steps));
      found = Run(code.counted.get(), text, from, 0);
    }
    return found;
  }

  int Run(const pcre2_code* code, std::string_view text, size_t from, uint32_t options) {
    const auto* const begin = reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
    int found = pcre2_jit_match(code, begin, text.size(), from, options, data_, context_);
    // The slow way keeps its state on the heap, which may be larger.
    if (found == PCRE2_ERROR_JIT_BADOPTION || found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code, begin, text.size(), from,
                          options | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data_, context_);
    }
    return found;
  }
  void Free() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }

  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;  // may be null: a small one is used
};

}  // namespace

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMostPatternBytes) {
    return ModelFileError(absl::StrCat("a pattern has ", pattern.size(), " bytes, must have up to ",
                                       kMostPatternBytes));
  }
  NG_ASSIGN_OR_RETURN(const PcrePattern read, ReadPattern(pattern));
  const auto compile = [&](const std::string& text, uint32_t options, uint32_t jit) {
    absl::StatusOr<Pcre> code = CompilePcre(text, options, jit);
    if (code.ok()) return code;
    return absl::StatusOr<Pcre>(
        ModelFileError(absl::StrCat("the pattern ", JsonExcerpt(std::string(pattern)), ": ",
                                    std::string(code.status().message()))));
  };
  NG_ASSIGN_OR_RETURN(Pcre near,
                      compile(read.text, 0, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD));
  NG_ASSIGN_OR_RETURN(Pcre counted, compile(read.counted, PCRE2_ANCHORED, PCRE2_JIT_COMPLETE));
  Regex regex;
  regex.pattern_ = pattern;
  regex.code_ = std::make_shared<Code>(
      Code{std::move(near), std::move(counted), 1 + read.weight / kWeightOfAStep});
  return regex;
}

absl::StatusOr<std::optional<Regex::Match>> Regex::Find(std::string_view text, size_t from,
                                                        SearchSteps& steps) const {
  thread_local Searcher searcher;
  const int found = searcher.Search(*code_, text, from, steps.left);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (found < 0) {
    const std::string reason =
        found == PCRE2_ERROR_MATCHLIMIT
            ? absl::StrCat("takes more than ", steps.most, " steps to split the text")
            : absl::StrCat("cannot split the text: ", ErrorText(found));
    return UsageError(absl::StrCat("the tokenizer's pattern ", JsonExcerpt(pattern_), " ", reason));
  }
  return std::optional(searcher.match());
}

}  // namespace ng
