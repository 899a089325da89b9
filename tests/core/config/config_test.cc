#include "core/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/value.h"
#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Config Built(std::string_view ini, const std::vector<std::string>& overrides = {}) {
  auto config = BuildConfig(ini, overrides);
  if (!config.ok()) throw std::runtime_error(config.status().ToString());
  return *std::move(config);
}

std::string BuildError(std::string_view ini, const std::vector<std::string>& overrides = {}) {
  const auto config = BuildConfig(ini, overrides);
  if (config.ok()) return "";
  EXPECT_EQ(ExitCode(config.status()), 2);
  EXPECT_EQ(config.status().message().find('\n'), absl::string_view::npos);
  return std::string(config.status().message());
}

TEST(CoreConfigKeys, AreTheDocumentedOnesWithTheirDefaults) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"model.path", ""},
      {"model.folders", ""},
      {"model.adapters", ""},
      {"model.named_adapters", ""},
      {"model.weights", "auto"},
      {"model.packed", ""},
      {"model.load", "with_prompt"},
      {"model.strict", "false"},
      {"model.ignore_keys", ""},
      {"tokenizer.path", ""},
      {"tokenizer.chat_template", "auto"},
      {"plugins.path", ""},
      {"plugins.allow_world_writable", "false"},
      {"attention.name", "flash"},
      {"cache.name", "contiguous"},
      {"cache.codec", "f32"},
      {"cache.codec_k", ""},
      {"cache.codec_v", ""},
      {"cache.max_tokens", "0"},
      {"cache.usual_tokens", "0"},
      {"cache.max_sequences", "0"},
      {"cache.checkpoints", "0"},
      {"sampler.chain", "temperature,top_k"},
      {"sampler.seed", "1"},
      {"probe.chain", ""},
      {"drafter.name", "none"},
      {"drafter.gamma", "8"},
      {"drafter.adapt", "true"},
      {"fabric.name", "local"},
      {"fabric.split", "heads"},
      {"fabric.groups", "1"},
      {"fabric.pieces", "0"},
      {"fabric.deadline", "60"},
      {"run.max_new_tokens", "auto"},
      {"run.stop_ids", "auto"},
      {"run.use_cache", "true"},
      {"run.prefill_chunk", "0"},
      {"run.context_tokens", "0"},
      {"run.threads", "0"},
      {"run.pin", "none"},
      {"run.isa", "auto"},
      {"run.arithmetic", "fastest"},
      {"run.on_full", "error"},
      {"run.model_defaults", "true"},
      {"run.check_plugins", "false"},
      {"run.system", ""},
      {"run.date", ""},
      {"serve.host", "127.0.0.1"},
      {"serve.port", "8080"},
      {"serve.key", ""},
      {"serve.names", ""},
      {"serve.model", ""},
      {"serve.max_body_bytes", "4194304"},
      {"serve.max_queued", "64"},
      {"serve.max_connections", "512"},
      {"serve.read_seconds", "30"},
      {"serve.write_seconds", "30"},
      {"serve.idle_seconds", "60"},
      {"serve.answer_seconds", "600"},
      {"serve.alive_seconds", "5"},
      {"serve.responses", "100"},
      {"serve.log", "auto"},
      {"serve.views", "0"},
  };
  std::vector<std::pair<std::string, std::string>> found;
  for (const ConfigKey& key : CoreConfigKeys()) {
    found.emplace_back(key.key, DefaultEntry(key).text);
    EXPECT_EQ(key.key, key.spec->name);
    EXPECT_NE(key.spec->help, nullptr) << key.key;
  }
  EXPECT_EQ(found, expected);
}

TEST(Config, GivesDefaultsWithoutAFile) {
  const Config config = Built("");
  EXPECT_EQ(config.Text("model.path"), "");
  EXPECT_EQ(config.Text("attention.name"), "flash");
  EXPECT_EQ(config.Int("run.max_new_tokens"), 64);
  EXPECT_TRUE(config.Bool("run.use_cache"));
  EXPECT_THAT(config.Names("sampler.chain"), ElementsAre("temperature", "top_k"));
  EXPECT_THAT(config.Names("plugins.path"), IsEmpty());
  EXPECT_DOUBLE_EQ(config.Real("sampler.top_p.p"), 0.95);
  EXPECT_TRUE(config.IsDefault("sampler.seed"));
}

