// Puts small rules in place of their calls.
//
// Grammars that people write have rules for a character or a blank. A mask is kept for what lies
// within one rule, so it would have to be put together anew at each character.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_INLINE_RULES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_INLINE_RULES_H_

#include <cstdint>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

// Returns the number of the root afterwards. Leaves the net as it is where it would become too
// large. REQUIRES: all rules are set.
int32_t InlineRules(Net& net, int32_t root);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_INLINE_RULES_H_
