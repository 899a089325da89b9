#include "plugins/sampler/grammar/calls/tool_arguments.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/dfa.h"
#include "plugins/sampler/grammar/automata/flat_rules.h"
#include "plugins/sampler/grammar/calls/loosen.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {
namespace {

Mark MarkOf(const Json& object, const char* name) {
  Mark mark;
  for (const Json& piece : object.value(name, Json::array())) {
    if (piece.is_string()) mark.push_back({.text = piece.get<std::string>()});
    if (piece.is_number_integer()) mark.push_back({.token = piece.get<int32_t>()});
  }
  return mark;
}

unsigned ReadAsOf(const Json& words) {
  constexpr std::pair<const char*, ReadAs> kWords[] = {{"text", kReadAsText},
                                                       {"number", kReadAsNumber},
                                                       {"boolean", kReadAsBoolean},
                                                       {"null", kReadAsNull},
                                                       {"structure", kReadAsStructure}};
  unsigned read_as = 0;
  for (const auto& [word, bit] : kWords) {
    if (std::ranges::find(words, word) != words.end()) read_as |= bit;
  }
  return read_as;
}

void SetStyle(const Json& item, SchemaSpelling* spelling) {
  if (item.value("python", false)) {
    spelling->style = SchemaSpelling::Style::kPython;
    spelling->keywords = item.value("keywords", false);
    spelling->opened = item.value("opened", false);
  } else if (item.contains("quote")) {
    spelling->style = SchemaSpelling::Style::kQuoted;
    spelling->quote = MarkOf(item, "quote");
  } else if (item.contains("members") && item["members"].is_object()) {
    spelling->style = SchemaSpelling::Style::kMembers;
    const Json& given = item["members"];
    spelling->members = {.before = MarkOf(given, "before"),
                         .between = MarkOf(given, "between"),
                         .between_others = MarkOf(given, "between_others"),
                         .tells_texts = given.contains("between_others"),
                         .after = MarkOf(given, "after"),
                         .separator = MarkOf(given, "separator"),
                         .end = MarkOf(given, "end")};
    const Json read_as = given.value("read_as", Json::object());
    for (const auto& [name, words] : read_as.items()) {
      spelling->members.read_as[name] = ReadAsOf(words);
    }
  }
}

// Of one tool, so that none takes what the others need.
constexpr int64_t kStepsATool = Budget::kSteps / 8;

struct ArgumentsNet {
  std::unique_ptr<Budget> budget;
  std::unique_ptr<Net> net;
  Part part;
};

absl::StatusOr<ArgumentsNet> CompileArguments(const Json& schema, const SchemaSpelling& spelling,
                                              Budget& around) {
  ArgumentsNet made;
  made.budget = std::make_unique<Budget>(around.Within(kStepsATool));
  made.net = std::make_unique<Net>(*made.budget);
  const auto compile = [&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(const std::unique_ptr<SchemaNodes> nodes,
                        SchemaNodes::Parse(schema.dump(), spelling, *made.budget));
    SchemaCompiler compiler(*nodes, spelling, *made.net);
    NG_ASSIGN_OR_RETURN(const int32_t root, compiler.CompileArguments());
    made.part = made.net->Calling(root);
    NG_RETURN_IF_ERROR(made.net->status());
    // Whether it says anything at all is seen here, where the tool's name is known.
    return CheckWritable(*made.net, root);
  };
  const absl::Status compiled = compile();
  around.Spend(static_cast<size_t>(made.budget->spent()));
  NG_RETURN_IF_ERROR(compiled);
  return made;
}

}  // namespace

absl::StatusOr<Part> AddSchema(std::string_view schema, const SchemaSpelling& spelling, Net& net) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<SchemaNodes> nodes,
                      SchemaNodes::Parse(schema, spelling, net.budget()));
  SchemaCompiler compiler(*nodes, spelling, net);
  NG_ASSIGN_OR_RETURN(const int32_t root, compiler.Compile());
  return net.Calling(root);
}

absl::StatusOr<Part> AddArguments(std::string_view item, SchemaSpelling spelling, Net& net,
                                  std::vector<std::string>* notes) {
  const std::optional<Json> read = ReadJson(item);
  if (!read || !read->is_object()) return UsageError("has arguments that are no JSON");
  const Json& given = *read;
  const auto tool = given.value("tool", std::string());
  Json schema = given.value("schema", Json::object());
  spelling.unknown_keywords = given.value("loose", false);
  SetStyle(given, &spelling);
  const auto located = [&](const absl::Status& status) {
    return Annotate(status, absl::StrCat("the tool '", OneLine(tool), "' "));
  };
  absl::StatusOr<ArgumentsNet> made = CompileArguments(schema, spelling, net.budget());
  constexpr int kMostLoosened = 32;
  for (int i = 0; spelling.unknown_keywords && !made.ok() && i <= kMostLoosened; ++i) {
    NG_RETURN_IF_ERROR(net.budget().status());
    const std::string reason(made.status().message());
    // At the end nothing is left but that it is an object.
    if (i == kMostLoosened || !Loosen(reason, &schema)) schema = Json::object();
    notes->push_back(absl::StrCat("the tool '", OneLine(tool), "' ", reason, "; this is not kept"));
    const bool nothing_left = schema.empty();
    made = CompileArguments(schema, spelling, net.budget());
    if (nothing_left) break;
  }
  NG_RETURN_IF_ERROR(located(made.status()));
  if (!given.value("in_text", false)) {
    return net.Append(*made->net, made->part);
  }
  const Part text = AddAsJsonString(*made->net, made->part, net);
  return net.Then(net.Then(net.Text("\""), text), net.Text("\""));
}

}  // namespace ng::grammar
