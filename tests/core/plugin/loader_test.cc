#include "core/plugin/loader.h"

#include <immintrin.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/plugin/guarded_cache.h"
#include "core/plugin/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/message.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Fixture(const std::string& directory) {
  return std::string(NG_BINARY_DIR "/tests/fixtures/broken_plugins") + "/" + directory;
}

absl::StatusOr<LoadedPlugin> LoadFrom(const std::string& directory, const std::string& name,
                                      const std::string& kind = "sampler") {
  const std::vector<std::string> dirs = {directory};
  NG_ASSIGN_OR_RETURN(PluginHost host, PluginHost::Scan(dirs));
  return host.Load(kind, name);
}

// A fixture whose directory and name are the same.
LoadedPlugin LoadSound(const std::string& name, const std::string& kind = "sampler") {
  absl::StatusOr<LoadedPlugin> plugin = LoadFrom(Fixture(name), name, kind);
  if (!plugin.ok()) throw std::runtime_error(Message(plugin.status()));
  return *std::move(plugin);
}

// --- libraries that are refused when they are loaded ---

struct Refused {
  std::string name;  // of the plugin, and of its directory
  std::vector<std::string> fragments;
};

class RefusedLibrary : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedLibrary, IsAPluginErrorNamingPathAndFault) {
  const Refused& refused = GetParam();
  const absl::Status status = LoadFrom(Fixture(refused.name), refused.name).status();
  EXPECT_EQ(ExitCode(status), 4);
  const std::string file = "plugin " + fs::canonical(Fixture(refused.name)).string() +
                           "/ng_sampler_" + refused.name + ".so: ";
  EXPECT_THAT(Message(status), ::testing::StartsWith(file));
  EXPECT_THAT(Message(status), Not(HasSubstr("\n")));
  for (const std::string& fragment : refused.fragments) {
    EXPECT_THAT(Message(status), HasSubstr(fragment));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, RefusedLibrary,
    ::testing::Values(
        Refused{"no_symbol", {"not an ng plugin: no symbol 'ng_plugin'"}},
        Refused{"wrong_magic", {"magic 'XGPLUGIN', expected 'NGPLUGIN'"}},
        Refused{"wrong_abi_version", {"plugin ABI version 999, expected 1"}},
        Refused{
            "smaller_struct",
            {"descriptor of " + std::to_string(sizeof(PluginDescriptor) - sizeof(void*)) + " bytes",
             "expected at least " + std::to_string(sizeof(PluginDescriptor))}},
        Refused{"wrong_build_tag",
                {"built as 'gcc2,cxxabi0,cxx11abi0,absl-head,sdk0'", "this ng as '" NG_BUILD_TAG}},
        Refused{"wrong_kind", {"is of kind 'attention', its file name says 'sampler'"}},
        Refused{"wrong_name", {"is named 'something_else', its file name says 'wrong_name'"}},
        Refused{"unsupported_cpu", {"cannot run on this CPU: no time travel instructions"}},
        Refused{"undefined_symbol",
                {"cannot be loaded: undefined symbol: FunctionThatNobodyDefines"}},
        Refused{"not_a_library", {"cannot be loaded: invalid ELF header"}},
        Refused{"empty_file", {"cannot be loaded: file too short"}},
        Refused{"truncated", {"truncated: segment ", "the file has 5000"}},
        Refused{"dangling_link", {"No such file or directory"}}),
    [](const auto& test) { return test.param.name; });

TEST(PluginHost, AcceptsADescriptorWithNewerFieldsAppended) {
  const LoadedPlugin plugin = LoadSound("larger_struct");
  EXPECT_GT(plugin.descriptor->header.struct_size, sizeof(PluginDescriptor));
  EXPECT_EQ(plugin.Describe(), "sampler plugin 'larger_struct' 1.0.0 (" + plugin.path + ")");
}

TEST(PluginHost, RestoresMxcsrThatALibraryChangedWhenOpened) {
  constexpr unsigned kControl = ~0x3FU;  // any arithmetic may raise the six status flags
  // A thread of its own, so that a failure spoils no other test.
  unsigned before = 0;
  unsigned after = 0;
  std::thread([&] {
    before = _mm_getcsr();
    LoadSound("flushes_denormals");  // throws unless its initialiser did set the flags
    after = _mm_getcsr();
  }).join();
  EXPECT_EQ(after & kControl, before & kControl);
}

TEST(PluginHost, OpensOneRealPathOnce) {
  const test::TempDir folder;
  const fs::path dir = folder.path();
  const std::string file = "ng_sampler_larger_struct.so";
  fs::create_symlink(fs::path(Fixture("larger_struct")) / file, dir / file);

  const LoadedPlugin plain = LoadSound("larger_struct");
  const absl::StatusOr<LoadedPlugin> linked = LoadFrom(dir.string(), "larger_struct");
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_EQ(linked->descriptor, plain.descriptor);
  EXPECT_EQ(linked->path, plain.path);
}

TEST(PluginHost, RefusesADirectoryOrDeviceInPlaceOfALibrary) {
  const test::TempDir folder;
  const fs::path dir = folder.path();
  fs::create_directories(dir / "ng_sampler_folder.so");
  fs::create_symlink("/dev/null", dir / "ng_sampler_device.so");
  for (const char* name : {"folder", "device"}) {
    const absl::Status status = LoadFrom(dir.string(), name).status();
    EXPECT_EQ(ExitCode(status), 4);
    EXPECT_THAT(Message(status), HasSubstr("not a regular file"));
  }
}

// --- finding plugins ---

TEST(PluginHost, FindsThePluginsBesideTheCoreLibrary) {
  absl::StatusOr<PluginHost> host = PluginHost::Scan({});
  ASSERT_TRUE(host.ok()) << host.status();
  const absl::StatusOr<LoadedPlugin> greedy = host->Load("sampler", "greedy");
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(greedy->path,
            fs::canonical(NG_BINARY_DIR "/lib/ng/plugins").string() + "/ng_sampler_greedy.so");
}

TEST(PluginHost, NeverSearchesTheCurrentDirectory) {
  const fs::path previous = fs::current_path();
  fs::current_path(Fixture("larger_struct"));
  absl::StatusOr<PluginHost> host = PluginHost::Scan({});
  const absl::Status status =
      host.ok() ? host->Load("sampler", "larger_struct").status() : host.status();
  fs::current_path(previous);
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("no sampler plugin 'larger_struct'"));
}

