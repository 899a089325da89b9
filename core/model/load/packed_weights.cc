#include "core/model/load/packed_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/checked.h"
#include "core/base/cursor.h"
#include "core/base/hash.h"
#include "core/formats/json.h"
#include "core/model/load/file_types.h"
#include "core/model/load/load_weights.h"
#include "core/model/load/weight_memory.h"
#include "core/model/weights/weight_sizes.h"
#include "ng/files.h"

namespace ng {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie");

constexpr std::string_view kMagic = "NGPACKED";
constexpr uint32_t kVersion = 1;
// Another number when packed_matrix.h, MakeWeights or ForEachVector lay anything out differently.
constexpr uint32_t kLayout = 1;
constexpr int64_t kFixedBytes = 24;  // up to the text
constexpr int64_t kChecksumBytes = 8;
constexpr int64_t kPage = 4096;
constexpr int64_t kMostTextBytes = int64_t{1} << 24;
constexpr int64_t kHeadBytes = int64_t{1} << 20;  // of each file of the model
constexpr int64_t kPiece = int64_t{1} << 22;      // written or compared at a time
constexpr int64_t kMost = int64_t{1} << 60;       // bytes or values: more than any file has

int64_t WholePages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

absl::Status CheckStop(const std::atomic<bool>* stop) {
  if (stop == nullptr || !stop->load()) return absl::OkStatus();
  return InterruptedError("interrupted in a file of packed weights");
}

uint64_t HashOfTypes(const WeightTypes& types) {
  std::string text;
  for (const WeightType type : types.All()) absl::StrAppend(&text, View(WeightTypeName(type)), " ");
  return HashOf(text);
}

// The names in the model's folder that its weights depend on; of a GGUF file its own, and those of
// all its parts where it is one of several.
bool IsSource(const std::string& name, const std::string& gguf) {
  if (gguf.empty()) {
    return name == "config.json" || name.ends_with(".safetensors") ||
           name.ends_with(".safetensors.index.json");
  }
  const size_t of = gguf.rfind("-of-");
  constexpr size_t kNumber = 6;  // "-00001"
  if (of == std::string::npos || of < kNumber) return name == gguf;
  return name.size() == gguf.size() &&
         name.substr(0, of - kNumber) == gguf.substr(0, of - kNumber) &&
         name.substr(of) == gguf.substr(of);
}

absl::StatusOr<std::vector<SourceFile>> SourcesOf(const std::string& model_path) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(model_path, error);
  const std::string folder = is_folder ? model_path : FolderOf(model_path);
  const std::string gguf = is_folder ? "" : std::filesystem::path(model_path).filename().string();
  std::vector<std::string> names;
  if (const std::error_code failed = ListDirectory(folder, &names)) {
    return ModelFileError(absl::StrCat(folder, ": cannot list: ", failed.message()));
  }
  std::vector<SourceFile> sources;
  for (const std::string& name : names) {
    if (!IsSource(name, gguf)) continue;
    NG_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(absl::StrCat(folder, "/", name)));
    std::vector<std::byte> head(static_cast<size_t>(std::min(file.size(), kHeadBytes)));
    NG_RETURN_IF_ERROR(file.ReadAt(0, head));
    sources.push_back({name, file.size(), file.modified_ns(), HashOf(head)});
  }
  return sources;
}

