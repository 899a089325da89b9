// A store that misbehaves on request, behind its guard.
#include "core/plugin/guarded_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ng/conform/scattered_store.h"

namespace ng {
namespace {

using conform::ScatteredStore;
using ::testing::HasSubstr;

constexpr const char* kName = "cache plugin 'here' 1 (/lib/here.so)";

LoadedPlugin Here() {
  static const PluginDescriptor descriptor = [] {
    PluginDescriptor d{};
    d.kind = "cache";
    d.name = "here";
    d.version = "1";
    return d;
  }();
  return {&descriptor, "/lib/here.so"};
}

CacheSpec SmallSpec() {
  return {.n_layers = 2,
          .n_kv_heads = 2,
          .head_dim = 3,
          .max_tokens = 40,
          .max_sequences = 3,
          .layouts = {}};
}

// Offers every capability. In the call named `wrong` it throws, or it does what `how` says.
class Misbehaving : public ScatteredStore,
                    public PrefixSharing,
                    public Statistics,
                    public AttendedMass,
                    public PlainQueries {
 public:
  Misbehaving(const CacheSpec& spec, std::string wrong, std::string how = "throws")
      : ScatteredStore(spec), wrong_(std::move(wrong)), how_(std::move(how)) {}

  CachePlan plan() const override {
    if (Does("plan", "throws")) throw std::runtime_error("thrown by plan");
    CachePlan plan = ScatteredStore::plan();
    plan.share_tokens = 16;
    plan.attended = true;
    plan.queries = true;
    if (Does("plan", "differs")) ++plan.bytes;
    return plan;
  }
  void* Capability(std::string_view name) override {
    Throw("Capability");
    if (Does("Capability", "is missing")) return nullptr;
    return OfferCapability<PrefixSharing, Snapshots, Statistics, AttendedMass, PlainQueries>(this,
                                                                                             name);
  }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override {
    Throw("Open");
    if (Does("Open", "is full")) return LimitError("all are open");
    if (Does("Open", "interrupts")) return InterruptedError("stop please");
    NG_ASSIGN_OR_RETURN(const SequenceId id, ScatteredStore::Open(capacity));
    if (Does("Open", "gives one that is open") && id > 0) return id - 1;
    if (Does("Open", "gives a wild one")) return 3;
    if (Does("Open", "begins with tokens")) At(id).length = 1;
    if (Does("Open", "forgets the capacity")) At(id).capacity = 0;
    return id;
  }
  absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t>, int64_t capacity) override {
    Throw("OpenFor");
    NG_ASSIGN_OR_RETURN(const SequenceId id, ScatteredStore::Open(capacity));
    if (Does("OpenFor", "shares half a piece")) At(id).length = 8;
    return id;
  }
  void Close(SequenceId sequence) override {
    Throw("Close");
    ScatteredStore::Close(sequence);
    if (Does("Close", "cuts another")) At(sequence == 0 ? 1 : 0).length = 0;
  }
  int64_t Length(SequenceId sequence) const override {
    Throw("Length");
    return ScatteredStore::Length(sequence);
  }
  int64_t Capacity(SequenceId sequence) const override {
    Throw("Capacity");
    return ScatteredStore::Capacity(sequence);
  }
  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    Throw("Truncate");
    if (Does("Truncate", "cannot")) return UnsupportedError("what came before is gone");
    if (Does("Truncate", "is ignored")) return absl::OkStatus();
    return ScatteredStore::Truncate(sequence, length);
  }
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
    Throw("Fork");
    NG_ASSIGN_OR_RETURN(const SequenceId fork, ScatteredStore::Fork(sequence, capacity));
    if (Does("Fork", "loses a token")) --At(fork).length;
    if (Does("Fork", "aliases")) At(fork).pages = At(sequence).pages;
    if (Does("Fork", "loses a row")) Poison(At(fork), 1, 0, 1);
    return fork;
  }
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override {
    Throw("Append");
    if (Does("Append", "is ignored")) return absl::OkStatus();
    NG_RETURN_IF_ERROR(ScatteredStore::Append(layer, rows, k, v));
    for (const SequenceRows& entry : rows) {
      if (Does("Append", "moves the length")) At(entry.sequence).length += entry.n_tokens;
      if (Does("Append", "spoils the first row")) Poison(At(entry.sequence), layer, 0, 1);
    }
    return absl::OkStatus();
  }
  absl::Status Commit(std::span<const SequenceRows> rows) override {
    Throw("Commit");
    NG_RETURN_IF_ERROR(ScatteredStore::Commit(rows));
    for (const SequenceRows& entry : rows) {
      if (Does("Commit", "miscounts")) ++At(entry.sequence).length;
      if (Does("Commit", "loses the rows")) Poison(At(entry.sequence), 1, 0, 1);
    }
    return absl::OkStatus();
  }
  KvView View(int layer, SequenceId sequence, int64_t length) const override {
    Throw("View");
    KvView view = ScatteredStore::View(layer, sequence, length);
    if (Does("View", "is short")) view.pages = view.pages.first(0);
    if (Does("View", "has another length")) --view.length;
    if (Does("View", "has a small stride")) view.k.head_stride = 4;
    if (Does("View", "has holes")) view.present = kNoneHeld;
    if (Does("View", "lost a token")) view.gone = 1;
    return view;
  }
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override {
    Throw("CopyRow");
    ScatteredStore::CopyRow(part, view, token, kv_head, out);
  }
  absl::Status ExportLayer(int layer, SequenceId sequence,
                           std::span<std::byte> image) const override {
    Throw("ExportLayer");
    return ScatteredStore::ExportLayer(layer, sequence, image);
  }
  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) override {
    Throw("ImportLayer");
    return ScatteredStore::ImportLayer(layer, rows, image);
  }
  absl::StatusOr<std::vector<Statistic>> Values() const override {
    Throw("Values");
    if (Does("Values", "says a name twice")) return std::vector<Statistic>{{"a"}, {"b"}, {"a"}};
    return std::vector<Statistic>{{"steps", 1, "steps"}};
  }
  int64_t MassTokens(const SequenceRows& rows) const override {
    Throw("MassTokens");
    return Does("MassTokens", "wants too many") ? rows.n_tokens + 1 : rows.n_tokens;
  }
  absl::Status Attended(int, const SequenceRows&, const TensorView<const float, 3>&) override {
    Throw("Attended");
    return absl::OkStatus();
  }
  void SetRotation(int, const Rotation&, double) override { Throw("SetRotation"); }
  absl::Status Queries(int, std::span<const SequenceRows>,
                       const TensorView<const float, 3>&) override {
    Throw("Queries");
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kNoneHeld[] = {0};
  bool Does(const char* call, const char* how) const { return wrong_ == call && how_ == how; }
  void Throw(const char* call) const {
    if (Does(call, "throws")) throw std::runtime_error(std::string("thrown by ") + call);
  }

  const std::string wrong_;
  const std::string how_;
};

