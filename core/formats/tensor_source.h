// Named tensors in files: what a model reader hands to the model, whatever the format.
//
// Opening a file reads and checks headers only. Data is read by position and never through a
// mapping, so a file that shrinks afterwards gives an error and not a signal.
#ifndef NG_CORE_FORMATS_TENSOR_SOURCE_H_
#define NG_CORE_FORMATS_TENSOR_SOURCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

// The element types a tensor may be stored in.
enum class DType : int32_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kComputed,  // f32 of codes and factors that no other type has; no file has it
  // GGUF's quantised types: blocks of values with their scales (ggml_blocks.h).
  kQ40,
  kQ41,
  kQ50,
  kQ51,
  kQ80,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kIq3Xxs,
  kIq3S,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq1S,
  kIq1M,
  kTq1,
  kTq2,
  kMxfp4,  // of safetensors too (mxfp4_source.h)
  // Of quantised checkpoints (quantised/block_writer.h): integers with factors in f32, then codes
  // of floats with such factors.
  kW4,
  kW4Minima,
  kW8,
  kW8Minima,
  kW4Span64,
  kW4Minima64,
  kW8Span64,
  kW8Minima64,
  kE4m3,
  kE4m3Span128,
  kNf4,
  kFp4,
  kNvfp4
};
std::string_view DTypeName(DType type);  // as the format spells it: "F32", "Q4_0"
int64_t DTypeBlock(DType type);          // elements in a block; 1 for types without blocks
int64_t DTypeBytes(DType type);          // bytes of a block
// Whether weights may have this type; ConvertToF32 accepts it.
bool IsWeightDType(DType type);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first
  int64_t n_elements = 0;      // product of shape
  int64_t n_bytes = 0;
};

std::string ShapeString(std::span<const int64_t> shape);  // "[480, 160]"

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // The file (or folder) that errors name.
  virtual const std::string& path() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;  // sorted by name
  // Reads a tensor's raw bytes from `first` on; on any thread. Errors: ModelFileError: the file is
  // too short or cannot be read. REQUIRES: `tensor` is one of tensors(); first + out.size() <=
  // n_bytes.
  virtual absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                              std::span<std::byte> out) const = 0;
  // Tells the system that bytes of a tensor will be read soon (InputFile::Announce). What no file
  // has as it is, nobody need announce. [any thread] REQUIRES: as ReadAt.
  virtual void Announce(const TensorInfo& /*tensor*/, int64_t /*first*/,
                        int64_t /*n_bytes*/) const {}
  // What the source keeps in memory, besides `out`, while it reads this tensor.
  virtual int64_t ReadingBytes(const TensorInfo& /*tensor*/) const { return 0; }
  // Reads all bytes of a tensor. REQUIRES: out.size() == n_bytes.
  absl::Status Read(const TensorInfo& tensor, std::span<std::byte> out) const {
    return ReadAt(tensor, 0, out);
  }

  // The tensor with this name, or null.
  const TensorInfo* Find(std::string_view name) const;
};

// Converts stored elements to f32: exactly (F32, F16, BF16), or as their format computes them
// (quantised). REQUIRES: IsWeightDType(dtype); `data` has out.size() elements, in whole blocks.
void ConvertToF32(DType dtype, const std::byte* data, std::span<float> out);

}  // namespace ng

#endif  // NG_CORE_FORMATS_TENSOR_SOURCE_H_
