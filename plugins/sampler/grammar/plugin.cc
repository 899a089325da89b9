#include "ng/plugin.h"

#include "plugins/sampler/grammar/grammar.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextOption("json_schema", "", "the answer is JSON that this schema allows: FILE or TEXT"),
    ng::WithExample(
        ng::TextOption("regex", "", "the answer matches this regular expression as a whole"),
        "[0-9]+(,[0-9]+)*"),
    ng::TextOption("gbnf", "", "the answer is the rule root of this grammar: FILE or TEXT"),
    ng::TextOption("before", "", "what the answer may begin with, before all that: items of GBNF"),
    ng::ChoiceOption("formats", "assert", "assert|annotate",
                     "the format of a JSON string: must be kept | says nothing"),
    ng::ChoiceOption("whitespace", "any", "any|compact",
                     "between the parts of JSON: as people write it | nothing"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Grammar::Create({.json_schema = context.options.Text("json_schema"),
                              .regex = context.options.Text("regex"),
                              .gbnf = context.options.Text("gbnf"),
                              .before = context.options.Text("before"),
                              .assert_formats = context.options.Text("formats") == "assert",
                              .compact = context.options.Text("whitespace") == "compact",
                              .stop = context.stop},
                             context);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kConstraint,
    ng::SamplerPlugin<Create>("grammar", "1.0.0",
                              "constrains the answer to a JSON schema, a regex or a GBNF grammar",
                              kOptions));
