#include "core/text/chat/calls/call_head.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/chat/calls/value_reader.h"

namespace ng::calls {
namespace {

constexpr size_t kLongestName = 256;
// Of arguments that come before the name: what waits is read again with each token.
constexpr size_t kLongestHead = size_t{1} << 16;

// What is read of an object around a call. Each function returns what a beginning is, and moves
// `at_` only where that is kYes.
class EnvelopeReader {
 public:
  EnvelopeReader(SymbolsView in, const CallFormat& format, CallHead* head)
      : in_(in), format_(format), head_(head) {}

  Found Read(size_t at) {
    at_ = at;
    Found found = Take('{');
    if (found != Found::kYes) return found;
    head_->depth = 1;
    std::vector<std::string> path;
    for (;;) {
      found = SkipBlanks();
      if (found != Found::kYes) return found;
      if (in_[at_] == '}') {
        ++at_;
        if (--head_->depth == 0) return End();
        path.pop_back();
        continue;
      }
      if (in_[at_] == ',') {
        ++at_;
        continue;
      }
      found = ReadMember(&path);
      if (found != Found::kYes || at_arguments_) return found;
    }
  }

  size_t at() const { return at_; }

 private:
  Found SkipBlanks() {
    while (at_ < in_.size() && IsBlank(in_[at_])) ++at_;
    return at_ == in_.size() ? Found::kMore : Found::kYes;
  }
  Found Take(char32_t symbol) {
    const Found found = SkipBlanks();
    if (found != Found::kYes) return found;
    if (in_[at_] != symbol) return Found::kNo;
    ++at_;
    return Found::kYes;
  }
  // A value as JSON.
  Found TakeValue(std::string* json) {
    if (const Found found = SkipBlanks(); found != Found::kYes) return found;
    ValueReader reader(format_.notation, format_.tokens);
    at_ += reader.Read(in_.substr(at_), /*last=*/false, json);
    if (reader.state() == ValueReader::State::kDone) return Found::kYes;
    return reader.state() == ValueReader::State::kGoing ? Found::kMore : Found::kNo;
  }
  Found TakeText(std::string* text) {
    std::string json;
    const Found found = TakeValue(&json);
    if (found != Found::kYes) return found;
    const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string()) return Found::kNo;
    *text = value.get<std::string>();
    return Found::kYes;
  }

  bool IsArguments(const std::vector<std::string>& path) const {
    if (format_.name_is_key) return path.size() == 1;
    if (path == format_.arguments_path) return true;
    // Models of one family write both.
    const std::string& key = path.back();
    return path.size() == format_.arguments_path.size() &&
           std::equal(path.begin(), path.end() - 1, format_.arguments_path.begin()) &&
           (key == "arguments" || key == "parameters");
  }
  bool IsOnTheWay(const std::vector<std::string>& path) const {
    const auto begins = [&](const std::vector<std::string>& whole) {
      return path.size() < whole.size() && std::equal(path.begin(), path.end(), whole.begin());
    };
    return begins(format_.name_path) || begins(format_.arguments_path);
  }

  Found ReadMember(std::vector<std::string>* path) {
    std::string key;
    Found found = TakeText(&key);
    if (found == Found::kYes) found = Take(':');
    if (found == Found::kYes) found = SkipBlanks();
    if (found != Found::kYes) return found;
    path->push_back(key);
    if (format_.name_is_key) head_->name = key;
    if (IsArguments(*path) && !head_->name.empty()) {
      at_arguments_ = true;
      return Found::kYes;
    }
    if (IsOnTheWay(*path) && in_[at_] == '{') {
      ++at_;
      ++head_->depth;
      return Found::kYes;
    }
    if (*path == format_.name_path) {
      found = TakeText(&head_->name);
    } else if (IsArguments(*path)) {
      head_->has_arguments = false;
      found = in_[at_] == '"' || in_[at_] == '\'' ? TakeText(&head_->arguments)
                                                  : TakeValue(&head_->arguments);
    } else {
      std::string other;
      found = TakeValue(&other);
      if (key == "id" || key == "tool_call_id") {
        head_->id = nlohmann::json::parse(other, nullptr, false).is_string() && other.size() > 2
                        ? other.substr(1, other.size() - 2)
                        : other;
      }
    }
    path->pop_back();
    return found;
  }

  Found End() {
    if (head_->name.empty()) return Found::kNo;
    if (head_->has_arguments) head_->arguments = "{}";
    head_->has_arguments = false;
    return Found::kYes;
  }

