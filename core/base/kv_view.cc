#include "ng/kv_view.h"

namespace ng {

std::string AllCodecNames() {
  std::string names;
  for (const CodecInfo& info : kCodecTable) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

}  // namespace ng
