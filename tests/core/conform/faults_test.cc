// ng-conform is tested with seeded faults: one that it misses is a hole in the checks. For each
// fault it is told which check must find it, and runs only that one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/sanitized.h"
#include "tests/support/subprocess.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Seeded {
  const char* fault;
  const char* check;
};

struct Fixture {
  const char* kind;
  const char* name;
  std::span<const Seeded> faults;
};

std::string Broken(const std::string& folder, const std::string& library) {
  return absl::StrCat(NG_BINARY_DIR "/tests/fixtures/broken_plugins/", folder, "/ng_", library,
                      ".so");
}

Result Conform(const std::string& plugin, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {plugin, "--quick"});
  Command command;
  command.program = "ng-conform";
  command.arguments = arguments;
  return Run(command);
}

constexpr Seeded kAttentionFaults[] = {
    {"layouts_throw", "lists"},
    {"layouts_missing", "lists"},
    {"features_throw", "lists"},
    {"feature_unknown", "lists"},
    {"supports_throws", "lists"},
    {"new_plan_throws", "lists"},
    {"plan_missing", "lists"},
    {"report_throws", "lists"},
    {"report_of_two_lines", "lists"},
    {"destructor_throws", "lists"},
    {"accepts_every_layout", "lists"},
    {"refuses_plain", "lists"},
    {"refuses_in_two_lines", "lists"},
    {"plan_throws", "values"},
    {"run_throws", "values"},
    {"throws_in_worker", "values"},
    {"interrupts", "values"},
    {"exits", "values"},
    {"aborts", "values"},
    {"crashes", "values"},
    {"hangs", "values"},
    {"scale_wrong", "values"},
    {"scratch_negative", "memory"},
    {"scratch_absurd", "memory"},
    {"scratch_one_too_small", "memory"},
    {"writes_nothing", "memory"},
    {"forgets_the_last_sequence", "batch"},
    {"writes_behind_out", "memory"},
    {"writes_before_out", "memory"},
    {"writes_behind_scratch", "memory"},
    {"writes_behind_captures", "memory"},
    {"nan_in_decode", "chunks"},
    {"decode_differs", "chunks"},
    {"long_chunks_differ", "chunks"},
    {"batches_differ", "batch"},
    {"levels_differ", "levels"},
    {"threads_differ", "threads"},
    {"nested_regions", "threads"},
    {"pages_differ", "stores"},
    {"instances_differ", "instances"},
    {"remembers_abandoned_steps", "abandoned"},
    {"captures_first_of_two", "captures"},
    {"captures_nothing", "captures"},
    {"captures_change_output", "captures"},
    {"captures_are_not_used", "captures"},
    {"fails_when_captured", "captures"},
    {"plan_allocates", "allocation"},
    {"run_allocates", "allocation"},
    {"hides_nan", "nan"},
    {"ignores_window", "window"},
    {"ignores_soft_cap", "soft_cap"},
    {"ignores_sinks", "sinks"},
    {"ignores_alibi", "alibi"},
    {"ignores_query_temperature", "query_temperature"},
    {"ignores_chunks", "chunked_window"},
    {"ignores_v_head_dim", "v_head_dim"},
    {"ignores_v_in_k", "v_in_k"},
    {"reads_holes", "holes"},
    {"takes_slots_for_tokens", "slots"},
    {"takes_heads_for_alike", "head_slots"},
    {"attended_forgets_a_key", "attended"},
    {"attended_changes_output", "attended"},
    {"attended_differs_in_chunks", "attended"},
    {"missed_is_no_share", "missed"},
    {"missed_changes_output", "missed"},
    {"missed_differs_in_chunks", "missed"},
};

constexpr Seeded kArithmeticFaults[] = {
    {"mask_one_late", "values"},
    {"mask_one_early", "values"},
    {"wrong_head_map", "values"},
    {"stale_page", "values"},
    {"reads_beyond_length", "values"},
    {"dropped_scale", "values"},
    {"dropped_key_scales", "codecs"},
    {"dropped_value_scales", "codecs"},
    {"rounds_by_chunk", "chunks"},
    {"looks_at_other_sequence", "batch"},
    {"sums_by_threads", "threads"},
    {"merges_a_lone_querys_keys_backwards", "threads"},
    {"drops_a_lone_querys_last_keys", "threads"},
    {"captures_raw_scores", "captures"},
    {"captures_another_head", "captures"},
};