  SymbolsView in_;
  const CallFormat& format_;
  CallHead* head_;
  size_t at_ = 0;
  bool at_arguments_ = false;
};

bool IsNameSymbol(char32_t c) {
  return c < 0x80 ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        c == '_' || c == '-' || c == '.'
                  : !IsToken(c);
}

// A part of a head that is no literal: up to the literal behind it, if there is one.
Found FindSlot(SymbolsView in, SymbolsView behind, size_t* at, std::string* text) {
  size_t end = *at;
  while (end < in.size() && IsBlank(in[end])) ++end;
  const size_t begin = end;
  while (end < in.size() && end - begin <= kLongestName) {
    const char32_t c = in[end];
    if (behind.empty() ? !IsNameSymbol(c) : IsBlank(c) || c == behind.front()) break;
    if (IsToken(c) || c == '"') return Found::kNo;
    ++end;
  }
  if (end == in.size()) return Found::kMore;
  if (end == begin || end - begin > kLongestName) return Found::kNo;
  *text = TextOf(in.substr(begin, end - begin), {});
  *at = end;
  return Found::kYes;
}

Found FindParts(SymbolsView in, const std::vector<HeadPart>& parts, const CallFormat& format,
                size_t* at, CallHead* head) {
  const size_t begin = *at;
  for (size_t i = 0; i < parts.size(); ++i) {
    Found found = Found::kYes;
    if (parts[i].kind == HeadPart::Kind::kLiteral) {
      found = FindMark(in, parts[i].text, at);
    } else {
      SymbolsView behind;
      if (i + 1 < parts.size()) behind = TrimLeft(parts[i + 1].text);
      std::string text;
      found = FindSlot(in, behind, at, &text);
      if (found == Found::kYes && parts[i].kind == HeadPart::Kind::kName) {
        // Where a format writes it twice it is the same.
        if (!head->name.empty() && head->name != text) return Found::kNo;
        head->name = std::move(text);
      } else if (found == Found::kYes && parts[i].kind == HeadPart::Kind::kId) {
        head->id = std::move(text);
      }
    }
    if (found != Found::kYes) return found;
    if (format.head_is_id && parts[i].kind == HeadPart::Kind::kIndex) {
      head->id = TextOf(Trim(in.substr(begin, *at - begin)), format.tokens);
    }
  }
  return head->name.empty() ? Found::kNo : Found::kYes;
}

}  // namespace

Found FindHead(SymbolsView in, const CallFormat& format, size_t* at, CallHead* head) {
  if (format.has_envelope()) {
    CallHead read;
    EnvelopeReader reader(in, format, &read);
    Found found = reader.Read(*at);
    if (found == Found::kYes) {
      *at = reader.at();
      *head = std::move(read);
    }
    if (found == Found::kMore && in.size() - *at > kLongestHead) found = Found::kNo;
    return found;
  }
  Found best = Found::kNo;
  for (const std::vector<HeadPart>& parts : format.heads) {
    CallHead read;
    size_t end = *at;
    const Found found = FindParts(in, parts, format, &end, &read);
    if (found == Found::kMore) best = found;
    if (found != Found::kYes) continue;
    *at = end;
    *head = std::move(read);
    return found;
  }
  return best;
}

Found FindRest(SymbolsView in, const CallFormat& format, size_t depth, size_t* at) {
  size_t i = *at;
  while (depth > 0) {
    while (i < in.size() && IsBlank(in[i])) ++i;
    if (i == in.size()) return Found::kMore;
    if (in[i] == '}') {
      ++i;
      --depth;
      continue;
    }
    if (in[i] != ',') return Found::kNo;
    ++i;
    // "key": value
    for (const char32_t behind : {U':', U'\0'}) {
      std::string skipped;
      ValueReader reader(format.notation, format.tokens);
      i += reader.Read(in.substr(i), /*last=*/false, &skipped);
      if (reader.state() == ValueReader::State::kBroken) return Found::kNo;
      if (reader.state() == ValueReader::State::kGoing) return Found::kMore;
      if (behind == 0) break;
      while (i < in.size() && IsBlank(in[i])) ++i;
      if (i == in.size()) return Found::kMore;
      if (in[i] != behind) return Found::kNo;
      ++i;
    }
  }
  *at = i;
  return Found::kYes;
}

}  // namespace ng::calls
