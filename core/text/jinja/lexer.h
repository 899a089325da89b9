// Template text -> tokens, with the whitespace rules that transformers sets: a line end after a
// block is dropped, and so are the spaces before a block at the beginning of a line.
#ifndef NG_CORE_TEXT_JINJA_LEXER_H_
#define NG_CORE_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng::jinja {

enum class TokenType {
  kData,           // text of the template
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kText,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // of a text literal: what it stands for
  int64_t integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const { return type == TokenType::kName && text == name; }
  bool IsOperator(std::string_view name) const {
    return type == TokenType::kOperator && text == name;
  }
};

// REQUIRES: `source` is valid UTF-8. Errors: ModelFileError with the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, const std::string& name);

// A token as errors show it.
std::string Shown(const Token& token);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_LEXER_H_