// The text of a packed file.
std::string ToText(const PackedText& text) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const SourceFile& source : text.sources) {
    sources.push_back({{"name", source.name},
                       {"size", source.size},
                       {"modified_ns", source.modified_ns},
                       {"head_hash", HexOf(source.head_hash)}});
  }
  const nlohmann::ordered_json json = {{"sources", sources},
                                       {"weights", text.weights},
                                       {"types_hash", HexOf(text.types_hash)},
                                       {"matrix_bytes", text.matrix_bytes},
                                       {"n_values", text.n_values},
                                       {"tensors_hash", HexOf(text.tensors_hash)},
                                       {"matrices_hash", HexOf(text.matrices_hash)},
                                       {"vectors_hash", HexOf(text.vectors_hash)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<uint64_t> HashField(const JsonFields& fields, std::string_view key) {
  NG_ASSIGN_OR_RETURN(const std::string text, fields.Text(key));
  uint64_t hash = 0;
  if (text.size() == 16 && absl::SimpleHexAtoi(text, &hash)) return hash;
  return ModelFileError(absl::StrCat("key \"", View(key), "\" = ", JsonExcerpt(text),
                                     ", must be 16 hexadecimal digits"));
}

absl::StatusOr<PackedText> FromText(std::string_view bytes, const std::string& name) {
  NG_ASSIGN_OR_RETURN(const JsonDocument json, ParseJson(bytes, name, /*max_depth=*/4));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, name));
  PackedText text;
  NG_ASSIGN_OR_RETURN(text.weights, fields.Text("weights"));
  NG_ASSIGN_OR_RETURN(text.matrix_bytes, fields.Int("matrix_bytes", {1, kMost}));
  NG_ASSIGN_OR_RETURN(text.n_values, fields.Int("n_values", {0, kMost / 4}));
  const std::pair<const char*, uint64_t*> hashes[] = {{"types_hash", &text.types_hash},
                                                      {"tensors_hash", &text.tensors_hash},
                                                      {"matrices_hash", &text.matrices_hash},
                                                      {"vectors_hash", &text.vectors_hash}};
  for (const auto& [key, hash] : hashes) {
    absl::StatusOr<uint64_t> read = HashField(fields, key);
    if (!read.ok()) return Annotate(read.status(), name + ": ");
    *hash = *read;
  }
  const nlohmann::json* const sources = fields.Find("sources");
  if (sources == nullptr || !sources->is_array()) {
    return ModelFileError(name + ": key \"sources\" must be a list");
  }
  for (const nlohmann::json& one : *sources) {
    NG_ASSIGN_OR_RETURN(const JsonFields source, JsonFields::Of(one, name + ": sources"));
    SourceFile& file = text.sources.emplace_back();
    NG_ASSIGN_OR_RETURN(file.name, source.Text("name"));
    NG_ASSIGN_OR_RETURN(file.size, source.Int("size", {0, kMost}));
    NG_ASSIGN_OR_RETURN(file.modified_ns, source.Int("modified_ns", {-kMost * 4, kMost * 4}));
    NG_ASSIGN_OR_RETURN(file.head_hash, HashField(source, "head_hash"));
  }
  return text;
}

// "NGPACKED", version, layout and the size of the text.
std::string FixedBytes(uint64_t text_bytes) {
  std::string bytes(kMagic);
  const auto add = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  add(kVersion);
  add(kLayout);
  add(text_bytes);
  return bytes;
}

// Reads the text of a packed file, whose matrices begin at *begin.
absl::StatusOr<PackedText> ReadText(const InputFile& file, int64_t* begin) {
  const auto wrong = [&](const auto&... parts) {
    return ModelFileError(absl::StrCat(file.path(), ": ", parts...));
  };
  if (file.size() < kFixedBytes) {
    return wrong("has ", file.size(), " bytes, must be a file that ng-pack has written");
  }
  std::string fixed(kFixedBytes, '\0');
  NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(fixed))));
  Cursor cursor(fixed);
  const std::string magic(*cursor.Bytes(kMagic.size()));
  if (magic != kMagic) {
    return wrong("begins with ", JsonExcerpt(magic), ", must be a file that ng-pack has written");
  }
  const uint32_t version = *cursor.U32();
  const uint32_t layout = *cursor.U32();
  if (version != kVersion || layout != kLayout) {
    return wrong("is of version ", version, " with layout ", layout, ", must be version ", kVersion,
                 " with layout ", kLayout, ": make it again with ng-pack");
  }
  const uint64_t n = *cursor.U64();
  const int64_t most = std::min(kMostTextBytes, file.size() - kFixedBytes - kChecksumBytes);
  if (most < 1 || n > static_cast<uint64_t>(most)) {
    return wrong("its text has ", n, " bytes, may have ", std::max<int64_t>(most, 0));
  }
  const auto n_summed = static_cast<size_t>(kFixedBytes) + n;
  std::string bytes(n_summed + kChecksumBytes, '\0');
  NG_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  const std::string_view summed = std::string_view(bytes).substr(0, n_summed);
  const uint64_t stored = *Cursor(std::string_view(bytes).substr(n_summed)).U64();
  if (stored != HashOf(summed)) {
    return wrong("the checksum of its text is ", HexOf(stored), ", must be ", HexOf(HashOf(summed)),
                 ": the file is damaged");
  }
  NG_ASSIGN_OR_RETURN(PackedText text, FromText(summed.substr(kFixedBytes), file.path()));
  *begin = WholePages(std::ssize(bytes));
  const int64_t size = *begin + text.matrix_bytes + text.n_values * int64_t{sizeof(float)};
  if (file.size() != size) return wrong("has ", file.size(), " bytes, must have ", size);
  return text;
}

