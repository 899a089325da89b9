// ng-tokenize: text on stdin -> token ids on stdout, and back.
//
// It does what the tokenizer's reference implementation does, for scripts and for comparing. Each
// result is a line on stdout; everything else goes to stderr. The exit codes are those of all ng
// programs.
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/terminal.h"
#include "apps/tokenize/arguments.h"
#include "apps/tokenize/standard_streams.h"
#include "core/formats/json.h"
#include "core/text/files/open_tokenizer.h"
#include "ng/tokenizer.h"
#include "ng/status.h"

namespace ng {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kName = "ng-tokenize";
constexpr int kLineDepth = 8;  // levels of JSON in a line; the keys that are read need two

absl::Status PrintIds(const Tokenizer& tokenizer) {
  NG_ASSIGN_OR_RETURN(const std::string text, ReadStdin());
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodeAsReference(text, {}));
  return PrintLine(absl::StrJoin(ids, " "));
}

// {"text", "parse_special"?, "add_special"?} -> {"ids", "decoded"}
absl::StatusOr<Json> EncodeLine(const Tokenizer& tokenizer, const JsonFields& fields) {
  EncodeOptions options;
  NG_ASSIGN_OR_RETURN(const std::string text, fields.Text("text"));
  NG_ASSIGN_OR_RETURN(const auto parse_special, fields.OptionalBool("parse_special"));
  NG_ASSIGN_OR_RETURN(const auto add_special, fields.OptionalBool("add_special"));
  options.parse_special = parse_special.value_or(options.parse_special);
  options.add_special = add_special.value_or(options.add_special);
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodeAsReference(text, options));
  NG_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(ids));
  return Json{{"ids", ids}, {"decoded", decoded}};
}

// {"ids"} -> {"text"}
absl::StatusOr<Json> DecodeLine(const Tokenizer& tokenizer, const JsonFields& fields) {
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> wide_ids,
                      fields.IntList("ids", {0, tokenizer.vocab_size() - 1}));
  const std::vector<int32_t> ids(wide_ids.begin(), wide_ids.end());
  NG_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids));
  return Json{{"text", text}};
}

absl::StatusOr<Json> ConvertLine(const Tokenizer& tokenizer, bool decode, const std::string& line) {
  NG_ASSIGN_OR_RETURN(const nlohmann::json value, ParseJson(line, "JSON", kLineDepth));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(value, "JSON"));
  return decode ? DecodeLine(tokenizer, fields) : EncodeLine(tokenizer, fields);
}

absl::Status ConvertLines(const Tokenizer& tokenizer, bool decode) {
  LineReader reader;
  for (int64_t number = 1;; ++number) {
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> line, reader.Next());
    if (!line) return absl::OkStatus();
    const absl::StatusOr<Json> result = ConvertLine(tokenizer, decode, *line);
    if (!result.ok()) {  // the line is wrong, whatever kind of error its parts report
      return UsageError(absl::StrCat("stdin line ", number, ": ", result.status().message()));
    }
    NG_RETURN_IF_ERROR(PrintLine(result->dump()));
  }
}

absl::Status Run(std::span<const char* const> arguments) {
  NG_ASSIGN_OR_RETURN(const Arguments parsed, ParseArguments(arguments));
  if (parsed.action == Arguments::Action::kHelp) return PrintLine(HelpText());
  if (parsed.action == Arguments::Action::kVersion) return PrintLine("ng-tokenize " NG_VERSION);
  KeyPolicy policy(false, {}, [](std::string_view text) { PrintWarning(kName, text); });
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      OpenTokenizer(parsed.tokenizer, policy));
  if (parsed.action == Arguments::Action::kPrintIds) return PrintIds(*tokenizer);
  return ConvertLines(*tokenizer, parsed.action == Arguments::Action::kDecodeLines);
}

int Main(int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error to handle, not a death
  return Fail(kName, Run({argv + 1, argv + argc}));
}

}  // namespace
}  // namespace ng

int main(int argc, char** argv) { return ng::RunProgram(ng::kName, ng::Main, argc, argv); }
