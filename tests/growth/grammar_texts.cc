#include "tests/growth/grammar_texts.h"

#include "tests/growth/growth.h"
#include "tests/plugins/sampler/grammar/grammar_testing.h"

namespace ng::test {

std::optional<int64_t> BytesToMake(const GrammarText& grammar, std::string* refusal) {
  static const GrammarVocabulary* const vocabulary = new GrammarVocabulary;
  absl::Status status;
  const int64_t bytes =
      BytesOf([&] { status = Grammar::Create(grammar.source(), vocabulary->context).status(); });
  *refusal = std::string(status.message());
  if (status.ok()) return bytes;
  return std::nullopt;
}

}  // namespace ng::test
