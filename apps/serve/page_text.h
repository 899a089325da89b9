// The text of the page at /, which the build puts together (apps/view/embed.cmake). What it needs
// to know of the server goes between the two.
#ifndef NG_APPS_SERVE_PAGE_TEXT_H_
#define NG_APPS_SERVE_PAGE_TEXT_H_

#include <string_view>

namespace ng::serve {

extern const std::string_view kPageBefore;
extern const std::string_view kPageAfter;

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_PAGE_TEXT_H_
