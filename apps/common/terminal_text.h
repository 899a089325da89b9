// Text that somebody else wrote, as a terminal may be given it: what a model answers, what a file
// or a tensor is called.
//
// Thread: pure functions.
#ifndef NG_APPS_COMMON_TERMINAL_TEXT_H_
#define NG_APPS_COMMON_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace ng {

// The text with what could steer a terminal, or turn the order of what follows, made visible. ESC
// becomes ^[, U+009B <U+009B>, U+202E <U+202E>, and a byte that is no UTF-8 <0x9B>. Ends of lines
// and tabs stay.
std::string TerminalText(std::string_view text);

// Whether TerminalText would change it.
bool SteersTerminal(std::string_view text);

}  // namespace ng

#endif  // NG_APPS_COMMON_TERMINAL_TEXT_H_
