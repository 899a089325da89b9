// The keys of tokenizer.ggml.* -> GgufVocabulary.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/text/files/gguf_vocabulary.h"

namespace ng {
namespace {

constexpr Range<int64_t> kId = {0, std::numeric_limits<int32_t>::max()};

absl::Status ReadArrays(const GgufMetadata& metadata, const JsonFields& fields,
                        GgufVocabulary* vocabulary) {
  NG_ASSIGN_OR_RETURN(vocabulary->tokens, metadata.Texts("tokenizer.ggml.tokens"));
  if (fields.Has("tokenizer.ggml.scores")) {
    NG_ASSIGN_OR_RETURN(vocabulary->scores, metadata.Floats("tokenizer.ggml.scores"));
  }
  if (fields.Has("tokenizer.ggml.token_type")) {
    NG_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                        metadata.Ints("tokenizer.ggml.token_type"));
    vocabulary->token_type.reserve(types.size());
    for (const int64_t type : types) {
      // MakeTokenizer refuses a type that is not known.
      vocabulary->token_type.push_back(
          type >= kId.min && type <= kId.max ? static_cast<int32_t>(type) : -1);
    }
  }
  if (fields.Has("tokenizer.ggml.merges")) {
    NG_ASSIGN_OR_RETURN(vocabulary->merges, metadata.Texts("tokenizer.ggml.merges"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasVocabulary(const GgufMetadata& metadata) {
  const JsonFields fields = metadata.fields();
  if (!fields.Has("tokenizer.ggml.model")) return false;
  const absl::StatusOr<std::string> model = fields.Text("tokenizer.ggml.model");
  return !model.ok() || (*model != "no_vocab" && *model != "none");
}

absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufMetadata& metadata) {
  const JsonFields fields = metadata.fields();
  GgufVocabulary vocabulary;
  NG_ASSIGN_OR_RETURN(vocabulary.model, fields.Text("tokenizer.ggml.model"));
  NG_ASSIGN_OR_RETURN(std::optional<std::string> pre, fields.OptionalText("tokenizer.ggml.pre"));
  vocabulary.pre = std::move(pre).value_or("");
  NG_RETURN_IF_ERROR(ReadArrays(metadata, fields, &vocabulary));
  for (const auto& [key, id] : {std::pair("bos", &vocabulary.bos_token_id),
                                {"eos", &vocabulary.eos_token_id},
                                {"eot", &vocabulary.eot_token_id},
                                {"eom", &vocabulary.eom_token_id}}) {
    NG_ASSIGN_OR_RETURN(*id,
                        fields.OptionalInt(absl::StrCat("tokenizer.ggml.", key, "_token_id"), kId));
  }
  NG_ASSIGN_OR_RETURN(vocabulary.add_bos_token,
                      fields.OptionalBool("tokenizer.ggml.add_bos_token"));
  NG_ASSIGN_OR_RETURN(vocabulary.add_eos_token,
                      fields.OptionalBool("tokenizer.ggml.add_eos_token"));
  NG_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                      fields.OptionalBool("tokenizer.ggml.add_space_prefix"));
  return vocabulary;
}

}  // namespace ng
