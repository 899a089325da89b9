// The page's own text, which the build puts into the program (apps/view/embed.cmake).
#ifndef NG_APPS_EVAL_PAGE_PAGE_TEXT_H_
#define NG_APPS_EVAL_PAGE_PAGE_TEXT_H_

#include <string_view>

namespace ng::eval {

extern const std::string_view kPageBefore;  // what comes before the card's data
extern const std::string_view kPageAfter;   // and behind it

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_PAGE_PAGE_TEXT_H_