// That the model's files are still those that the packed file was made of.
absl::Status CheckSources(const std::string& path, const std::vector<SourceFile>& made_of,
                          const std::vector<SourceFile>& now) {
  const auto changed = [&](const auto&... parts) {
    return ModelFileError(absl::StrCat(path, ": ", parts..., "; make it again with ng-pack"));
  };
  for (const SourceFile& then : made_of) {
    const auto found = std::ranges::find(now, then.name, &SourceFile::name);
    if (found == now.end()) {
      return changed("was made of a model with the file ", then.name, ", which is not there");
    }
    if (found->size != then.size) {
      return changed("was made of ", then.name, " with ", then.size, " bytes, it has ",
                     found->size);
    }
    if (found->head_hash != then.head_hash) {
      return changed("was made of a ", then.name, " that begins with other bytes");
    }
    if (found->modified_ns != then.modified_ns) {
      return changed(then.name, " was written again since");
    }
  }
  for (const SourceFile& one : now) {
    if (std::ranges::find(made_of, one.name, &SourceFile::name) == made_of.end()) {
      return changed("was made of a model without the file ", one.name);
    }
  }
  return absl::OkStatus();
}

std::span<const std::byte> MatricesOf(const ModelWeights& weights, int64_t bytes) {
  return {weights.embedding.data(), static_cast<size_t>(bytes)};  // the first of them
}

// The values of all vectors, one behind the other.
std::vector<float> ValuesOf(ModelWeights& weights) {
  std::vector<float> values;
  ForEachVector(weights, [&](std::vector<float>& vector) {
    values.insert(values.end(), vector.begin(), vector.end());
  });
  return values;
}

absl::StatusOr<uint64_t> HashOfPieces(std::span<const std::byte> bytes,
                                      const std::atomic<bool>* stop) {
  uint64_t hash = 0;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(bytes.size(), kPiece))) {
    NG_RETURN_IF_ERROR(CheckStop(stop));
    hash = HashOf(bytes.first(std::min<size_t>(bytes.size(), kPiece)), hash);
  }
  return hash;
}

}  // namespace

absl::StatusOr<PackedWeights> PackedWeights::Open(const std::string& path,
                                                  const std::string& model_path) {
  NG_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  int64_t begin = 0;
  NG_ASSIGN_OR_RETURN(PackedText text, ReadText(file, &begin));
  NG_ASSIGN_OR_RETURN(const std::vector<SourceFile> now, SourcesOf(model_path));
  NG_RETURN_IF_ERROR(CheckSources(path, text.sources, now));
  return PackedWeights(std::move(file), std::move(text), begin);
}

absl::StatusOr<std::string> HashOfModelFiles(const std::string& model_path) {
  NG_ASSIGN_OR_RETURN(const std::vector<SourceFile> sources, SourcesOf(model_path));
  std::string text;
  for (const SourceFile& source : sources) {
    absl::StrAppend(&text, source.name, " ", source.size, " ", HexOf(source.head_hash), "; ");
  }
  return text;
}

absl::Status PackedWeights::CheckTypes(const WeightTypes& types) const {
  if (HashOfTypes(types) == text_.types_hash) return absl::OkStatus();
  return UsageError(absl::StrCat(path(), ": holds the weights as model.weights = ", text_.weights,
                                 " has them; leave model.weights out, or make it again with ",
                                 "ng-pack"));
}

