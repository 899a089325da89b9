// Properties: a printed configuration gives the same run.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/config/text.h"
#include "tests/core/config/config_test_util.h"

namespace ng {
namespace {

// Any bytes but NUL, and often those that an INI file treats specially.
rc::Gen<std::string> AnyText() {
  const auto special = rc::gen::element<char>('#', '"', '\\', ' ', '\t', '\n', '\r', ';', '=', '[',
                                              ']', ',', ':', '\'', '\x7F', '0', 'x');
  return rc::gen::container<std::string>(
      rc::gen::oneOf(special, rc::gen::distinctFrom(rc::gen::arbitrary<char>(), '\0')));
}

std::string Joined(const std::vector<int64_t>& ids, const std::string& separator) {
  std::string text;
  for (const int64_t id : ids) text += (text.empty() ? "" : separator) + std::to_string(id);
  return text;
}

void AssertSameRun(const Config& config) {
  const test::TempDir elsewhere;  // absolute paths do not follow the file
  const auto entries = ReadIniFile(elsewhere.Write("printed.ini", config.ToIni()));
  if (!entries.ok()) RC_FAIL(entries.status().ToString());
  const std::vector<ConfigKey> keys = KeysWithPlugins();
  const auto again = MakeConfig(*entries, keys);
  if (!again.ok()) RC_FAIL(again.status().ToString());
  for (const ConfigKey& key : keys) {
    RC_ASSERT(again->Text(key.key) == config.Text(key.key));
    RC_ASSERT(!again->IsDefault(key.key));
  }
  RC_ASSERT(again->Int("sampler.seed") == config.Int("sampler.seed"));
  RC_ASSERT(again->Real("sampler.top_p.p") == config.Real("sampler.top_p.p"));
  const auto ids = config.IntList("run.stop_ids");
  const auto ids_again = again->IntList("run.stop_ids");
  RC_ASSERT(std::vector<int64_t>(ids.begin(), ids.end()) ==
            std::vector<int64_t>(ids_again.begin(), ids_again.end()));
  RC_ASSERT(again->ToIni() == config.ToIni());
}

RC_GTEST_PROP(ConfigRoundTrip, KeepsEveryValueTheCommandLineCanGive, ()) {
  const auto ids =
      *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, int64_t{1} << 31));
  const auto separator = *rc::gen::element<std::string>(",", " ", ", ", "\n", "\t");
  const auto mass = *rc::gen::inRange(1, 1000000);
  const auto config =
      BuildConfig("", {"run.system=" + *AnyText(), "model.path=" + *AnyText(),
                       "attention.name=" + *AnyText(), "run.stop_ids=" + Joined(ids, separator),
                       "sampler.seed=" + std::to_string(*rc::gen::nonNegative<int64_t>()),
                       "sampler.top_p.p=" + std::to_string(mass / 1e6)});
  if (!config.ok()) RC_FAIL(config.status().ToString());
  AssertSameRun(*config);
}

RC_GTEST_PROP(ConfigRoundTrip, KeepsPluginFoldersOrRefusesThem, ()) {
  const auto config = BuildConfig("", {"plugins.path=" + *AnyText()});
  RC_PRE(config.ok());
  AssertSameRun(*config);
}

RC_GTEST_PROP(ConfigRoundTrip, AnyTextIsReadBackFromItsIniForm, ()) {
  const std::string text = *AnyText();
  const auto entries = ParseIni("[s]\nk = " + IniValue(text) + " # note\n", "demo.ini");
  if (!entries.ok()) RC_FAIL(entries.status().ToString());
  RC_ASSERT(entries->size() == 1U);
  RC_ASSERT(entries->front().text == text);
}

RC_GTEST_PROP(ConfigRoundTrip, AnyOverrideGivesAConfigOrOneLine, (const std::string& value)) {
  const auto key = *rc::gen::elementOf(KeysWithPlugins());
  RC_PRE(key.form != ConfigForm::kSecret);  // see ConfigText.LeavesOutASecret
  const auto config = BuildConfig("", {key.key + "=" + value});
  if (config.ok()) return AssertSameRun(*config);
  const std::string message(config.status().message());
  RC_ASSERT(message.starts_with("--" + key.key + "="));
  RC_ASSERT(message.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace ng
