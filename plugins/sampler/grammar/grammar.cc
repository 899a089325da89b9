#include "plugins/sampler/grammar/grammar.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plugins/sampler/grammar/compile.h"

namespace ng {
namespace {

std::vector<std::string_view> TextTokens(const PluginContext& context) {
  std::vector<std::string_view> bytes(context.token_bytes.begin(), context.token_bytes.end());
  for (size_t id = 0; id < bytes.size() && id < context.special.size(); ++id) {
    if (context.special[id] != 0) bytes[id] = {};
  }
  return bytes;
}

absl::Status CheckTokens(const grammar::Program& program, const PluginContext& context) {
  if (program.tokens().empty() || program.tokens().back() < context.model.vocab_size) return {};
  return UsageError(absl::StrCat("sampler.grammar.gbnf: names the token ", program.tokens().back(),
                                 ", must be below ", context.model.vocab_size,
                                 " (the vocabulary)"));
}

// Those without a text, but for those that end an answer.
std::vector<int32_t> OtherTokens(std::span<const std::string_view> texts,
                                 const PluginContext& context, const grammar::Program& program) {
  std::vector<int32_t> others;
  if (!program.reads_others()) return others;
  for (int32_t id = 0; id < std::ssize(texts); ++id) {
    const bool stops = std::ranges::find(context.stop_ids, id) != context.stop_ids.end();
    const bool named = std::ranges::binary_search(program.tokens(), id);
    if (texts[static_cast<size_t>(id)].empty() && !stops && !named) others.push_back(id);
  }
  return others;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SamplerStage>> Grammar::Create(const GrammarSource& source,
                                                              const PluginContext& context) {
  if (context.token_bytes.empty()) {
    return UsageError("sampler.grammar: the model has no tokenizer, so its tokens have no text");
  }
  const std::shared_ptr<const grammar::TokenTrie> trie = grammar::TokenTrie::Shared(context);
  NG_ASSIGN_OR_RETURN(grammar::Program program, CompileGrammar(source));
  NG_RETURN_IF_ERROR(CheckTokens(program, context));
  absl::StatusOr<grammar::Machine> machine =
      grammar::Machine::Make(std::move(program), trie->depth());
  NG_RETURN_IF_ERROR(Annotate(machine.status(), "sampler.grammar: "));
  auto stage = absl::WrapUnique(new Grammar(*std::move(machine), trie, context));
  const auto mask = stage->masks_.Of(grammar::Machine::kStart);
  NG_RETURN_IF_ERROR(Annotate(mask.status(), "sampler.grammar: "));
  const bool begins = std::ranges::any_of(*mask, [](uint64_t bits) { return bits != 0; });
  if (!begins) {
    return UsageError(absl::StrCat("sampler.grammar: none of the ", trie->n_tokens(),
                                   " tokens with a text begins a text of the grammar, and no stop "
                                   "id may stand for an empty one"));
  }
  stage->masks_.Prepare(context.stop);
  return stage;
}

Grammar::Grammar(grammar::Machine machine, std::shared_ptr<const grammar::TokenTrie> trie,
                 const PluginContext& context)
    : HistoryStage(context.model, grammar::Machine::kStart),
      vocab_size_(context.model.vocab_size),
      token_bytes_(TextTokens(context)),
      stop_ids_(context.stop_ids.begin(), context.stop_ids.end()),
      trie_(std::move(trie)),
      machine_(std::move(machine)),
      masks_(*trie_, machine_, context.model.vocab_size, stop_ids_) {
  masks_.SetOthers(OtherTokens(token_bytes_, context, machine_.program()));
}

absl::StatusOr<int32_t> Grammar::Behind(int32_t now, int32_t token) {
  const grammar::Program& program = machine_.program();
  const std::span<const int32_t> named = program.tokens();
  const auto place = std::ranges::lower_bound(named, token);
  const bool is_named = place != named.end() && *place == token;
  const std::string_view text = token_bytes_[static_cast<size_t>(token)];
  if (is_named || text.empty()) {
    const auto i = is_named ? static_cast<size_t>(place - named.begin()) : named.size();
    NG_ASSIGN_OR_RETURN(const int32_t next, machine_.AdvanceToken(now, program.ClassOfToken(i)));
    // A stop id that is no part of the grammar ends the answer where it is.
    return next == grammar::Machine::kDead && IsStopId(token) ? now : next;
  }
  return IsStopId(token) ? now : machine_.Advance(now, text);
}

bool Grammar::AllowsAll(std::span<const uint64_t> mask) const {
  const int64_t last = vocab_size_ % 64;
  const uint64_t end = last == 0 ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
  return mask.back() == end &&
         std::ranges::all_of(mask.first(mask.size() - 1), [](uint64_t bits) { return ~bits == 0; });
}

bool Grammar::IsStopId(int32_t token) const {
  return std::ranges::find(stop_ids_, token) != stop_ids_.end();
}

absl::Status Grammar::Open(int slot, std::span<const int32_t> prompt_ids) {
  n_slots_ = std::max(n_slots_, slot + 1);
  return HistoryStage::Open(slot, prompt_ids);
}

absl::Status Grammar::Fork(int from, int to) {
  n_slots_ = std::max(n_slots_, to + 1);
  return HistoryStage::Fork(from, to);
}

absl::StatusOr<SequenceEnd> Grammar::Accept(int slot, int32_t token) {
  Renew();
  NG_ASSIGN_OR_RETURN(const int32_t now, Behind(Last(slot), token));
  if (now == grammar::Machine::kDead) {
    return RuntimeError(absl::StrCat("token ", token, " does not go on with the grammar"));
  }
  Remember(slot, now);
  return machine_.MustEnd(now) ? SequenceEnd::kStage : SequenceEnd::kNo;
}

absl::Status Grammar::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
  NG_ASSIGN_OR_RETURN(const std::span<const uint64_t> mask, masks_.Of(Last(slot)));
  if (AllowsAll(mask)) return absl::OkStatus();  // where a grammar has free text
  candidates.Mask(mask);
  return Annotate(candidates.MaxLogit().status(),
                  "no candidate goes on with the grammar (put grammar before the stages that "
                  "narrow; the vocabulary must be able to spell it): ");
}

std::string Grammar::Report() const { return absl::StrJoin(machine_.program().notes(), "; "); }

void Grammar::Renew() {
  if (!machine_.Full()) return;
  std::vector<int32_t> in_use = {grammar::Machine::kStart};
  for (int slot = 0; slot < n_slots_; ++slot) {
    in_use.insert(in_use.end(), History(slot).begin(), History(slot).end());
  }
  machine_.Restart(in_use);
  masks_.Forget();
  size_t next = 1;
  for (int slot = 0; slot < n_slots_; ++slot) {
    const size_t n = History(slot).size();
    const auto begin = in_use.begin() + static_cast<ptrdiff_t>(next);
    Empty(slot, n).assign(begin, begin + static_cast<ptrdiff_t>(n));
    next += n;
  }
}

absl::StatusOr<grammar::Program> CompileGrammar(const GrammarSource& source) {
  const bool schema = !source.json_schema.empty();
  const bool regex = !source.regex.empty();
  const bool gbnf = !source.gbnf.empty();
  const int n_set = (schema ? 1 : 0) + (regex ? 1 : 0) + (gbnf ? 1 : 0);
  if (n_set != 1) {
    return UsageError(absl::StrCat(
        "sampler.grammar: ", n_set,
        " of sampler.grammar.json_schema, .regex and .gbnf are set, must be exactly one"));
  }
  const char* option = schema ? "json_schema" : regex ? "regex" : "gbnf";
  const grammar::CompileSettings settings = {
      .spelling = {source.assert_formats, source.compact},
      .before = source.before,
      .stop = source.stop,
  };
  absl::StatusOr<grammar::Program> program =
      schema  ? grammar::CompileSchemaOption(source.json_schema, settings)
      : regex ? grammar::CompileRegex(source.regex, settings)
              : grammar::CompileGbnfOption(source.gbnf, settings);
  if (program.ok()) return program;
  if (absl::StartsWith(program.status().message(), grammar::kBeforeOption)) return program;
  return Annotate(program.status(), absl::StrCat("sampler.grammar.", option, ": "));
}

}  // namespace ng