TEST(Config, LetsTheCommandLineWinOverTheFileAndTheLastOfItsOwn) {
  const Config config = Built("[sampler]\nseed = 2\n[run]\nthreads = 3\n",
                              {"sampler.seed=4", "run.isa=avx2", "sampler.seed=5"});
  EXPECT_EQ(config.Int("sampler.seed"), 5);
  EXPECT_EQ(config.Int("run.threads"), 3);
  EXPECT_EQ(config.Text("run.isa"), "avx2");
}

TEST(Config, ForgetsTheListOfAnOverriddenEntry) {
  EXPECT_THAT(Built("[run]\nstop_ids = 1 2\n", {"run.stop_ids=3"}).IntList("run.stop_ids"),
              ElementsAre(3));
}

TEST(Config, KnowsTheOriginOfEachValue) {
  const Config config = Built("[run]\n\nthreads = 3\n", {"sampler.seed=5"});
  EXPECT_EQ(config.Origin("run.threads").ToString(), "/etc/demo.ini:3");
  EXPECT_EQ(config.Origin("sampler.seed").ToString(), "command line");
  EXPECT_EQ(config.Origin("run.isa").ToString(), "default");
  EXPECT_EQ(config.Describe("run.threads"), "/etc/demo.ini:3: run.threads");
  EXPECT_EQ(config.Describe("sampler.seed"), "sampler.seed");
  EXPECT_FALSE(config.IsDefault("run.threads"));
  EXPECT_FALSE(config.IsDefault("sampler.seed"));
}

TEST(Config, ThrowsForAKeyOrTypeThatIsNotDeclared) {
  const Config config = Built("");
  EXPECT_THROW(config.Int("run.thread"), std::logic_error);
  EXPECT_THROW(config.Bool("run.threads"), std::logic_error);
  EXPECT_THROW(config.Real("run.threads"), std::logic_error);
  EXPECT_THROW(config.IntList("run.threads"), std::logic_error);
  EXPECT_EQ(config.Text("run.threads"), "0");
}

TEST(Config, CopiesKeepTheirValues) {
  Config copy = Built("");
  {
    const Config config = Built("[sampler]\nbanned_tokens.ids = 7\n");
    copy = config;
  }
  EXPECT_THAT(copy.IntList("sampler.banned_tokens.ids"), ElementsAre(7));
  EXPECT_THAT(PluginValues(copy, "sampler", "banned_tokens").at(0).List<int64_t>(), ElementsAre(7));
}

TEST(Config, TellsStopIdsAutoFromNone) {
  EXPECT_EQ(Built("").Text("run.stop_ids"), "auto");
  EXPECT_THAT(Built("").IntList("run.stop_ids"), IsEmpty());
  const Config none = Built("[run]\nstop_ids =\n");
  EXPECT_EQ(none.Text("run.stop_ids"), "");
  EXPECT_THAT(none.IntList("run.stop_ids"), IsEmpty());
  EXPECT_THAT(Built("[run]\nstop_ids = 6, 2\n").IntList("run.stop_ids"), ElementsAre(6, 2));
}

TEST(Config, HandsPluginsTheirOwnValues) {
  const Config config = Built("[sampler]\ntop_p.p = 0.5\nbanned_tokens.ids = 1,2 # note\n");
  const std::vector<OptionValue> top_p = PluginValues(config, "sampler", "top_p");
  ASSERT_EQ(top_p.size(), 1U);
  EXPECT_DOUBLE_EQ(OptionValues(top_p).Real("p"), 0.5);
  const std::vector<OptionValue> banned = PluginValues(config, "sampler", "banned_tokens");
  EXPECT_THAT(OptionValues(banned).IntList("ids"), ElementsAre(1, 2));
  EXPECT_EQ(OptionValues(PluginValues(config, "sampler", "top_k")).Int("k"), 50);
  EXPECT_THAT(PluginValues(config, "sampler", "top"), IsEmpty());
}

TEST(Config, RejectsADefaultThatBreaksItsOwnRule) {
  const OptionSpec spec = {"k", OptionType::kInt, "0", 1, 9, false, false, {}, ""};
  const ConfigKey key = {"sampler.x.k", &spec};
  const auto config = MakeConfig({}, {&key, 1});
  EXPECT_EQ(ExitCode(config.status()), 4);
  EXPECT_EQ(std::string(config.status().message()), "default sampler.x.k = 0, must be in [1, 9]");
}