TEST(PluginHost, UnknownNameListsWhatThereIsAndTheNearest) {
  const std::vector<std::string> dirs = {Fixture("fails_in_step"), Fixture("throws_in_step")};
  absl::StatusOr<PluginHost> host = PluginHost::Scan(dirs);
  ASSERT_TRUE(host.ok()) << host.status();
  const absl::Status status = host->Load("sampler", "throw_in_step").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("no sampler plugin 'throw_in_step'"));
  EXPECT_THAT(Message(status), HasSubstr("did you mean 'throws_in_step'?"));
  EXPECT_THAT(Message(status), HasSubstr("there are: "));
  EXPECT_THAT(Message(status), HasSubstr("fails_in_step"));
  EXPECT_THAT(Message(status), HasSubstr(fs::canonical(Fixture("fails_in_step")).string()));
}

TEST(PluginHost, ANameOfAnotherKindIsUnknown) {
  const absl::Status status =
      LoadFrom(Fixture("larger_struct"), "larger_struct", "attention").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("no attention plugin 'larger_struct'"));
}

TEST(PluginHost, MissingPluginIsAPluginError) {
  const absl::Status status = LoadFrom(Fixture("missing"), "missing").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("no sampler plugin 'missing'"));
}

TEST(PluginHost, APluginRemovedAfterTheScanIsAPluginError) {
  const test::TempDir folder;
  const fs::path dir = folder.path();
  fs::copy(fs::path(Fixture("larger_struct")) / "ng_sampler_larger_struct.so", dir);
  const std::vector<std::string> dirs = {dir.string()};
  absl::StatusOr<PluginHost> host = PluginHost::Scan(dirs);
  ASSERT_TRUE(host.ok()) << host.status();
  fs::remove_all(dir);
  const absl::Status status = host->Load("sampler", "larger_struct").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("No such file or directory"));
}

TEST(PluginHost, TwoFilesOfOneKindAndNameAreRefusedNamingBoth) {
  const std::vector<std::string> dirs = {Fixture("name_clash/a"), Fixture("name_clash/b")};
  const absl::Status status = PluginHost::Scan(dirs).status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("two plugins provide sampler 'twin': "));
  for (const std::string& dir : dirs) {
    EXPECT_THAT(Message(status), HasSubstr(fs::canonical(dir).string() + "/ng_sampler_twin.so"));
  }
}

TEST(PluginHost, OneDirectoryNamedTwiceIsNoClash) {
  const std::vector<std::string> dirs = {Fixture("name_clash/a"),
                                         Fixture("name_clash/../name_clash/a")};
  absl::StatusOr<PluginHost> host = PluginHost::Scan(dirs);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_TRUE(host->Load("sampler", "twin").ok());
}

