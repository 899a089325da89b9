// Constrains the answer to a regular expression over its bytes. It ends with the answer that no
// longer one can follow; before, a stop id can end it wherever it matches.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/history_stage.h"
#include "regex/byte_dfa.h"

namespace {

using ng_parts::ByteDfa;

constexpr ng::OptionSpec kOptions[] = {
    ng::TextOption("pattern", "[0-9]+(,[0-9]+)*", "what the whole answer must match"),
    ng::IntOption("max_states", 4096, {.min = 1, .max = 1000000}, "limit of the automaton")};

// What it remembers behind each token is the automaton's state.
class Regex final : public ng::HistoryStage<int32_t> {
 public:
  Regex(ByteDfa dfa, const ng::PluginContext& context)
      : HistoryStage(context.model, ByteDfa::kStart),
        dfa_(std::move(dfa)),
        context_(context),
        masks_(dfa_.size()) {}

  absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override {
    const int32_t state = IsStopId(token) ? Last(slot) : Next(Last(slot), token);
    if (state == ByteDfa::kDead) {
      return ng::RuntimeError("token " + std::to_string(token) + " leaves the pattern");
    }
    Remember(slot, state);
    return dfa_.Ends(state) ? ng::SequenceEnd::kStage : ng::SequenceEnd::kNo;
  }

  absl::Status Apply(int slot, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    NG_RETURN_IF_ERROR(set.MaxLogit().status());
    set.Mask(MaskOf(Last(slot)));
    return ng::Annotate(set.MaxLogit().status(),
                        "nothing goes on with the pattern (put regex before the stages that "
                        "narrow): ");
  }

 private:
  bool IsStopId(int32_t token) const {
    return std::ranges::find(context_.stop_ids, token) != context_.stop_ids.end();
  }
  // A token without text goes nowhere.
  int32_t Next(int32_t state, int32_t token) const {
    const std::string_view bytes = context_.token_bytes[token];
    const bool is_text = context_.special[token] == 0 && !bytes.empty();
    return is_text ? dfa_.Walk(state, bytes) : ByteDfa::kDead;
  }
  // The tokens that may follow a state; made when the state is first met.
  std::span<const uint64_t> MaskOf(int32_t state) {
    std::vector<uint64_t>& mask = masks_[state];
    const int64_t n_tokens = context_.model.vocab_size;
    if (!mask.empty()) return mask;
    mask.resize((n_tokens + 63) / 64);
    for (int32_t id = 0; id < n_tokens; ++id) {
      const bool may = IsStopId(id) ? dfa_.Accepts(state) : Next(state, id) != ByteDfa::kDead;
      if (may) mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    return mask;
  }

  const ByteDfa dfa_;
  const ng::PluginContext context_;           // without its options, which are gone
  std::vector<std::vector<uint64_t>> masks_;  // [state][ceil(vocab_size / 64)]
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  if (context.token_bytes.empty()) return ng::PluginError("needs a tokenizer, the model has none");
  const std::string pattern(context.options.Text("pattern"));
  absl::StatusOr<ByteDfa> dfa = ByteDfa::Build(pattern, context.options.Int("max_states"));
  if (!dfa.ok()) {
    return ng::Annotate(dfa.status(), "sampler.regex.pattern = " + pattern + ": ");
  }
  return std::make_unique<Regex>(*std::move(dfa), context);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kConstraint,
    ng::SamplerPlugin<Create>("regex", "1.0.0", "constrains the answer to a regular expression",
                              kOptions));