TEST(Config, RejectsBrokenOptionTables) {
  const OptionSpec spec = IntOption("k", 1, {.min = 1, .max = 9}, "");
  const std::vector<ConfigKey> twice = {{"sampler.x.k", &spec}, {"sampler.x.k", &spec}};
  const auto declared_twice = MakeConfig({}, twice);
  EXPECT_EQ(ExitCode(declared_twice.status()), 4);
  EXPECT_THAT(std::string(declared_twice.status().message()), HasSubstr("sampler.x.k is declared"));

  const ConfigKey blank = {"sampler.x.a b", &spec};
  EXPECT_EQ(ExitCode(MakeConfig({}, {&blank, 1}).status()), 4);

  OptionSpec odd = spec;
  odd.type = static_cast<OptionType>(17);
  const ConfigKey unknown_type = {"sampler.x.k", &odd};
  EXPECT_THAT(std::string(MakeConfig({}, {&unknown_type, 1}).status().message()),
              HasSubstr("type 17"));

  const OptionSpec nulls = TextOption("k", nullptr, nullptr);
  const ConfigKey no_default = {"sampler.x.k", &nulls};
  const auto config = MakeConfig({}, {&no_default, 1});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->Text("sampler.x.k"), "");
}

TEST(ConfigPaths, OfAFileAreRelativeToIt) {
  EXPECT_EQ(Built("[model]\npath = demo/model\n").Text("model.path"), "/etc/demo/model");
  EXPECT_EQ(Built("[model]\npath = ./model\n").Text("model.path"), "/etc/model");
  EXPECT_EQ(Built("[model]\npath = /data/model\n").Text("model.path"), "/data/model");
  EXPECT_EQ(Built("[tokenizer]\npath = \"a b#\"\n").Text("tokenizer.path"), "/etc/a b#");
}

TEST(ConfigPaths, KeepDotDotBecauseOfSymlinks) {
  EXPECT_EQ(Built("[model]\npath = link/../model\n").Text("model.path"), "/etc/link/../model");
}

TEST(ConfigPaths, OfTheCommandLineAreRelativeToTheCurrentDirectory) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(Built("", {"model.path=m.gguf"}).Text("model.path"), here + "/m.gguf");
}

TEST(ConfigPaths, OfAFileNamedRelativelyAreAbsolute) {
  const auto entries = ParseIni("[model]\npath = m\n", "configs/demo.ini");
  ASSERT_TRUE(entries.ok());
  const auto config = MakeConfig(*entries, CoreConfigKeys());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->Text("model.path"), (std::filesystem::current_path() / "configs/m").string());
}

TEST(ConfigPaths, StayEmptyWhenEmpty) {
  const Config config = Built("[model]\npath =\n[plugins]\npath =\n", {"tokenizer.path="});
  EXPECT_EQ(config.Text("model.path"), "");
  EXPECT_EQ(config.Text("tokenizer.path"), "");
  EXPECT_THAT(config.Names("plugins.path"), IsEmpty());
}

TEST(ConfigPaths, OfPluginsAreAList) {
  EXPECT_THAT(Built("[plugins]\npath = mine: /opt/a ,b\n").Names("plugins.path"),
              ElementsAre("/etc/mine", "/opt/a", "/etc/b"));
}

TEST(ConfigPaths, OfPluginsRefuseWhatTheListCannotHold) {
  EXPECT_THAT(BuildError("[plugins]\npath = a::b\n"),
              StartsWith("/etc/demo.ini:2: plugins.path = a::b, must not have an empty path"));
  const auto entries = ParseIni("[plugins]\npath = p\n", "/data/a:b/demo.ini");
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(std::string(MakeConfig(*entries, CoreConfigKeys()).status().message()),
            "/data/a:b/demo.ini:2: plugins.path = p, is /data/a:b/p in full, must be a path "
            "without ':' and ','");
}

TEST(ConfigPaths, MayHaveScalesAndNames) {
  EXPECT_EQ(Built("[model]\nadapters = mine:0.5, /opt/a ,b:-2\n").Text("model.adapters"),
            "/etc/mine:0.5,/opt/a,/etc/b:-2");
  EXPECT_EQ(Built("[model]\nnamed_adapters = x=mine:0.5,y=/opt/a\n").Text("model.named_adapters"),
            "x=/etc/mine:0.5,y=/opt/a");
  EXPECT_THAT(BuildError("[model]\nadapters = a,,b\n"),
              StartsWith("/etc/demo.ini:2: model.adapters = a,,b, must not have an empty path"));
  EXPECT_THAT(BuildError("[model]\nadapters = :0.5\n"), HasSubstr("must not have an empty path"));
  EXPECT_THAT(BuildError("[model]\nnamed_adapters = a\n"),
              HasSubstr("must have a name and '=' before each path"));
}

