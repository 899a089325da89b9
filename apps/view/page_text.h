// The page's own text, which the build puts into the program: page.html with its style sheet and
// its scripts (embed.cmake).
#ifndef NG_APPS_VIEW_PAGE_TEXT_H_
#define NG_APPS_VIEW_PAGE_TEXT_H_

#include <string_view>

namespace ng::view {

extern const std::string_view kPageBefore;  // what comes before the run's data
extern const std::string_view kPageAfter;   // and behind it

}  // namespace ng::view

#endif  // NG_APPS_VIEW_PAGE_TEXT_H_