absl::StatusOr<std::unique_ptr<GuardedCache>> Guard(const std::string& wrong,
                                                    const std::string& how, bool check,
                                                    const CacheSpec& spec = SmallSpec()) {
  const CachePlan planned = Misbehaving(spec, "").plan();
  return GuardedCache::Make(Here(), std::make_unique<Misbehaving>(spec, wrong, how), planned, spec,
                            check);
}

// Appends `n` tokens in every layer.
absl::Status Append(CacheStore& store, SequenceId sequence, int64_t n, float value = 1.0F) {
  const std::vector<float> data(static_cast<size_t>(n * 2 * 3), value);
  const TensorView<const float, 3> tensor(data.data(), {n, 2, 3});
  const SequenceRows rows{.sequence = sequence, .start_pos = store.Length(sequence), .n_tokens = n};
  for (int layer = 0; layer < 2; ++layer) {
    NG_RETURN_IF_ERROR(store.Append(layer, {&rows, 1}, tensor, tensor));
  }
  return absl::OkStatus();
}

absl::Status Feed(CacheStore& store, SequenceId sequence, int64_t n, float value = 1.0F) {
  const SequenceRows rows{.sequence = sequence, .start_pos = store.Length(sequence), .n_tokens = n};
  NG_RETURN_IF_ERROR(Append(store, sequence, n, value));
  return store.Commit({&rows, 1});
}

