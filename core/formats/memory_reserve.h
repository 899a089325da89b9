// Memory kept back for what does not survive a failed allocation: destructors that allocate (those
// of the JSON library) while an exception unwinds, and the SentencePiece library as a whole.
//
// While one stands, a failed allocation of its thread is tried again with the reserve given up.
// Without memory for the reserve itself nothing is begun: the constructor throws bad_alloc.
#ifndef NG_CORE_FORMATS_MEMORY_RESERVE_H_
#define NG_CORE_FORMATS_MEMORY_RESERVE_H_

#include <cstddef>

namespace ng {

class MemoryReserve {
 public:
  enum class For {
    kUnwinding,   // other failures are exceptions, as ever
    kEverything,  // the caller asks afterwards whether it was used
  };
  MemoryReserve(size_t bytes, For purpose);
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve();

  // Whether an allocation has needed it.
  bool used() const { return memory_ == nullptr; }

 private:
  static void OnFailedAllocation();

  void* memory_;
  For purpose_;
  MemoryReserve* outer_;  // of the same thread
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_MEMORY_RESERVE_H_
