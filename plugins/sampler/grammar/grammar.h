// Leaves only the tokens with which the answer can still come to match a grammar: a JSON schema, a
// regular expression, or rules in GBNF. The answer's bytes count, not its tokens: a token may
// begin, end or cross any part of the grammar. Only a token that the grammar names counts as a
// whole: its text in other tokens is another thing. Where the answer matches, a stop id may end it;
// where nothing more can follow, it ends.
//
// Memory is taken in create and Open, and in Apply and Accept only where an answer comes to a place
// of the grammar for the first time: what was found there, and masks, are kept. Beyond 64 MB of the
// one and 32 MB of the other they are forgotten and made again as they are met.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"
#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/masks.h"
#include "plugins/sampler/grammar/masks/token_trie.h"

namespace ng {

// Exactly one of the first three is set.
struct GrammarSource {
  std::string_view json_schema = {};  // the schema itself, or the name of a file with it
  std::string_view regex = {};
  std::string_view gbnf = {};    // the rules themselves, or the name of a file with them
  std::string_view before = {};  // items of GBNF: what comes before all that; empty: nothing
  bool assert_formats = true;
  bool compact = false;                     // no whitespace between the parts of JSON
  const std::atomic<bool>* stop = nullptr;  // PluginContext's
};

// What is remembered of a token is the configuration behind it.
class Grammar final : public HistoryStage<int32_t> {
 public:
  // Errors: UsageError naming the option, what is wrong in the grammar and where; or when the model
  // has no tokenizer, or no token that the grammar can begin with.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const GrammarSource& source,
                                                              const PluginContext& context);

  // Errors: RuntimeError for a token that the grammar does not allow; here and in Apply UsageError
  // when the place takes too much work.
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override;
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::Status Fork(int from, int to) override;
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;
  // What of the schemas of tools is not kept.
  std::string Report() const override;

 private:
  Grammar(grammar::Machine machine, std::shared_ptr<const grammar::TokenTrie> trie,
          const PluginContext& context);
  bool IsStopId(int32_t token) const;
  bool AllowsAll(std::span<const uint64_t> mask) const;
  // The configuration behind a token.
  absl::StatusOr<int32_t> Behind(int32_t now, int32_t token);
  // Makes room in the machine when it is full.
  void Renew();

  const int64_t vocab_size_;
  const std::vector<std::string_view> token_bytes_;  // [vocab_size], none for special tokens
  const std::vector<int32_t> stop_ids_;
  const std::shared_ptr<const grammar::TokenTrie> trie_;
  grammar::Machine machine_;
  grammar::Masks masks_;
  int n_slots_ = 0;
};

// Reads the grammar of an option.
absl::StatusOr<grammar::Program> CompileGrammar(const GrammarSource& source);

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_GRAMMAR_H_