// Every call there is, as a host makes them; the first error.
absl::Status UseAll(GuardedCache& cache) try {
  NG_ASSIGN_OR_RETURN(const SequenceId a, cache.Open(40));
  NG_RETURN_IF_ERROR(Feed(cache, a, 18));
  NG_RETURN_IF_ERROR(Append(cache, a, 2, 9.0F));  // abandoned
  const KvView view = cache.View(1, a, cache.Length(a));
  float row[3];
  cache.CopyRow(KvPart::kKey, view, 17, 1, row);
  const std::vector<float> mass(36, 1.0F);
  SequenceRows last{.sequence = a, .start_pos = 17, .n_tokens = 1};
  last.mass_tokens = CapabilityOf<AttendedMass>(cache)->MassTokens(last);
  NG_RETURN_IF_ERROR(
      CapabilityOf<AttendedMass>(cache)->Attended(1, last, {mass.data(), {1, 2, 18}}));
  auto* const queries = CapabilityOf<PlainQueries>(cache);
  queries->SetRotation(1, {}, 1.0);
  NG_RETURN_IF_ERROR(cache.fault());
  NG_RETURN_IF_ERROR(queries->Queries(1, {&last, 1}, {mass.data(), {1, 2, 3}}));
  NG_RETURN_IF_ERROR(cache.Truncate(a, 17));
  NG_ASSIGN_OR_RETURN(const SequenceId b, cache.Fork(a, 40));
  NG_RETURN_IF_ERROR(Feed(cache, b, 1, 2.0F));
  NG_RETURN_IF_ERROR(Feed(cache, a, 1, 3.0F));
  std::vector<std::byte> image(static_cast<size_t>(2 * cache.plan().image_tile_bytes));
  auto* const images = CapabilityOf<Snapshots>(cache);
  NG_RETURN_IF_ERROR(images->ExportLayer(0, a, image));
  cache.Close(b);
  NG_RETURN_IF_ERROR(cache.fault());
  NG_ASSIGN_OR_RETURN(const SequenceId c,
                      CapabilityOf<PrefixSharing>(cache)->OpenFor(std::vector<int32_t>(30), 40));
  const SequenceRows rows{.sequence = c, .n_tokens = 18};
  for (int layer = 0; layer < 2; ++layer) {
    NG_RETURN_IF_ERROR(images->ImportLayer(layer, rows, image));
  }
  NG_RETURN_IF_ERROR(cache.Commit({&rows, 1}));
  return CapabilityOf<Statistics>(cache)->Values().status();
} catch (const PluginFault& fault) {
  return fault.status();
}

absl::Status UseAll(const std::string& wrong, const std::string& how, bool check) {
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<GuardedCache> cache, Guard(wrong, how, check));
  return UseAll(*cache);
}

TEST(GuardedCache, LetsASoundStoreThrough) {
  for (const bool check : {false, true}) {
    for (const CodecInfo& codec : kCodecTable) {
      CacheSpec spec = SmallSpec();
      spec.codec_k = spec.codec_v = codec.codec;
      const auto cache = Guard("", "", check, spec);
      ASSERT_TRUE(cache.ok()) << cache.status();
      EXPECT_EQ(UseAll(**cache), absl::OkStatus()) << std::string(codec.name);
    }
  }
}

TEST(GuardedCache, NamesThePluginThatThrowsWhereverItDoes) {
  for (const bool check : {false, true}) {
    for (const char* call : {"plan",   "Capability", "Open",     "OpenFor",     "Close",
                             "Length", "Capacity",   "Truncate", "Fork",        "Append",
                             "Commit", "View",       "CopyRow",  "ExportLayer", "ImportLayer",
                             "Values", "MassTokens", "Attended", "SetRotation", "Queries"}) {
      EXPECT_EQ(UseAll(call, "throws", check),
                PluginError(std::string(kName) + " threw: thrown by " + call));
    }
  }
}

struct Misdeed {
  const char* call;
  const char* how;
  const char* message;
};

