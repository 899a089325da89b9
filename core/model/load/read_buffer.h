// ReadBuffer: where the loader reads one tensor after another.
//
// Taken from the system once and used again: fresh pages cost more than the reading itself. Not
// thread-safe; the memory may be filled by many.
#ifndef NG_CORE_MODEL_LOAD_READ_BUFFER_H_
#define NG_CORE_MODEL_LOAD_READ_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ng/status.h"

namespace ng {

class ReadBuffer {
 public:
  // `bytes` of memory with anything in them, owned by the buffer until the next call. Where they
  // are more than ever before, the memory so far is given back first. Errors: LimitError.
  absl::StatusOr<std::byte*> Get(int64_t bytes);

 private:
  std::shared_ptr<std::byte> memory_;
  int64_t size_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_READ_BUFFER_H_
