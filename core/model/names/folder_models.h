// The models in a folder, as names, sizes and links tell: no weights are read.
#ifndef NG_CORE_MODEL_NAMES_FOLDER_MODELS_H_
#define NG_CORE_MODEL_NAMES_FOLDER_MODELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/names/found_model.h"

namespace ng {

// The models in `folder` and, down to `depth` levels, in the folders in it, by path: each folder
// with a config.json and weights, and each GGUF file (of several that hold one model the first). A
// model's `base` is the path of its folder in `folder`, empty for `folder` itself. A model of which
// a file is missing has a fault. A folder that is not there has none.
std::vector<FoundModel> ModelsIn(const std::string& folder, int depth);

// Gives the models of one base and revision tags that differ: what their files say of the weights,
// or else the files' names, or their places.
void TellApart(std::vector<FoundModel>* models);

// The number of a file among those that hold one model, "-00001-of-00003"; 1 of 1 where its name
// has none. `stem`: the file's name without ending, and what stands before the number.
struct ModelPart {
  int64_t number = 1;
  int64_t count = 1;
  std::string stem;
};
ModelPart PartOf(const std::string& stem);

// Whether a GGUF file is beside a model, as its name says: what turns images into embeddings, or
// what a quantiser has measured.
bool IsBesideModel(const std::string& file);

// What a file's name says of its weights: "Q4_K_M" of "qwen3-0.6b-q4_k_m.gguf"; empty: nothing.
std::string QuantOf(std::string_view file);

}  // namespace ng

#endif  // NG_CORE_MODEL_NAMES_FOLDER_MODELS_H_