TEST(GuardedCache, SaysWhatNoStoreMayDo) {
  constexpr Misdeed kMisdeeds[] = {
      {"plan", "differs", ": the store's plan has bytes = "},
      {"Capability", "is missing", ": the plan has share_tokens, the store has no capability"},
      {"Open", "gives a wild one", ": Open: gave sequence 3, must be in [0, 2]"},
      {"Open", "begins with tokens", ": Open: sequence 0 begins with 1 tokens, must be 0"},
      {"Open", "forgets the capacity", ": Open: sequence 0 has 0 of 0 tokens, must have 0 of 40"},
      {"OpenFor", "shares half a piece",
       ": OpenFor: sequence 1 begins with 8 tokens, must be pieces of 16, at most 29"},
      {"Truncate", "is ignored", ": Truncate: sequence 0 has 18 of 40 tokens, must have 17 of 40"},
      {"Fork", "loses a token", ": Fork: sequence 1 begins with 16 tokens, must be 17"},
      {"Commit", "miscounts", ": Commit: sequence 0 has 19 of 40 tokens, must have 18 of 40"},
      {"Values", "says a name twice", ": Values: the name 'a' must not be empty and stand once"},
  };
  for (const Misdeed& misdeed : kMisdeeds) {
    const absl::Status status = UseAll(misdeed.call, misdeed.how, false);
    EXPECT_EQ(ExitCode(status), 4) << misdeed.how << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kName + std::string(misdeed.message)));
  }
}

TEST(GuardedCache, RefusesASequenceThatIsOpenAlready) {
  const auto cache = Guard("Open", "gives one that is open", false);
  ASSERT_TRUE(cache.ok() && (*cache)->Open(1).ok());
  EXPECT_EQ((*cache)->Open(1).status(),
            PluginError(std::string(kName) + ": Open: gave sequence 0, which is open"));
}

TEST(GuardedCache, ChecksWhenAskedTo) {
  constexpr Misdeed kMisdeeds[] = {
      {"Append", "moves the length", ": Append: sequence 0 has 18 of 40 tokens, must have 0 of 40"},
      {"Append", "is ignored", ": Append: token 0 of sequence 0 in layer 0 does not read as it"},
      {"Append", "spoils the first row",
       ": Append: token 0 of sequence 0 in layer 0 does not read"},
      {"Commit", "loses the rows", ": Commit: token 0 of sequence 0 in layer 1 reads as "},
      {"View", "is short", ": Append: the view's number of pages is 0, must be at least 2 for 18"},
      {"View", "has another length", ": Append: the view's length is 17, must be 18"},
      {"View", "has a small stride", ": Append: the view's k.head_stride is 4, must be at least "},
      {"View", "has holes", ": Append: the view's present is given, must be empty"},
      {"View", "lost a token", ": Append: the view's gone is 1, must be 0, for the plan has no"},
      {"Fork", "aliases", " reads as 3, must be 2 as before"},
      {"Fork", "loses a row", ": Fork: token 0 of sequence 1 in layer 1 reads as "},
      {"Close", "cuts another", ": Close: sequence 0 has 0 of 40 tokens, must have 18 of 40"},
  };
  for (const Misdeed& misdeed : kMisdeeds) {
    const absl::Status status = UseAll(misdeed.call, misdeed.how, true);
    EXPECT_EQ(ExitCode(status), 4) << misdeed.how << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(misdeed.message));
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(kName));
  }
}

TEST(CacheChecks, KnowWhichTokensMayHaveLeft) {
  const CacheSpec spec = SmallSpec();
  const ScatteredStore store(spec);
  CachePlan plan = store.plan();
  plan.slots = 20;
  plan.boundary_tokens = 8;
  const std::vector<CachedSequence> sequences(3);
  const CacheChecks checks(store, plan, spec, sequences);
  static constexpr int32_t kPositions[] = {0, 3, 7, 1, 2, 6};  // of two heads
  const auto says = [&](int64_t gone, int64_t n_kept, std::span<const int32_t> positions) {
    KvView view{.layout = plan.layout, .page_tokens = 16, .length = 10, .store = &store};
    view.gone = gone;
    view.n_kept = n_kept;
    view.positions = positions;
    return std::string(checks.View(view, 0, 0, 10).message());
  };
  EXPECT_THAT(says(5, 3, kPositions), HasSubstr("number of pages is 0"));  // all before is sound
  EXPECT_THAT(says(5, 6, kPositions), HasSubstr("n_kept is 6, must be in [0, 5]"));
  EXPECT_THAT(says(5, 3, std::span(kPositions).first(5)), HasSubstr("number of positions is 5"));
  EXPECT_THAT(says(4, 3, kPositions), HasSubstr("position is 7, must be in [4, 7)"));
  static constexpr int32_t kTwice[] = {0, 3, 3, 1, 2, 6};
  EXPECT_THAT(says(5, 3, kTwice), HasSubstr("position is 3, must be in [4, 8)"));
  EXPECT_THAT(says(-11, 3, kPositions), HasSubstr("gone is -11, must be such that at most 20"));
}

