#include "core/text/chat/calls/symbols.h"

namespace ng::calls {

Symbols SymbolsOf(std::string_view text) {
  Symbols symbols;
  symbols.reserve(text.size());
  for (const char c : text) symbols += static_cast<unsigned char>(c);
  return symbols;
}

std::string TextOf(SymbolsView symbols, const TokenTexts& tokens) {
  std::string text;
  for (const char32_t symbol : symbols) {
    if (!IsToken(symbol)) {
      text += static_cast<char>(symbol);
    } else if (const auto token = tokens.find(symbol); token != tokens.end()) {
      text += token->second;
    }
  }
  return text;
}

SymbolsView TrimLeft(SymbolsView symbols) {
  while (!symbols.empty() && IsBlank(symbols.front())) symbols.remove_prefix(1);
  return symbols;
}

SymbolsView TrimRight(SymbolsView symbols) {
  while (!symbols.empty() && IsBlank(symbols.back())) symbols.remove_suffix(1);
  return symbols;
}

Found FindMark(SymbolsView in, SymbolsView mark, size_t* at) {
  mark = Trim(mark);
  if (mark.empty()) return Found::kYes;
  size_t i = *at;
  const auto skip_blanks = [&] {
    while (i < in.size() && IsBlank(in[i])) ++i;
  };
  skip_blanks();
  for (size_t k = 0; k < mark.size(); ++k) {
    if (IsBlank(mark[k])) {
      skip_blanks();
      continue;
    }
    if (i == in.size()) return Found::kMore;
    if (in[i] != mark[k]) return Found::kNo;
    ++i;
  }
  *at = i;
  return Found::kYes;
}

}  // namespace ng::calls
