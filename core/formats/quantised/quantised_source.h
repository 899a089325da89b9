// A file's quantised matrices under their plain names, each as one tensor of values.
#ifndef NG_CORE_FORMATS_QUANTISED_QUANTISED_SOURCE_H_
#define NG_CORE_FORMATS_QUANTISED_QUANTISED_SOURCE_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/formats/quantised/matrix_form.h"
#include "core/formats/tensor_source.h"

namespace ng {

// The tensors of `inner`, but those that the matrices are made of and those in `dropped`; and the
// matrices.
std::unique_ptr<TensorSource> MakeQuantisedSource(std::unique_ptr<TensorSource> inner,
                                                  std::vector<MatrixForm> matrices,
                                                  const std::set<std::string>& dropped);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_QUANTISED_SOURCE_H_