TEST(CacheChecks, KnowWhatEachHeadMayHold) {
  const CacheSpec spec = SmallSpec();
  const ScatteredStore store(spec);
  CachePlan plan = store.plan();
  plan.slots = 6;
  plan.boundary_tokens = 8;
  const std::vector<CachedSequence> sequences(3);
  static constexpr int32_t kPositions[] = {0, 3, 7, 1, 2, 4, 5, 6};  // of two heads
  const auto says = [&](std::span<const HeadSlots> heads, int64_t gone) {
    const CacheChecks checks(store, plan, spec, sequences);
    KvView view{.layout = plan.layout, .page_tokens = 16, .length = 10, .store = &store};
    view.gone = gone;
    view.positions = kPositions;
    view.heads = heads;
    return std::string(checks.View(view, 0, 0, 10).message());
  };
  std::vector<HeadSlots> heads = {{5, 3, 0, 0}, {3, 5, 3, 1}};
  EXPECT_THAT(says(heads, 3), HasSubstr("heads is given, must be empty, for the plan has no head"));
  plan.head_slots = 7;
  EXPECT_THAT(says(heads, 3),  // all before is sound
              HasSubstr("number of pages is 0, must be at least 2 for 23"));
  EXPECT_THAT(says(heads, 4), HasSubstr("gone is 4, must be 3, the least of the kv heads"));
  EXPECT_THAT(says(std::span(heads).first(1), 3), HasSubstr("number of heads is 1, must be 2"));
  heads[1].positions = 4;
  EXPECT_THAT(says(heads, 3), HasSubstr("number of positions is 8"));
  heads[1] = {3, 5, 3, -1};
  EXPECT_THAT(says(heads, 3), HasSubstr("first_tile is -1, must be at least 0"));
  heads[1] = {2, 5, 3, 1};
  EXPECT_THAT(says(heads, 2), HasSubstr("gone is 2, must be such that at most 7"));
}

TEST(GuardedCache, KeepsALimitAndTakesNoInterruption) {
  EXPECT_EQ(UseAll("Open", "is full", false), LimitError(std::string(kName) + ": all are open"));
  EXPECT_EQ(UseAll("Open", "interrupts", false), PluginError(std::string(kName) + ": stop please"));
}

TEST(GuardedCache, KeepsThatAStoreCannotTruncateButToNothing) {
  for (const bool check : {false, true}) {
    const auto cache = Guard("Truncate", "cannot", check);
    ASSERT_TRUE(cache.ok()) << cache.status();
    const SequenceId id = (*cache)->Open(40).value();
    ASSERT_TRUE(Feed(**cache, id, 5).ok());
    EXPECT_EQ((*cache)->Truncate(id, 3),
              UnsupportedError(std::string(kName) + ": what came before is gone"));
    EXPECT_EQ((*cache)->Length(id), 5);
    EXPECT_TRUE(Feed(**cache, id, 1).ok());
    EXPECT_EQ(ExitCode((*cache)->Truncate(id, 0)), 4);
  }
}

// Has marks, and does with them what `how` says.
class Marked final : public ScatteredStore, public ContextMark {
 public:
  Marked(const CacheSpec& spec, std::string how) : ScatteredStore(spec), how_(std::move(how)) {}
  CachePlan plan() const override {
    CachePlan plan = ScatteredStore::plan();
    plan.mark = true;
    return plan;
  }
  void* Capability(std::string_view name) override {
    if (how_ == "has none" && name == ContextMark::kName) return nullptr;
    return OfferCapability<Snapshots, ContextMark>(this, name);
  }
  absl::Status SetMark(SequenceId /*sequence*/, int64_t length) override {
    if (how_ == "throws") throw std::runtime_error("thrown by SetMark");
    if (how_ == "cannot") return UnsupportedError("it is too late");
    if (how_ == "fails") return LimitError("no room");
    if (how_ != "forgets") mark_ = length;
    return absl::OkStatus();
  }
  int64_t Mark(SequenceId /*sequence*/) const override { return mark_; }

