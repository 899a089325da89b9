// Texts as a reader of answers sees them: a symbol is a byte, or a token that the template writes
// as a mark. So a mark that is spelled in other tokens is text.
#ifndef NG_CORE_TEXT_CHAT_CALLS_SYMBOLS_H_
#define NG_CORE_TEXT_CHAT_CALLS_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ng::calls {

// Below kFirstToken a byte, else kFirstToken + the id of a token.
using Symbols = std::u32string;
using SymbolsView = std::u32string_view;
inline constexpr char32_t kFirstToken = 0x100;

inline constexpr bool IsToken(char32_t symbol) { return symbol >= kFirstToken; }
inline constexpr bool IsBlank(char32_t symbol) {
  return symbol == ' ' || symbol == '\n' || symbol == '\t' || symbol == '\r';
}

// The texts of the tokens that are symbols.
using TokenTexts = std::map<char32_t, std::string>;

// Each byte as a symbol.
Symbols SymbolsOf(std::string_view text);
// The text of symbols; a token that is not in `tokens` has none.
std::string TextOf(SymbolsView symbols, const TokenTexts& tokens);

SymbolsView TrimLeft(SymbolsView symbols);
SymbolsView TrimRight(SymbolsView symbols);
inline SymbolsView Trim(SymbolsView symbols) { return TrimLeft(TrimRight(symbols)); }

// What a beginning of symbols is.
enum class Found {
  kNo,
  kMore,  // what follows decides
  kYes,
};

// Whether `in` has the mark at `*at`, which moves behind it. Blanks before the mark may be there,
// and those in it may be others.
Found FindMark(SymbolsView in, SymbolsView mark, size_t* at);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_SYMBOLS_H_