TEST(LookupEarly, LayersAsBuildDoes) {
  const auto entries = ParseIni("[sampler]\nchain = greedy\n[plugins]\npath = p\n", "/etc/d.ini");
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(*LookupEarly({}, "sampler.chain"), "temperature,top_k");
  EXPECT_EQ(*LookupEarly(*entries, "sampler.chain"), "greedy");
  EXPECT_EQ(*LookupEarly(*entries, "plugins.path"), "/etc/p");
  std::vector<ConfigEntry> both = *entries;
  both.push_back({"sampler.chain", "a, b", {ConfigOrigin::Kind::kCommandLine, "", 0}});
  EXPECT_THAT(SplitNames(*LookupEarly(both, "sampler.chain")), ElementsAre("a", "b"));
}

TEST(LookupEarly, IgnoresOtherKeysAndRejectsABadValueOfThisOne) {
  const auto entries = ParseIni("[run]\nthreads = x\n[sampler]\nchain = a,,b\n", "demo.ini");
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(*LookupEarly(*entries, "cache.name"), "contiguous");
  EXPECT_EQ(std::string(LookupEarly(*entries, "sampler.chain").status().message()),
            "demo.ini:4: sampler.chain = a,,b, must be names separated by commas");
  EXPECT_THROW(LookupEarly(*entries, "no.key").IgnoreError(), std::logic_error);
}

TEST(ParseOverrides, SplitsAtTheFirstEqualsSignAndKeepsTheRest) {
  const std::vector<std::string> overrides = {"run.system= a # \"b\" = c ", "run.stop_ids="};
  const auto entries = ParseOverrides(overrides);
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ((*entries)[0].key, "run.system");
  EXPECT_EQ((*entries)[0].text, " a # \"b\" = c ");
  EXPECT_EQ((*entries)[1].text, "");
  EXPECT_EQ((*entries)[1].origin.ToString(), "command line");
}

TEST(ParseOverrides, RejectsWhatIsNoKeyAndValue) {
  const auto error = [](std::string text) {
    const std::vector<std::string> overrides = {std::move(text)};
    const absl::Status status = ParseOverrides(overrides).status();
    EXPECT_EQ(ExitCode(status), 2);
    return std::string(status.message());
  };
  EXPECT_EQ(error("run.threads"), "--run.threads: has no value, must be --run.threads=VALUE");
  EXPECT_EQ(error("=5"), "--(empty): key must not be empty");
  EXPECT_THAT(error("a b=5"), StartsWith("--a b: key must be made of letters"));
  EXPECT_EQ(error(std::string("run.system=a\0b", 14)),
            "--run.system=a\\x00b: must not hold a NUL byte");
}

TEST(TemplateVariableKey, IsAnyNameOfTheTemplates) {
  EXPECT_EQ(TemplateVariableKey("run.template.enable_thinking")->key,
            "run.template.enable_thinking");
  for (const char* const other : {"run.template.", "run.template", "run.threads", "template.x"}) {
    EXPECT_FALSE(TemplateVariableKey(other)) << other;
  }
}

TEST(Config, TakesANameOrAPath) {
  const auto text = [](const std::string& ini) {
    return Built(ini).Text("tokenizer.chat_template");
  };
  EXPECT_EQ(text("[tokenizer]\nchat_template = chatml\n"), "chatml");
  EXPECT_EQ(text("[tokenizer]\nchat_template = a.jinja\n"), "/etc/a.jinja");
  EXPECT_EQ(text("[tokenizer]\nchat_template = ../a\n"), "/etc/../a");
}

TEST(UnknownKey, NamesTheNearestKeyOfTheSection) {
  EXPECT_EQ(BuildError("[run]\n\nthreds = 2\n"),
            "/etc/demo.ini:3: run.threds = 2, unknown key; did you mean run.threads?");
  EXPECT_EQ(BuildError("", {"sampler.sede=2"}),
            "--sampler.sede=2: unknown key; did you mean sampler.seed?");
  EXPECT_EQ(BuildError("[sampler]\ntop_p.pp = 1\n"),
            "/etc/demo.ini:2: sampler.top_p.pp = 1, unknown key; did you mean sampler.top_p.p?");
}