constexpr Seeded kStoreFaults[] = {
    {"plan_throws", "plan"},
    {"factory_throws", "plan"},
    {"capability_throws", "plan"},
    {"report_throws", "plan"},
    {"report_of_two_lines", "plan"},
    {"destructor_throws", "plan"},
    {"create_makes_nothing", "plan"},
    {"refuses_f32", "plan"},
    {"plans_what_nobody_reads", "plan"},
    {"plan_differs", "plan"},
    {"plan_without_layout", "plan"},
    {"plan_too_small", "plan"},
    {"plan_of_no_bytes", "plan"},
    {"capability_missing", "plan"},
    {"open_throws", "rows"},
    {"close_throws", "rows"},
    {"length_throws", "rows"},
    {"capacity_throws", "rows"},
    {"append_throws", "rows"},
    {"commit_throws", "rows"},
    {"view_throws", "rows"},
    {"copy_row_throws", "rows"},
    {"truncate_throws", "truncate"},
    {"fork_throws", "fork"},
    {"exits", "rows"},
    {"aborts", "rows"},
    {"hangs", "rows"},
    {"nested_regions", "rows"},
    {"writes_nothing", "rows"},
    {"values_of_keys", "rows"},
    {"appends_to_one_layer", "rows"},
    {"key_transposed_wrong", "rows"},
    {"pad_not_zero", "scripts"},
    {"copy_row_forgets_head", "rows"},
    {"rounds_twice", "rows"},
    {"quantised_twice", "scripts"},
    {"drops_scale", "scripts"},
    {"scale_of_the_token_before", "scripts"},
    {"commit_ignored", "rows"},
    {"length_moves_early", "rows"},
    {"capacity_unchecked", "rows"},
    {"gives_an_id_in_use", "rows"},
    {"gives_no_slot_back", "rows"},
    {"view_too_long", "rows"},
    {"holes_not_in_the_plan", "rows"},
    {"length_moves_early", "abandoned"},
    {"truncate_ignored", "truncate"},
    {"cannot_truncate", "truncate"},
    {"fork_aliases", "fork"},
    {"fork_forgets_last_row", "fork"},
    {"fork_is_empty", "fork"},
    {"overflow_accepted", "overflow"},
    {"overflow_is_no_limit", "overflow"},
    {"overflow_without_a_word", "overflow"},
    {"overflow_wraps", "overflow"},
    {"window_too_narrow", "window"},
    {"window_not_gone_back_to", "window"},
    {"values_as_wide_as_keys", "v_head_dim"},
    {"values_not_in_keys", "v_in_k"},
    {"shares_any_prefix", "sharing"},
    {"shares_the_last_token", "sharing"},
    {"export_leaves_the_rest", "snapshots"},
    {"exports_one_layer", "snapshots"},
    {"import_forgets_the_last_tile", "snapshots"},
    {"import_takes_scales_of_the_tile_before", "scripts"},
    {"import_moves_length", "snapshots"},
    {"import_takes_any_size", "snapshots"},
    {"import_begins_anywhere", "snapshots"},
    {"instances_share", "instances"},
    {"hides_nan", "nan"},
    {"allocates", "allocation"},
};

