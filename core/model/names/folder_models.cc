#include "core/model/names/folder_models.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"
#include "core/formats/gguf.h"
#include "core/formats/json.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

std::optional<int64_t> Digits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Adds the file's size to the model; a fault where there is nothing.
void AddFile(const fs::path& path, FoundModel* model) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (!error && size > 0) {
    model->shown.bytes += static_cast<int64_t>(size);
  } else if (model->shown.fault.empty()) {
    std::error_code ignored;
    const bool link = fs::is_symlink(fs::symlink_status(path, ignored));
    const bool gone = error == std::errc::no_such_file_or_directory;
    model->shown.fault = absl::StrCat(path.filename().string(),
                                      !error         ? std::string(" is empty")
                                      : gone && link ? std::string(" is a link that leads nowhere")
                                      : gone         ? std::string(" is missing")
                                                     : absl::StrCat(": ", error.message()));
  }
}

// Every file of a model in parts, of which this is one.
void AddParts(const fs::path& folder, const ModelPart& part, const char* ending,
              FoundModel* model) {
  constexpr int64_t kMostParts = 10000;
  for (int64_t i = 1; i <= std::min(part.count, kMostParts); ++i) {
    AddFile(folder / absl::StrFormat("%s-%05d-of-%05d%s", part.stem, i, part.count, ending), model);
  }
}

// One level of a folder.
struct Entries {
  std::vector<fs::path> folders;
  std::vector<fs::path> ggufs;
  std::vector<fs::path> safetensors;
  bool config = false;
  bool index = false;    // of the weights in several files
  bool adapter = false;  // what changes another model's weights
  bool pickled = false;  // weights in a form that is not read

  bool any_weights() const { return !safetensors.empty() || index || pickled; }
};

Entries EntriesOf(const fs::path& folder) {
  Entries entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    const std::string name = path.filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      if (!name.starts_with('.')) entries.folders.push_back(path);
    } else if (absl::EndsWithIgnoreCase(name, ".gguf")) {
      entries.ggufs.push_back(path);
    } else if (name.ends_with(".safetensors")) {
      entries.safetensors.push_back(path);
    } else {
      entries.config |= name == "config.json";
      entries.index |= name == kIndex;
      entries.adapter |= name == "adapter_config.json";
      entries.pickled |= name.starts_with("pytorch_model") && name.ends_with(".bin");
    }
  }
  for (auto* paths : {&entries.folders, &entries.ggufs, &entries.safetensors}) {
    std::ranges::sort(*paths);
  }
  return entries;
}

void SetFault(std::string_view fault, FoundModel* model) {
  if (model->shown.fault.empty()) model->shown.fault = fault;
}

// What config.json says of the model.
void ReadFamily(const fs::path& path, FoundModel* model) {
  const absl::StatusOr<JsonDocument> document = ReadJsonFile(path.string());
  if (!document.ok()) return SetFault(std::string(document.status().message()), model);
  const nlohmann::json& config = **document;
  if (!config.is_object()) return SetFault("config.json is no JSON object", model);
  const auto text = [&](const char* key) -> std::string {
    const auto found = config.find(key);
    return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  model->shown.family = text("model_type");
  std::string type = text("torch_dtype");
  if (type.empty()) type = text("dtype");
  model->shown.type = type == "bfloat16"  ? "bf16"
                      : type == "float16" ? "f16"
                      : type == "float32" ? "f32"
                                          : type;
}

// The files that an index names.
void AddIndexed(const fs::path& folder, FoundModel* model) {
  const absl::StatusOr<JsonDocument> document = ReadJsonFile((folder / kIndex).string());
  if (!document.ok()) return SetFault(std::string(document.status().message()), model);
  const nlohmann::json& index = **document;
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object()) return;
  std::set<std::string> files;
  for (const nlohmann::json& file : *map) {
    if (file.is_string()) files.insert(file.get<std::string>());
  }
  for (const std::string& file : files) AddFile(folder / file, model);
}

// The weights, of which the same are counted as are read.
void AddWeights(const fs::path& folder, const Entries& entries, FoundModel* model) {
  const fs::path whole = folder / "model.safetensors";
  if (std::ranges::count(entries.safetensors, whole) != 0) return AddFile(whole, model);
  if (entries.index) return AddIndexed(folder, model);
  int64_t n_parts = 0;
  for (const fs::path& path : entries.safetensors) {
    const ModelPart part = PartOf(path.stem().string());
    if (part.count == 1) {
      AddFile(path, model);
    } else if (n_parts != part.count) {  // of one model all parts are counted with its first file
      n_parts = part.count;
      AddParts(folder, part, ".safetensors", model);
    }
  }
}

FoundModel FolderModel(const fs::path& folder, const Entries& entries) {
  FoundModel model;
  model.shown.path = folder.string();
  if (entries.config) {
    ReadFamily(folder / "config.json", &model);
  } else {
    SetFault(entries.adapter ? "is an adapter of another model, which is not read"
                             : "there is no config.json",
             &model);
  }
  AddWeights(folder, entries, &model);
  if (entries.safetensors.empty() && !entries.index) {
    SetFault(entries.pickled ? "its weights are pytorch_model.bin, which is not read"
                             : "there are no weights (.safetensors)",
             &model);
  }
  return model;
}