TEST(UnknownKey, ListsTheSectionWhenNothingIsNear) {
  EXPECT_EQ(BuildError("[tokenizer]\nabcdefghijklm = 2\n"),
            "/etc/demo.ini:2: tokenizer.abcdefghijklm = 2, unknown key, must be one of "
            "tokenizer.path, tokenizer.chat_template");
}

TEST(UnknownKey, NamesTheNearestSection) {
  EXPECT_EQ(BuildError("[smapler]\nseed = 2\n"),
            "/etc/demo.ini:2: smapler.seed = 2, unknown section [smapler]; did you mean "
            "[sampler]?");
  EXPECT_EQ(BuildError("", {"elsewhere.seed=2"}),
            "--elsewhere.seed=2: unknown section [elsewhere], must be one of model, tokenizer, "
            "plugins, attention, cache, sampler, probe, drafter, fabric, run, serve");
}

TEST(UnknownKey, FindsTheSectionOfABareKey) {
  EXPECT_EQ(BuildError("", {"on_full=2"}), "--on_full=2: unknown key; did you mean run.on_full?");
  EXPECT_THAT(BuildError("", {"nothing=2"}),
              StartsWith("--nothing=2: unknown key, must be section.key with a section of model"));
  EXPECT_THAT(BuildError("", {"run=2"}), HasSubstr("unknown key, must be section.key"));
}

TEST(UnknownKey, SaysThatAPluginIsNotInUse) {
  EXPECT_THAT(BuildError("[sampler]\nmirostat.tau = 5\n"),
              HasSubstr("unknown key (no sampler plugin 'mirostat' is in use)"));
  EXPECT_THAT(BuildError("[cache]\npaged.page_tokens = 32\n"), HasSubstr("unknown key"));
}

TEST(CoreKeys, OnFullIsAChoiceOfTwo) {
  EXPECT_EQ(Built("[run]\non_full = recompute\n").Text("run.on_full"), "recompute");
  EXPECT_THAT(BuildError("[run]\non_full = crop\n"),
              HasSubstr("run.on_full = crop, must be one of error, recompute, drop_turns"));
}

TEST(ConfigText, PrintsEverySectionOnceWithPluginOptionsInIt) {
  const std::string ini = Built("[run]\nstop_ids =\nsystem = \"a # b\"\n").ToIni();
  EXPECT_THAT(ini, StartsWith("[model]\npath =\nfolders =\nadapters =\nnamed_adapters =\nweights = "
                              "auto\npacked =\nload = "
                              "with_prompt\nstrict = false\nignore_keys =\n\n"
                              "[tokenizer]\n"));
  EXPECT_THAT(ini,
              HasSubstr("seed = 1\ntop_p.p = 0.95\nbanned_tokens.ids =\ntop_k.k = 50\n\n"
                        "[probe]\nchain =\n\n[drafter]\nname = none\ngamma = 8\nadapt = true\n\n"
                        "[fabric]\nname = local\nsplit = heads\ngroups = 1\npieces = 0\ndeadline = "
                        "60\n\n[run]\n"));
  EXPECT_THAT(ini, HasSubstr("stop_ids =\n"));
  EXPECT_THAT(ini, HasSubstr("system = \"a # b\"\n"));
}

TEST(ConfigText, AnnotatesEachValueWithItsOrigin) {
  const std::string lines = Built("[run]\nthreads = 2\n", {"run.system= x"}).ToAnnotated();
  EXPECT_THAT(lines, HasSubstr("run.threads = 2  (/etc/demo.ini:2)\n"));
  EXPECT_THAT(lines, HasSubstr("run.system = \" x\"  (command line)\n"));
  EXPECT_THAT(lines, HasSubstr("sampler.seed = 1  (default)\n"));
}

TEST(ConfigText, LeavesOutASecret) {
  const Config config = Built("[serve]\nkey = sesame\n");
  EXPECT_EQ(config.Text("serve.key"), "sesame");
  EXPECT_THAT(config.ToIni(), HasSubstr("\nkey = # set, and not shown\n"));
  EXPECT_THAT(config.ToAnnotated(), HasSubstr("\nserve.key = (not shown)  (/etc/demo.ini:2)\n"));
  // What was printed is a config again, and one without the key.
  EXPECT_EQ(Built(config.ToIni()).Text("serve.key"), "");
  EXPECT_THAT(Built("").ToIni(), HasSubstr("\nkey =\n"));
}

}  // namespace
}  // namespace ng