 private:
  const std::string how_;
  int64_t mark_ = 0;
};

TEST(GuardedCache, TellsAStoreTheMarkAndHoldsItToIt) {
  const CacheSpec spec = SmallSpec();
  const auto set = [&](const std::string& how) -> absl::Status {
    NG_ASSIGN_OR_RETURN(const auto cache,
                        GuardedCache::Make(Here(), std::make_unique<Marked>(spec, how),
                                           Marked(spec, "").plan(), spec, true));
    auto* const marks = CapabilityOf<ContextMark>(*cache);
    EXPECT_EQ(ExitCode(marks->SetMark(0, 7)), 1);  // it is not open
    EXPECT_EQ(marks->Mark(0), 0);
    const SequenceId id = cache->Open(40).value();
    NG_RETURN_IF_ERROR(marks->SetMark(id, 7));
    EXPECT_EQ(marks->Mark(id), 7);
    return absl::OkStatus();
  };
  const std::string name(kName);
  EXPECT_EQ(set(""), absl::OkStatus());
  EXPECT_EQ(set("cannot"), UnsupportedError(name + ": it is too late"));
  EXPECT_EQ(set("throws"), PluginError(name + " threw: thrown by SetMark"));
  EXPECT_EQ(set("fails"), LimitError(name + ": no room"));
  EXPECT_EQ(set("forgets"),
            PluginError(name + ": SetMark: the mark of sequence 0 is 0, must be 7"));
  EXPECT_EQ(set("has none"),
            PluginError(name + ": the plan has mark, the store has no capability ng.context_mark"));
  const auto plain = Guard("", "", false);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(CapabilityOf<ContextMark>(**plain), nullptr);
}

// Has marks and rules, and does with these what `how` says.
class Ruled final : public ScatteredStore, public ContextMark, public KeepRules {
 public:
  Ruled(const CacheSpec& spec, std::string how) : ScatteredStore(spec), how_(std::move(how)) {
    if (how_ != "has no rules") rules_.emplace_back("mine:7");
  }
  CachePlan plan() const override {
    CachePlan plan = ScatteredStore::plan();
    plan.mark = how_ != "has no mark";
    return plan;
  }
  void* Capability(std::string_view name) override {
    return OfferCapability<Snapshots, ContextMark, KeepRules>(this, name);
  }
  absl::Status SetMark(SequenceId /*sequence*/, int64_t /*length*/) override {
    return absl::OkStatus();
  }
  int64_t Mark(SequenceId /*sequence*/) const override { return 0; }
  std::span<const std::string> Rules() const override { return rules_; }
  absl::Status SetRule(SequenceId /*sequence*/, int /*rule*/) override {
    if (how_ == "throws") throw std::runtime_error("thrown by SetRule");
    if (how_ == "cannot") return UnsupportedError("it is too late");
    return absl::OkStatus();
  }

 private:
  const std::string how_;
  std::vector<std::string> rules_;
};

TEST(GuardedCache, TellsAStoreTheRuleOfASequence) {
  const CacheSpec spec = SmallSpec();
  const auto set = [&](const std::string& how) -> absl::Status {
    NG_ASSIGN_OR_RETURN(const auto cache,
                        GuardedCache::Make(Here(), std::make_unique<Ruled>(spec, how),
                                           Ruled(spec, how).plan(), spec, true));
    auto* const rules = CapabilityOf<KeepRules>(*cache);
    EXPECT_EQ(rules->Rules().front(), "mine:7");
    EXPECT_EQ(ExitCode(rules->SetRule(0, 0)), 1);  // it is not open
    const SequenceId id = cache->Open(40).value();
    return rules->SetRule(id, 0);
  };
  const std::string name(kName);
  EXPECT_EQ(set(""), absl::OkStatus());
  EXPECT_EQ(set("cannot"), UnsupportedError(name + ": it is too late"));
  EXPECT_EQ(set("throws"), PluginError(name + " threw: thrown by SetRule"));
  const std::string has = name + ": the store has the capability ng.keep_rules, but ";
  EXPECT_EQ(set("has no rules"), PluginError(has + "no rules"));
  EXPECT_EQ(set("has no mark"), PluginError(has + "its plan has not mark"));
  const auto plain = Guard("", "", false);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(CapabilityOf<KeepRules>(**plain), nullptr);
}