TEST(PluginHost, RefusesAnExtraDirectoryThatIsNone) {
  const std::string file = Fixture("not_a_library/ng_sampler_not_a_library.so");
  for (const std::string& path : {Fixture("absent"), file, std::string()}) {
    const std::vector<std::string> dirs = {path};
    const absl::Status status = PluginHost::Scan(dirs).status();
    EXPECT_EQ(ExitCode(status), 2);
    EXPECT_THAT(Message(status), HasSubstr("plugins.path: cannot read directory '" + path + "': "));
  }
}

TEST(PluginHost, RefusesWhatAnyoneCanWriteToUnlessAllowed) {
  const test::TempDir folder;
  const fs::path dir = folder.path();
  const fs::path file = dir / "ng_sampler_larger_struct.so";
  fs::copy(fs::path(Fixture("larger_struct")) / file.filename(), dir);
  const std::vector<std::string> dirs = {dir.string()};
  const auto load = [&](WorldWritable writable) -> absl::Status {
    NG_ASSIGN_OR_RETURN(PluginHost host, PluginHost::Scan(dirs, writable));
    return host.Load("sampler", "larger_struct").status();
  };
  struct Case {
    fs::path path;
    const char* text;
  };
  const Case cases[] = {{file, "file"}, {dir, "folder"}};
  for (const Case& c : cases) {
    const fs::perms before = fs::status(c.path).permissions();
    fs::permissions(c.path, before | fs::perms::others_write | fs::perms::sticky_bit);
    const absl::Status status = load(WorldWritable::kRefuse);
    EXPECT_EQ(ExitCode(status), 4);
    EXPECT_THAT(Message(status), HasSubstr(std::string(c.text) + " " + c.path.string() + ": "));
    EXPECT_THAT(Message(status), HasSubstr("plugins.allow_world_writable"));
    EXPECT_EQ(load(WorldWritable::kAllow), absl::OkStatus());
    fs::permissions(c.path, before);
    EXPECT_EQ(load(WorldWritable::kRefuse), absl::OkStatus());
  }
}

TEST(PluginHost, ALinkIntoAFolderThatAnyoneCanWriteToIsRefused) {
  const test::TempDir folder;
  const test::TempDir shared;
  const char* const name = "ng_sampler_larger_struct.so";
  fs::copy(fs::path(Fixture("larger_struct")) / name, shared.path());
  fs::permissions(shared.path(), fs::perms::all);
  fs::create_symlink(shared.File(name), folder.File(name));
  const absl::Status status = LoadFrom(folder.path(), "larger_struct").status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr("folder " + shared.path() + ": "));
  EXPECT_THAT(Message(status), HasSubstr("0777"));
}

TEST(PluginHost, TakesOnlyFilesNamedAsPlugins) {
  const test::TempDir folder;
  const fs::path dir = folder.path();
  const fs::path library = fs::path(Fixture("larger_struct")) / "ng_sampler_larger_struct.so";
  for (const char* name : {"ng_sampler_top_x.so", "ng_cache_ring.so", "ng_sampler_.so",
                           "ng_samplers_a.so", "ng_model_a.so", "libng_sampler_b.so",
                           "ng_sampler_c.so.1", "ng_sampler_d.txt", "ng_.so", ".so"}) {
    fs::copy(library, dir / name);
  }
  const std::vector<std::string> dirs = {dir.string()};
  const absl::StatusOr<PluginHost> host = PluginHost::Scan(dirs);
  ASSERT_TRUE(host.ok()) << host.status();
  std::vector<std::string> found;
  for (const PluginFile& file : host->files()) {
    if (fs::path(file.path).parent_path() == fs::canonical(dir)) {
      found.push_back(file.kind + "/" + file.name);
    }
  }
  EXPECT_THAT(found, ::testing::ElementsAre("cache/ring", "sampler/top_x"));
}

// --- calls into plugins ---

struct FailingCreate {
  std::string name;
  std::string fragment;
};

class CreateFailure : public ::testing::TestWithParam<FailingCreate> {};

TEST_P(CreateFailure, IsAPluginErrorNamingThePlugin) {
  const LoadedPlugin plugin = LoadSound(GetParam().name);
  const absl::Status status = CreateSampler(plugin, PluginContext{}).status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(Message(status), HasSubstr(plugin.Describe() + GetParam().fragment));
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, CreateFailure,
    ::testing::Values(FailingCreate{"create_returns_error", ": the moon is in the wrong phase"},
                      FailingCreate{"create_returns_nothing", ": create returned OK and no object"},
                      FailingCreate{"create_throws_exception", " threw: thrown by create"},
                      FailingCreate{"create_throws_int", " threw: an exception of unknown type"}),
    [](const auto& test) { return test.param.name; });