constexpr Seeded kSamplerFaults[] = {
    {"report_throws", "candidates"},
    {"report_of_two_lines", "candidates"},
    {"destructor_throws", "candidates"},
    {"open_throws", "candidates"},
    {"open_refuses", "candidates"},
    {"apply_throws", "candidates"},
    {"exits", "candidates"},
    {"aborts", "candidates"},
    {"hangs", "candidates"},
    {"refuses_good_logits", "candidates"},
    {"refuses_in_two_lines", "candidates"},
    {"foreign_id", "candidates"},
    {"negative_id", "candidates"},
    {"repeated_id", "candidates"},
    {"moved_ids", "candidates"},
    {"empty_set", "candidates"},
    {"leaves_nothing_drawable", "candidates"},
    {"leaves_nan", "candidates"},
    {"leaves_infinity", "candidates"},
    {"keep_first_too_many", "candidates"},
    {"logit_of_a_sparse_set", "candidates"},
    {"takes_sparse_for_dense", "order"},
    {"keeps_seven_of_a_list_only", "order"},
    {"keeps_seven_of_a_list_only", "large"},
    {"keeps_the_higher_of_equals", "ties"},
    {"changes_with_each_call", "repeat"},
    {"apply_accepts", "repeat"},
    {"draws_by_slot", "keys"},
    {"draws_in_turn", "keys"},
    {"draws_once", "keys"},
    {"accept_throws", "growth"},
    {"accept_ignored", "growth"},
    {"accept_returns_no_such", "growth"},
    {"forgets_the_prompt", "growth"},
    {"slots_share", "slots"},
    {"close_throws", "reopen"},
    {"close_closes_all", "reopen"},
    {"reopened_remembers", "reopen"},
    {"truncate_throws", "truncate"},
    {"truncate_ignored", "truncate"},
    {"truncate_forgets_all", "truncate"},
    {"fork_throws", "fork"},
    {"fork_ignored", "fork"},
    {"fork_moves", "fork"},
    {"nan_accepted", "nan"},
    {"nan_is_lost", "nan"},
    {"instances_share", "instances"},
    {"allocates", "allocation"},
};

constexpr Seeded kProbeFaults[] = {
    {"create_returns_nothing", "use"},
    {"use_throws", "use"},
    {"use_names_none", "use"},
    {"use_names_twice", "use"},
    {"use_changes", "use"},
    {"report_throws", "use"},
    {"report_of_two_lines", "use"},
    {"begin_throws", "rows"},
    {"begin_refuses", "rows"},
    {"on_point_throws", "rows"},
    {"accept_throws", "rows"},
    {"end_throws", "rows"},
    {"end_run_throws", "rows"},
    {"exits", "rows"},
    {"edits_undeclared", "rows"},
    {"writes_nan", "rows"},
    {"writes_before", "rows"},
    {"writes_between", "rows"},
    {"writes_behind", "rows"},
    {"adds_by_place", "chunks"},
    {"adds_by_count", "chunks"},
    {"adds_by_batch", "batch"},
    {"remembers_the_run", "runs"},
    {"fails_with_the_run", "runs"},
};

constexpr Seeded kDrafterFaults[] = {
    {"create_returns_nothing", "drafts"},
    {"plan_throws", "drafts"},
    {"plans_less_than_nothing", "drafts"},
    {"load_throws", "drafts"},
    {"load_refuses", "drafts"},
    {"open_throws", "drafts"},
    {"accept_throws", "drafts"},
    {"close_throws", "drafts"},
    {"propose_throws", "drafts"},
    {"propose_refuses", "drafts"},
    {"report_throws", "drafts"},
    {"report_of_two_lines", "drafts"},
    {"proposes_too_many", "drafts"},
    {"proposes_less_than_none", "drafts"},
    {"proposes_no_token", "drafts"},
    {"writes_behind", "drafts"},
    {"changes_the_slot", "drafts"},
    {"shortens_the_draft", "drafts"},
    {"changes_with_each_call", "again"},
    {"longer_ones_differ", "again"},
    {"batches_differ", "batch"},
    {"goes_by_slot", "batch"},
    {"accept_ignored", "growth"},
    {"reopened_remembers", "reopen"},
    {"close_closes_all", "reopen"},
    {"loads_once", "load"},
    {"allocates", "allocation"},
};

constexpr Seeded kFabricFaults[] = {
    {"create_returns_nothing", "ranks"},
    {"create_refuses", "gather"},
    {"rank_out_of_range", "ranks"},
    {"no_ranks", "ranks"},
    {"host_throws", "ranks"},
    {"host_of_two_lines", "ranks"},
    {"host_without_name", "ranks"},
    {"misses_itself", "ranks"},
    {"report_throws", "ranks"},
    {"report_of_two_lines", "ranks"},
    {"gather_throws", "gather"},
    {"gather_refuses", "gather"},
    {"changes_its_own", "gather"},
    {"quiets_nan", "gather"},
    {"aside_throws", "aside"},
    {"changes_its_own_aside", "aside"},
    {"broadcast_throws", "broadcast"},
    {"broadcast_refuses", "broadcast"},
    {"broadcast_forgets_the_end", "broadcast"},
    {"barrier_throws", "order"},
    {"barrier_refuses", "order"},
    {"fails_the_tenth_time", "order"},
    {"group_throws", "groups"},
    {"group_refuses", "groups"},
    {"group_returns_nothing", "groups"},
    {"group_of_no_ranks", "groups"},
    {"allocates", "allocation"},
};

