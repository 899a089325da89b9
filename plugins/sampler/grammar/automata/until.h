// Text up to a beginning: what a grammar has in common with a search.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_UNTIL_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_UNTIL_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

// What ends a text, and where it goes on.
struct Beginning {
  Part part;              // it calls no rule, and may not be empty
  bool at_start = false;  // it counts only where the text begins with it
  int32_t to = 0;
};

// The states of such a text. A token that the grammar names elsewhere leads from each of them to
// `restart`, but where the pair is one of `but`: the grammar's end adds these edges.
struct FreeTokens {
  int32_t restart = 0;
  std::vector<int32_t> states = {};
  std::vector<std::pair<int32_t, int32_t>> but = {};  // rising: {state, token}
};

// Any bytes, and any tokens without a text, up to and with the first place where one of the
// beginnings has come to its end; of several that end there the first. `end`: where a text goes
// that ends before that; -1: none may. Returns where it begins. REQUIRES: all of the beginnings has
// been added since `mark`.
int32_t AddUntil(std::span<const Beginning> beginnings, Net::Mark mark, int32_t end, Net& net,
                 FreeTokens* tokens);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_UNTIL_H_