absl::StatusOr<ModelWeights> PackedWeights::Map(const ModelFile& model,
                                                const WeightTypes& types) const {
  const auto wrong = [&](const auto&... parts) {
    return ModelFileError(absl::StrCat(path(), ": ", parts...));
  };
  const int64_t matrix_bytes = SizesOf(model.spec, types).matrix_bytes();
  if (matrix_bytes != text_.matrix_bytes) {
    return wrong("holds ", text_.matrix_bytes, " bytes of matrices, the model has ", matrix_bytes);
  }
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> mapped, file_.Map(begin_, matrix_bytes));
  WeightMemory memory = WeightMemory::Of(std::move(mapped), matrix_bytes);
  NG_ASSIGN_OR_RETURN(ModelWeights weights, MakeWeights(model.spec, types, memory));
  for (const TensorBinding& binding : model.bindings) {
    const Place place = PlaceOf(binding, model.spec, weights);
    if (place.vector != nullptr) place.vector->resize(static_cast<size_t>(place.held_size()));
  }
  int64_t n_values = 0;
  ForEachVector(weights, [&](std::vector<float>& vector) { n_values += std::ssize(vector); });
  if (n_values != text_.n_values) {
    return wrong("holds ", text_.n_values, " values of vectors, the model has ", n_values);
  }
  std::vector<float> values(static_cast<size_t>(n_values));
  NG_RETURN_IF_ERROR(
      file_.ReadAt(begin_ + matrix_bytes, std::as_writable_bytes(std::span(values))));
  const uint64_t hash = HashOf(std::as_bytes(std::span(values)));
  if (hash != text_.vectors_hash) {
    return wrong("the hash of its vectors is ", HexOf(hash), ", must be ",
                 HexOf(text_.vectors_hash), ": the file is damaged");
  }
  auto next = values.cbegin();
  ForEachVector(weights, [&](std::vector<float>& vector) {
    std::copy_n(next, vector.size(), vector.begin());
    next += std::ssize(vector);
  });
  weights.hash = text_.tensors_hash;
  return weights;
}

absl::Status PackedWeights::Verify(const ModelFile& model, ModelWeights& weights,
                                   const std::atomic<bool>* stop) const {
  const auto wrong = [&](std::string_view what) {
    return ModelFileError(absl::StrCat(path(), ": ", View(what)));
  };
  NG_ASSIGN_OR_RETURN(ModelWeights mapped, Map(model, weights.types));
  if (weights.hash != text_.tensors_hash) {
    return wrong("was made of other weights than the model's files hold now");
  }
  std::span<const std::byte> stored = MatricesOf(mapped, text_.matrix_bytes);
  NG_ASSIGN_OR_RETURN(const uint64_t hash, HashOfPieces(stored, stop));
  if (hash != text_.matrices_hash) {
    return wrong(absl::StrCat("the hash of its matrices is ", HexOf(hash), ", must be ",
                              HexOf(text_.matrices_hash), ": the file is damaged"));
  }
  NG_ASSIGN_OR_RETURN(const uint64_t made,
                      HashOfPieces(MatricesOf(weights, text_.matrix_bytes), stop));
  const std::vector<float> values = ValuesOf(weights);
  if (made != hash || HashOf(std::as_bytes(std::span(values))) != text_.vectors_hash) {
    return wrong("holds other weights than packing the model again gives");
  }
  return absl::OkStatus();
}

absl::Status WritePackedWeights(const std::string& path, const PackedSource& source,
                                const std::atomic<bool>* stop) {
  ModelWeights& weights = source.loaded;
  const std::vector<float> values = ValuesOf(weights);
  PackedText text;
  NG_ASSIGN_OR_RETURN(text.sources, SourcesOf(source.model_path));
  text.weights = source.weights;
  text.types_hash = HashOfTypes(weights.types);
  text.matrix_bytes = SizesOf(source.model.spec, weights.types).matrix_bytes();
  text.n_values = std::ssize(values);
  text.tensors_hash = weights.hash;
  std::span<const std::byte> matrices = MatricesOf(weights, text.matrix_bytes);
  NG_ASSIGN_OR_RETURN(text.matrices_hash, HashOfPieces(matrices, stop));
  text.vectors_hash = HashOf(std::as_bytes(std::span(values)));

  const std::string json = ToText(text);
  std::string head = FixedBytes(json.size()) + json;
  const uint64_t checksum = HashOf(head);
  head.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  head.resize(static_cast<size_t>(WholePages(std::ssize(head))), '\0');

  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, stop));
  NG_RETURN_IF_ERROR(file.Write(head));
  for (; !matrices.empty();
       matrices = matrices.subspan(std::min<size_t>(matrices.size(), kPiece))) {
    NG_RETURN_IF_ERROR(CheckStop(stop));
    const auto piece = matrices.first(std::min<size_t>(matrices.size(), kPiece));
    NG_RETURN_IF_ERROR(file.Write({reinterpret_cast<const char*>(piece.data()), piece.size()}));
  }
  const auto bytes = std::as_bytes(std::span(values));
  NG_RETURN_IF_ERROR(file.Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return file.Commit();
}

}  // namespace ng
