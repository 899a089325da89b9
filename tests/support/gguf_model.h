// Models of other formats as GGUF files, in the conventions of its architectures.
#ifndef NG_TESTS_SUPPORT_GGUF_MODEL_H_
#define NG_TESTS_SUPPORT_GGUF_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/model/files/model_file.h"
#include "tests/support/gguf_builder.h"

namespace ng::test {

// Adds one matrix, by its GGUF name: values [shape] as f32.
using AddMatrix =
    std::function<void(GgufBuilder& gguf, const std::string& name,
                       const std::vector<int64_t>& shape, const std::vector<float>& values)>;

// The keys that an architecture needs for a model of this spec.
GgufBuilder GgufKeys(const ModelSpec& spec, const std::string& architecture);

// The tensors of a model, q and k of llama in pairs; vectors and positions are F32.
void AddTensors(const ModelFile& model, const AddMatrix& add_matrix, GgufBuilder* gguf);

// Both, with matrices of F32, F16 or BF16.
GgufBuilder GgufOf(const ModelFile& model, const std::string& architecture, DType dtype);

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_GGUF_MODEL_H_
