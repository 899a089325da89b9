#include "core/model/names/folder_models.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
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

constexpr const char* kNowhere = " is a link that leads nowhere";

// The number of a file among those that hold one model, "-00001-of-00003".
struct Part {
  int64_t number = 1;
  int64_t count = 1;
  std::string stem;  // what stands before
};

std::optional<int64_t> Digits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Part PartOf(const std::string& stem) {
  constexpr size_t kEnding = 15;
  if (stem.size() <= kEnding) return {.stem = stem};
  const std::string_view ending = std::string_view(stem).substr(stem.size() - kEnding);
  const std::optional<int64_t> number = Digits(ending.substr(1, 5));
  const std::optional<int64_t> count = Digits(ending.substr(10));
  if (ending[0] != '-' || ending.substr(6, 4) != "-of-" || !number || !count) return {.stem = stem};
  return {*number, *count, stem.substr(0, stem.size() - kEnding)};
}

// Adds the file's size to the model; a fault where it is not there.
void AddFile(const fs::path& path, FoundModel* model) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (!error) {
    model->shown.bytes += static_cast<int64_t>(size);
  } else if (model->shown.fault.empty()) {
    const bool link = fs::is_symlink(fs::symlink_status(path, error));
    model->shown.fault = absl::StrCat(path.filename().string(), link ? kNowhere : " is missing");
  }
}

// Every file of a model in parts, of which this is one.
void AddParts(const fs::path& folder, const Part& part, const char* ending, FoundModel* model) {
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
  bool pickled = false;  // weights in a form that is not read
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
    } else if (name == "config.json") {
      entries.config = true;
    } else if (name.ends_with(".gguf")) {
      entries.ggufs.push_back(path);
    } else if (name.ends_with(".safetensors")) {
      entries.safetensors.push_back(path);
    } else {
      entries.pickled |= name.starts_with("pytorch_model") && name.ends_with(".bin");
    }
  }
  for (auto* paths : {&entries.folders, &entries.ggufs, &entries.safetensors}) {
    std::ranges::sort(*paths);
  }
  return entries;
}

// What config.json says of the model; nothing where it cannot be read.
void ReadFamily(const fs::path& path, NamedModel* model) {
  const absl::StatusOr<JsonDocument> document = ReadJsonFile(path.string());
  if (!document.ok()) {
    if (model->fault.empty()) model->fault = std::string(document.status().message());
    return;
  }
  const nlohmann::json& config = **document;
  const auto text = [&](const char* key) -> std::string {
    if (!config.is_object()) return {};
    const auto found = config.find(key);
    return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  model->family = text("model_type");
  std::string type = text("torch_dtype");
  if (type.empty()) type = text("dtype");
  model->type = type == "bfloat16"  ? "bf16"
                : type == "float16" ? "f16"
                : type == "float32" ? "f32"
                                    : type;
}

FoundModel FolderModel(const fs::path& folder, const Entries& entries) {
  FoundModel model;
  model.shown.path = folder.string();
  ReadFamily(folder / "config.json", &model.shown);
  int64_t n_parts = 0;
  for (const fs::path& path : entries.safetensors) {
    const Part part = PartOf(path.stem().string());
    if (part.count == 1) {
      AddFile(path, &model);
    } else if (n_parts != part.count) {  // of one model all parts are counted with its first file
      n_parts = part.count;
      AddParts(folder, part, ".safetensors", &model);
    }
  }
  if (entries.safetensors.empty() && model.shown.fault.empty()) {
    model.shown.fault = entries.pickled ? "its weights are pytorch_model.bin, which is not read"
                                        : "there are no weights (.safetensors)";
  }
  return model;
}

// A GGUF file; nothing for one that is no model of its own.
std::optional<FoundModel> GgufModel(const fs::path& path) {
  FoundModel model;
  model.file = path.stem().string();
  if (absl::StartsWithIgnoreCase(model.file, "mmproj")) return std::nullopt;
  const Part part = PartOf(model.file);
  if (part.number != 1) return std::nullopt;
  model.shown.path = path.string();
  model.shown.type = model.tag = QuantOf(part.stem);
  if (part.count == 1) {
    AddFile(path, &model);
  } else {
    AddParts(path.parent_path(), part, ".gguf", &model);
  }
  if (model.shown.fault.empty()) model.shown.family = GgufArchitecture(path.string());
  return model;
}

// Where two files of a folder say the same of their weights, they go by their own names.
void TellApart(std::vector<FoundModel>::iterator begin, std::vector<FoundModel>::iterator end) {
  std::vector<std::string> tags;
  for (auto model = begin; model != end; ++model) tags.push_back(absl::AsciiStrToLower(model->tag));
  for (auto model = begin; model != end; ++model) {
    if (model->file.empty()) continue;
    const auto same = std::ranges::count(tags, absl::AsciiStrToLower(model->tag));
    if (model->tag.empty() || same > 1) model->tag = model->file;
  }
}

void AddModels(const fs::path& folder, const std::string& base, int depth,
               std::vector<FoundModel>* models) {
  const Entries entries = EntriesOf(folder);
  const auto n_before = static_cast<std::ptrdiff_t>(models->size());
  const bool other_weights = !entries.safetensors.empty() || entries.pickled;
  if (entries.config && (other_weights || entries.ggufs.empty())) {
    models->push_back(FolderModel(folder, entries));
  }
  for (const fs::path& path : entries.ggufs) {
    if (std::optional<FoundModel> model = GgufModel(path)) models->push_back(*std::move(model));
  }
  for (auto model = models->begin() + n_before; model != models->end(); ++model) model->base = base;
  TellApart(models->begin() + n_before, models->end());
  if (depth == 0) return;
  for (const fs::path& path : entries.folders) {
    const std::string name = path.filename().string();
    AddModels(path, base.empty() ? name : absl::StrCat(base, "/", name), depth - 1, models);
  }
}

}  // namespace

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
  AddModels(folder, "", depth, &models);
  return models;
}

}  // namespace ng
