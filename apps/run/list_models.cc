#include "apps/run/list_models.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/screen_text.h"
#include "apps/common/table.h"
#include "apps/common/terminal.h"
#include "apps/common/terminal_text.h"
#include "ng/named_models.h"
#include "ng/process_memory.h"

namespace ng::run {
namespace {

using Json = nlohmann::ordered_json;

std::string Size(int64_t bytes) {
  const auto mb = static_cast<double>(bytes) / 1e6;
  return mb >= 1000.0 ? absl::StrFormat("%.1f GB", mb / 1e3) : absl::StrFormat("%.1f MB", mb);
}

std::string JsonLine(const NamedModel& model, bool fits) {
  Json json = {{"name", model.name},
               {"path", model.path},
               {"source", model.source},
               {"family", model.family},
               {"type", model.type},
               {"bytes", model.bytes},
               {"fits", fits}};
  if (!model.fault.empty()) json["fault"] = model.fault;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Shown(const std::string& text) { return TerminalText(OneLine(text)); }

// The table, and behind it what is wrong with those that are broken.
std::string TextOf(const std::vector<NamedModel>& models, int64_t memory) {
  size_t widest = 0;
  for (const NamedModel& model : models) widest = std::max(widest, ColumnsOf(Shown(model.name)));
  const Table table({{.name = "model", .columns = widest, .left = true},
                     {.name = "from", .columns = 11, .left = true, .rank = 2},
                     {.name = "family", .columns = 10, .left = true, .rank = 1},
                     {.name = "type", .columns = 7, .left = true, .rank = 1},
                     {.name = "size", .columns = 9},
                     {.name = "fits", .columns = 6}},
                    TableWidth(/*wide=*/false));
  std::string text = table.Head();
  for (const NamedModel& model : models) {
    const char* const fits = !model.fault.empty() ? "broken" : model.bytes <= memory ? "yes" : "no";
    absl::StrAppend(&text, table.Line({Shown(model.name), model.source, Shown(model.family),
                                       Shown(model.type), Size(model.bytes), fits}));
  }
  for (const NamedModel& model : models) {
    if (model.fault.empty()) continue;
    absl::StrAppend(&text, Shown(model.name), " is broken: ", Shown(model.fault), "\n");
  }
  return text;
}

}  // namespace

absl::Status ListModels(const EngineOptions& options, bool jsonl) {
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(options));
  const std::vector<NamedModel> models = FindNamedModels(config);
  const int64_t memory = AvailableMemory();
  if (!jsonl) {
    if (models.empty()) return WriteStdout("No model with a name was found.\n");
    return WriteStdout(TextOf(models, memory));
  }
  std::string lines;
  for (const NamedModel& model : models) {
    absl::StrAppend(&lines, JsonLine(model, model.fault.empty() && model.bytes <= memory));
  }
  return WriteStdout(lines);
}

}  // namespace ng::run
