#include "core/model/keys/text_part.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/keys/config_fields.h"

namespace ng {
namespace {

// A model with a text part, and what its class in transformers says where config.json does not.
struct Wrapper {
  std::string_view model_type;
  const char* text_type;
  bool tied_head;
  bool text_may_tie = false;  // the text's own config may say that its head is tied
};
constexpr Wrapper kWrappers[] = {
    {"gemma3", "gemma3_text", true},    {"gemma4", "gemma4_text", true},
    {"qwen3_5", "qwen3_5_text", false}, {"qwen3_5_moe", "qwen3_5_moe_text", false},
    {"mistral3", "mistral", true},      {"llama4", "llama4_text", false},
    {"llava", "llama", false, true},    {"llava_next", "llama", false},
    {"internvl", "qwen2", true},        {"lfm2_vl", "lfm2", true},
    {"idefics3", "llama", false},       {"smolvlm", "llama", false},
};

// As the files of transformers 5 and of those before it have them, and at last as those of base
// models do, the longer ones first.
struct Prefix {
  std::string_view of_file;
  std::string_view of_family;
};
constexpr Prefix kPrefixes[] = {{"model.language_model.", "model."},
                                {"model.text_model.", "model."},
                                {"language_model.model.", "model."},
                                {"language_model.lm_head.", "lm_head."},
                                {"lm_head.", "lm_head."},
                                {"language_model.", "model."},
                                {"text_model.", "model."}};

class TextSource final : public TensorSource {
 public:
  explicit TextSource(std::unique_ptr<TensorSource> inner) : inner_(std::move(inner)) {
    std::vector<std::pair<TensorInfo, const TensorInfo*>> found;
    for (const TensorInfo& tensor : inner_->tensors()) {
      for (const auto& [of_file, of_family] : kPrefixes) {
        if (!tensor.name.starts_with(of_file)) continue;
        TensorInfo& named = found.emplace_back(tensor, &tensor).first;
        named.name = std::string(of_family) + tensor.name.substr(of_file.size());
        break;
      }
    }
    std::ranges::sort(found, {}, [](const auto& pair) { return pair.first.name; });
    for (auto& [tensor, original] : found) {
      tensors_.push_back(std::move(tensor));
      originals_.push_back(original);
    }
  }

  const std::string& path() const override { return inner_->path(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  absl::Status ReadAt(const TensorInfo& tensor, int64_t first,
                      std::span<std::byte> out) const override {
    return inner_->ReadAt(Original(tensor), first, out);
  }
  void Announce(const TensorInfo& tensor, int64_t first, int64_t n_bytes) const override {
    inner_->Announce(Original(tensor), first, n_bytes);
  }

 private:
  const TensorInfo& Original(const TensorInfo& tensor) const {
    return *originals_[static_cast<size_t>(&tensor - tensors_.data())];
  }

  std::unique_ptr<TensorSource> inner_;
  std::vector<TensorInfo> tensors_;           // sorted by name
  std::vector<const TensorInfo*> originals_;  // of each
};

// The head is the whole model's: what its text part says of it counts for nothing in transformers,
// or for a llava only where it says that the head is tied.
void TieHead(const JsonFields& fields, const nlohmann::json& config, const Wrapper& wrapper,
             nlohmann::json& part) {
  constexpr const char* kKey = "tie_word_embeddings";
  const nlohmann::json* tied = fields.Find(kKey);
  if (wrapper.model_type == "lfm2_vl" && fields.Find("tie_embedding") != nullptr) {
    tied = fields.Find("tie_embedding");  // its older name
  }
  const nlohmann::json standard = wrapper.tied_head && !config.contains(kKey);  // null: it is not
  const nlohmann::json& said = tied == nullptr ? standard : *tied;
  if (!wrapper.text_may_tie || said != false) part[kKey] = said;
}

}  // namespace

absl::StatusOr<std::optional<JsonDocument>> TextConfigOf(const JsonDocument& config,
                                                         const std::string& path) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*config, path));
  NG_ASSIGN_OR_RETURN(const auto type, fields.OptionalText("model_type"));
  const auto* const wrapper = std::ranges::find(kWrappers, type.value_or(""), &Wrapper::model_type);
  if (wrapper == std::end(kWrappers)) return std::nullopt;
  NG_RETURN_IF_ERROR(RequirePlain(fields, path));
  const nlohmann::json* const text = fields.Find("text_config");
  if (text != nullptr && !text->is_object()) {
    return ModelFileError(
        absl::StrCat(path, ": key \"text_config\" = ", JsonExcerpt(*text), ", must be an object"));
  }
  JsonDocument part;
  *part = text == nullptr ? nlohmann::json::object() : *text;
  if (!part->contains("model_type")) (*part)["model_type"] = wrapper->text_type;
  TieHead(fields, *config, *wrapper, *part);
  const nlohmann::json* const end = fields.Find("eos_token_id");
  if (end != nullptr) (*part)["eos_token_id"] = *end;
  return part;
}

std::unique_ptr<TensorSource> TextTensorsOf(std::unique_ptr<TensorSource> source) {
  return std::make_unique<TextSource>(std::move(source));
}

}  // namespace ng
