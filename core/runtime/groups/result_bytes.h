// What a group of ranks tells rank 0 of its requests, as bytes: steps, completions, and plain
// numbers. Written and read by processes of the same build (Assembly::AgreeOnSetup), so the bytes
// are those of memory.
#ifndef NG_CORE_RUNTIME_GROUPS_RESULT_BYTES_H_
#define NG_CORE_RUNTIME_GROUPS_RESULT_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/cursor.h"
#include "ng/request.h"

namespace ng {

class ResultWriter {
 public:
  void Write(int64_t number);
  void Write(std::string_view text);
  void Write(const StepRecord& record);
  void Write(const Completion& completion);

  bool empty() const { return bytes_.empty(); }
  // All that was written since it was taken before.
  std::string Take();

 private:
  std::string bytes_;
};

class ResultReader {
 public:
  // `bytes` is borrowed.
  explicit ResultReader(std::string_view bytes) : cursor_(bytes) {}

  bool at_end() const { return cursor_.at_end(); }
  // Whether it was there as a whole.
  bool Read(int64_t* number);
  bool Read(std::string* text);
  bool Read(StepRecord* record);
  bool Read(Completion* completion);

 private:
  Cursor cursor_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_GROUPS_RESULT_BYTES_H_
