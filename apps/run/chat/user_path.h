// Paths as a user types them.
#ifndef NG_APPS_RUN_CHAT_USER_PATH_H_
#define NG_APPS_RUN_CHAT_USER_PATH_H_

#include <cstdlib>
#include <string>

namespace ng::run {

// "~/" at the beginning is the home folder, as no shell has seen the path.
inline std::string UserPath(const std::string& typed) {
  const char* const home = std::getenv("HOME");
  return typed.starts_with("~/") && home != nullptr ? home + typed.substr(1) : typed;
}

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_USER_PATH_H_