TEST(GuardedCache, ACloseThatThrowsIsTheAnswerOfAllThatFollows) {
  const auto cache = Guard("Close", "throws", false);
  ASSERT_TRUE(cache.ok()) << cache.status();
  const SequenceId id = (*cache)->Open(40).value();
  (*cache)->Close(id);
  EXPECT_EQ((*cache)->fault(), PluginError(std::string(kName) + " threw: thrown by Close"));
  EXPECT_EQ((*cache)->Open(40).status(), (*cache)->fault());
}

TEST(GuardedCache, KnowsWhichSequencesAreOpen) {
  const auto cache = Guard("", "", false);
  ASSERT_TRUE(cache.ok()) << cache.status();
  for (const SequenceId id : {-1, 0, 3}) {
    (*cache)->Close(id);
    EXPECT_EQ((*cache)->Length(id), 0);
    EXPECT_EQ((*cache)->Capacity(id), 0);
    EXPECT_EQ(ExitCode((*cache)->Truncate(id, 0)), 1);
    EXPECT_EQ(ExitCode((*cache)->Fork(id, 1).status()), 1);
    EXPECT_EQ(ExitCode(Append(**cache, id, 1)), 1);
    EXPECT_THROW((*cache)->View(0, id, 0), PluginFault);
  }
}

TEST(CheckCachePlan, RefusesWhatNoPlanMaySay) {
  const CachePlan sound{.layout = "tiles16", .bytes = 64, .bytes_per_token = 1};
  EXPECT_TRUE(CheckCachePlan(sound).ok());
  struct Case {
    void (*spoil)(CachePlan&);
    const char* message;
  };
  const Case cases[] = {
      {[](CachePlan& p) { p.layout = ""; }, "no layout"},
      {[](CachePlan& p) { p.bytes = -1; }, "bytes = -1, must be at least 0"},
      {[](CachePlan& p) { p.bytes_per_token = 0; }, "bytes_per_token = 0, must be at least 1"},
      {[](CachePlan& p) { p.share_tokens = -5; }, "share_tokens = -5"},
      {[](CachePlan& p) { p.image_tile_bytes = -1; }, "image_tile_bytes = -1"},
      {[](CachePlan& p) { p.disk_bytes = -1; }, "disk_bytes = -1"},
      {[](CachePlan& p) { p.holes = true; }, "has holes"},
      {[](CachePlan& p) { p.boundary_tokens = -1; }, "boundary_tokens = -1"},
      {[](CachePlan& p) { p.slots = 9; }, "slots = 9 and boundary_tokens = 0, must be at least 1"},
      {[](CachePlan& p) { p.slots = 9, p.mark = true, p.share_tokens = 16; },
       "slots = 9 and share_tokens, must be 0"},
      {[](CachePlan& p) { p.slots = p.boundary_tokens = 9, p.share_tokens = 16; },
       "slots = 9 and share_tokens, must be 0"},
      {[](CachePlan& p) { p.slots = p.boundary_tokens = 9, p.image_tile_bytes = 16; },
       "slots = 9 and image_tile_bytes, must be 0"},
      {[](CachePlan& p) { p.slots = p.boundary_tokens = 9, p.approximate = p.holes = true; },
       "slots = 9 and holes, must not"},
      {[](CachePlan& p) { p.head_slots = -1; }, "head_slots = -1, must be at least 0"},
      {[](CachePlan& p) { p.head_slots = 5; }, "head_slots = 5, must be 0 or at least slots = 0"},
      {[](CachePlan& p) { p.slots = p.boundary_tokens = 9, p.head_slots = 8; },
       "head_slots = 8, must be 0 or at least slots = 9"},
      {[](CachePlan& p) { p.approximate = true, p.share_tokens = 16; }, "share_tokens = 16"},
      {[](CachePlan& p) { p.approximate = true, p.image_tile_bytes = 9; }, "image_tile_bytes = 9"},
      {[](CachePlan& p) { p.codec = "e4m3", p.image_tile_bytes = 9; }, "has the codec e4m3"},
  };
  for (const Case& c : cases) {
    CachePlan plan = sound;
    c.spoil(plan);
    const absl::Status status = CheckCachePlan(plan);
    EXPECT_EQ(ExitCode(status), 4) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace ng
