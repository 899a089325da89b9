#include "apps/common/token_text.h"

#include "ng/utf8.h"

namespace ng {

absl::StatusOr<std::string> VisibleToken(const Engine& engine, int32_t id) {
  NG_ASSIGN_OR_RETURN(const std::string bytes, engine.Decode({&id, 1}));
  return VisibleText(bytes);
}

}  // namespace ng
