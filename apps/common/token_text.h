// A token as a reader can tell it from others.
#ifndef NG_APPS_COMMON_TOKEN_TEXT_H_
#define NG_APPS_COMMON_TOKEN_TEXT_H_

#include <cstdint>
#include <string>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// VisibleText of the token's bytes. Errors: those of Engine::Decode; so without a tokenizer.
absl::StatusOr<std::string> VisibleToken(const Engine& engine, int32_t id);

}  // namespace ng

#endif  // NG_APPS_COMMON_TOKEN_TEXT_H_