// Whether one of the files before this one is there.
bool HasEarlier(const fs::path& folder, const ModelPart& part) {
  std::error_code error;
  for (int64_t i = 1; i < part.number; ++i) {
    const std::string name = absl::StrFormat("%s-%05d-of-%05d.gguf", part.stem, i, part.count);
    if (fs::exists(fs::symlink_status(folder / name, error))) return true;
  }
  return false;
}

// A GGUF file; nothing for one that is no model of its own.
std::optional<FoundModel> GgufModel(const fs::path& path) {
  FoundModel model;
  model.file = path.stem().string();
  if (IsBesideModel(model.file)) return std::nullopt;
  const ModelPart part = PartOf(model.file);
  if (HasEarlier(path.parent_path(), part)) return std::nullopt;
  model.shown.path = path.string();
  model.shown.type = model.quant = model.tag = QuantOf(part.stem);
  if (part.count > 1) {
    AddParts(path.parent_path(), part, ".gguf", &model);
  } else {
    AddFile(path, &model);
  }
  if (model.shown.fault.empty()) model.shown.family = GgufArchitecture(path.string());
  if (model.shown.family == "clip") return std::nullopt;  // what turns images into embeddings
  return model;
}

// Reads a folder and those in it, each once however many links lead there.
class Reader {
 public:
  explicit Reader(std::vector<FoundModel>* models) : models_(models) {}

  // `inside`: of a folder that holds a model itself.
  void Read(const fs::path& folder, const std::string& base, int depth, bool inside) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || !seen_.insert(real.string()).second) return;
    const Entries entries = EntriesOf(folder);
    const auto n_before = static_cast<std::ptrdiff_t>(models_->size());
    // Beside a model there may be folders with a config.json or weights of something else.
    const bool of_folder = entries.config ? entries.any_weights() || entries.ggufs.empty()
                                          : !entries.safetensors.empty();
    const bool whole = entries.config && entries.any_weights();
    if (of_folder && (whole || !inside)) models_->push_back(FolderModel(folder, entries));
    for (const fs::path& path : entries.ggufs) {
      if (std::optional<FoundModel> model = GgufModel(path)) models_->push_back(*std::move(model));
    }
    for (auto model = models_->begin() + n_before; model != models_->end(); ++model) {
      model->base = base;
      model->within =
          base.empty() || model->file.empty() ? model->file : absl::StrCat(base, "/", model->file);
    }
    if (depth == 0) return;
    for (const fs::path& path : entries.folders) {
      const std::string name = path.filename().string();
      Read(path, base.empty() ? name : absl::StrCat(base, "/", name), depth - 1,
           inside || of_folder);
    }
  }

 private:
  std::vector<FoundModel>* models_;
  std::set<std::string> seen_;
};

}  // namespace

void TellApart(std::vector<FoundModel>* models) {
  const auto tag_of = [](const FoundModel& model) {
    return absl::AsciiStrToLower(absl::StrCat(model.base, "@", model.revision, ":", model.tag));
  };
  for (const std::string FoundModel::*const name : {&FoundModel::file, &FoundModel::within}) {
    std::map<std::string, int> counts;
    for (const FoundModel& model : *models) ++counts[tag_of(model)];
    for (FoundModel& model : *models) {
      if (model.file.empty()) continue;
      if (model.tag.empty() || counts[tag_of(model)] > 1) model.tag = model.*name;
    }
  }
}

ModelPart PartOf(const std::string& stem) {
  constexpr size_t kEnding = 15;
  if (stem.size() <= kEnding) return {.stem = stem};
  const std::string_view ending = std::string_view(stem).substr(stem.size() - kEnding);
  const std::optional<int64_t> number = Digits(ending.substr(1, 5));
  const std::optional<int64_t> count = Digits(ending.substr(10));
  if (ending[0] != '-' || ending.substr(6, 4) != "-of-" || !number || !count) return {.stem = stem};
  return {*number, *count, stem.substr(0, stem.size() - kEnding)};
}

bool IsBesideModel(const std::string& file) {
  const std::string name = absl::AsciiStrToLower(file);
  return absl::StrContains(name, "mmproj") || absl::StrContains(name, "imatrix");
}

std::string QuantOf(std::string_view file) {
  constexpr std::string_view kBounds = "-._";
  constexpr std::string_view kWhole[] = {"F32", "F16", "BF16", "MXFP4", "FP16", "FP32"};
  const std::string name = absl::AsciiStrToUpper(View(file));
  // The last one counts: the model's own name stands before it.
  for (size_t begin = name.size(); begin-- > 0;) {
    if (begin > 0 && kBounds.find(name[begin - 1]) == kBounds.npos) continue;
    const std::string_view rest = std::string_view(name).substr(begin);
    const size_t letters = rest.starts_with("IQ") || rest.starts_with("TQ") ? 2
                           : rest.starts_with("Q")                          ? 1
                                                                            : 0;
    const bool digit = letters > 0 && rest.size() > letters && absl::ascii_isdigit(rest[letters]);
    if (digit) return std::string(rest.substr(0, rest.find_first_of("-.")));
    for (const std::string_view word : kWhole) {
      const bool ends = rest.size() == word.size() ||
                        kBounds.find(rest[std::min(word.size(), rest.size() - 1)]) != kBounds.npos;
      if (rest.starts_with(word) && ends) return std::string(word);
    }
  }
  return {};
}

std::vector<FoundModel> ModelsIn(const std::string& folder, int depth) {
  std::vector<FoundModel> models;
  Reader(&models).Read(folder, "", depth, /*inside=*/false);
  return models;
}

}  // namespace ng
