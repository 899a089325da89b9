// Memory that is kept back for code that does not survive a failed allocation: destructors that
// allocate while an exception unwinds (those of the JSON library), and the whole SentencePiece
// library.
//
// While a reserve exists, an allocation of its thread that fails gives the reserve back and is
// tried again. If there is no memory for the reserve itself, the constructor throws bad_alloc.
#ifndef NG_MEMORY_RESERVE_H_
#define NG_MEMORY_RESERVE_H_

#include <cstddef>

#pragma GCC visibility push(default)
namespace ng {

class MemoryReserve {
 public:
  enum class For {
    kUnwinding,   // only while an exception unwinds; other failures throw as usual
    kEverything,  // the caller asks afterwards whether it was used
  };
  MemoryReserve(size_t bytes, For purpose);
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve();

  // Whether an allocation has used it.
  bool used() const { return memory_ == nullptr; }

 private:
  static void OnFailedAllocation();

  void* memory_;
  For purpose_;
  MemoryReserve* outer_;  // the reserve around this one, on the same thread
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_MEMORY_RESERVE_H_