// Runs on a second thread and keeps the executor's promise: the first exception becomes the status.
class OneThread final : public Executor {
 public:
  int threads() const override { return 1; }
  absl::Status Run(int64_t n_items, Task task, void* context) override {
    absl::Status status;
    std::thread([&] {
      try {
        task(context, 0, n_items, 0);
      } catch (const std::exception& error) {
        status = RuntimeError(error.what());
      }
    }).join();
    return status;
  }
};

TEST(GuardedAttention, NamesThePluginWhoseWorkThrewOnAWorker) {
  const LoadedPlugin plugin = LoadSound("throws_in_worker", "attention");
  OneThread executor;
  PluginContext context;
  context.executor = &executor;
  const auto backend = CreateAttention(plugin, context);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto plan = (*backend)->NewPlan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = (*backend)->Run(**plan, {});
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_EQ(Message(status), plugin.Describe() + ": thrown by a worker");
}

TEST(GuardPlugin, KeepsTheCodesThatAreNotThePluginsFault) {
  const LoadedPlugin plugin = LoadSound("larger_struct");
  for (const absl::Status& status : {LimitError("full"), NumericError("NaN")}) {
    const absl::Status seen = GuardPlugin(plugin, [&] { return status; });
    EXPECT_EQ(seen.code(), status.code());
    EXPECT_EQ(Message(seen), plugin.Describe() + ": " + Message(status));
  }
  for (const absl::Status& status : {UsageError("u"), ModelFileError("m"), RuntimeError("r"),
                                     OutputError("o"), InterruptedError("nobody asked")}) {
    EXPECT_EQ(ExitCode(GuardPlugin(plugin, [&] { return status; })), 4);
  }
  EXPECT_TRUE(GuardPlugin(plugin, [] { return absl::OkStatus(); }).ok());
}

TEST(GuardPlugin, PutsAPluginsTextOnOneLine) {
  const LoadedPlugin plugin = LoadSound("larger_struct");
  const absl::Status status =
      GuardPlugin(plugin, []() -> absl::Status { throw std::runtime_error("one\ntwo\x1b[31m"); });
  EXPECT_EQ(Message(status), plugin.Describe() + " threw: one two^[[31m");
}

// A cache plugin compiled into the test, whose functions do as the test says.
absl::StatusOr<CachePlan> PlanAbove(const PluginContext& /*context*/, const CacheSpec& spec) {
  if (spec.max_tokens > 100) return LimitError("needs 7 bytes, 6 available");
  if (spec.max_tokens < 0) throw std::runtime_error("negative");
  return CachePlan{"tiles16", 64, 1};
}
absl::StatusOr<std::unique_ptr<CacheStore>> CreateAbove(const PluginContext& context,
                                                        const CacheSpec& spec) {
  NG_RETURN_IF_ERROR(PlanAbove(context, spec).status());
  return UsageError("codec");
}

TEST(CreateCache, ALimitIsHandedOnAsItCame) {
  static constexpr CacheFactory kFactory = {PlanAbove, CreateAbove};
  PluginDescriptor descriptor{};
  descriptor.kind = "cache";
  descriptor.name = "here";
  descriptor.version = "1";
  descriptor.cache = &kFactory;
  const LoadedPlugin plugin = {&descriptor, "/lib/here.so"};

  CacheSpec spec;
  spec.max_tokens = 101;
  EXPECT_EQ(PlanCache(plugin, {}, spec).status(), LimitError("needs 7 bytes, 6 available"));
  EXPECT_EQ(CreateCache(plugin, {}, spec).status(), LimitError("needs 7 bytes, 6 available"));
  spec.max_tokens = -1;
  EXPECT_EQ(PlanCache(plugin, {}, spec).status(),
            PluginError("cache plugin 'here' 1 (/lib/here.so) threw: negative"));
  spec.max_tokens = 1;
  ASSERT_TRUE(PlanCache(plugin, {}, spec).ok());
  EXPECT_EQ(PlanCache(plugin, {}, spec)->bytes, 64);
}

TEST(CreateCache, AUsageErrorIsAboutAnOptionAndStaysOne) {
  static constexpr CacheFactory kFactory = {PlanAbove, CreateAbove};
  PluginDescriptor descriptor{};
  descriptor.kind = "cache";
  descriptor.name = "here";
  descriptor.version = "1";
  descriptor.cache = &kFactory;
  CacheSpec spec;
  spec.max_tokens = 1;
  EXPECT_EQ(CreateCache({&descriptor, "/lib/here.so"}, {}, spec).status(),
            UsageError("cache plugin 'here' 1 (/lib/here.so): codec"));
}

}  // namespace
}  // namespace ng