constexpr Seeded kPolicyFaults[] = {
    {"create_returns_nothing", "needs"},
    {"needs_what_there_is_not", "needs"},
    {"looks_at_fewer_than_no_queries", "needs"},
    {"begins_before_all_queries", "needs"},
    {"score_throws", "scores"},
    {"score_refuses", "scores"},
    {"leaves_one_unwritten", "scores"},
    {"writes_behind", "scores"},
    {"scores_zeros_with_nan", "scores"},
    {"goes_by_the_call_before", "again"},
    {"goes_by_its_address", "again"},
    {"has_one_room_for_all", "threads"},
};

constexpr Fixture kFixtures[] = {{"attention", "attention_faults", kAttentionFaults},
                                 {"attention", "arithmetic_faults", kArithmeticFaults},
                                 {"cache", "store_faults", kStoreFaults},
                                 {"sampler", "sampler_faults", kSamplerFaults},
                                 {"probe", "probe_faults", kProbeFaults},
                                 {"drafter", "drafter_faults", kDrafterFaults},
                                 {"fabric", "fabric_faults", kFabricFaults},
                                 {"policy", "policy_faults", kPolicyFaults}};

void PrintTo(const Fixture& fixture, std::ostream* out) { *out << fixture.name; }

class Faults : public ::testing::TestWithParam<Fixture> {
 protected:
  static std::string Plugin() {
    return Broken(GetParam().name, absl::StrCat(GetParam().kind, "_", GetParam().name));
  }
};

constexpr bool kCountsAllocations = !kSanitized;  // malloc is the sanitizer's

TEST_P(Faults, AreAllFound) {
  for (const auto& [fault, check] : GetParam().faults) {
    if (std::string(check) == "allocation" && !kCountsAllocations) continue;
    const std::string option = absl::StrCat("fault=", fault);
    const bool hangs = std::string(fault) == "hangs";
    const Result result =
        Conform(Plugin(), {"--option", option, "--case", check, "--deadline", hangs ? "1" : "60"});
    EXPECT_EQ(result.exit_code, 1) << fault << ": " << result.out << result.err;
    EXPECT_THAT(result.out, StartsWith(absl::StrCat("FAIL    ", check, " "))) << fault;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("--option ", option, " "))) << fault;
  }
}

TEST_P(Faults, AreNotFoundWhereThereAreNone) {
  const Result result = Conform(Plugin(), {});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::ValuesIn(kFixtures),
                         [](const auto& info) { return std::string(info.param.name); });

struct Unloadable {
  const char* name;
  const char* says;
};

// What an engine does not load is no plugin to check: exit code 4, as an engine would end.
TEST(Handshake, IsCheckedFirst) {
  constexpr Unloadable kUnloadable[] = {{"no_symbol", "ng_plugin"},
                                        {"wrong_magic", "magic"},
                                        {"wrong_abi_version", "999"},
                                        {"smaller_struct", "descriptor of "},
                                        {"wrong_build_tag", "built as "},
                                        {"wrong_kind", "attention"},
                                        {"wrong_name", "something_else"},
                                        {"unsupported_cpu", "CPU"},
                                        {"undefined_symbol", "undefined symbol"},
                                        {"not_a_library", "not_a_library"},
                                        {"empty_file", "empty_file"},
                                        {"truncated", "truncated"},
                                        {"exits_when_opened", "ends the process"},
                                        {"throws_when_opened", "throws"},
                                        {"hangs_when_opened", "takes more than 1 s"}};
  for (const auto& [name, says] : kUnloadable) {
    const Result result =
        Conform(Broken(name, absl::StrCat("sampler_", name)), {"--deadline", "1"});
    EXPECT_EQ(result.exit_code, 4) << name << ": " << result.out;
    EXPECT_THAT(result.out, StartsWith("FAIL    load ")) << name;
    EXPECT_THAT(result.err, HasSubstr(says)) << name;
  }
}

}  // namespace
}  // namespace ng::test
