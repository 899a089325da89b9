// What other programs call ng's config keys: --temp, --ctx-size. One table, by which the command
// line, /set, help and completion go.
//
// An override of Engine may have such a name in the place of a key ("temp=0.2"). The config has the
// key, and the stage that it belongs to is in sampler.chain.
//
// Thread: pure functions.
#ifndef NG_SPELLINGS_H_
#define NG_SPELLINGS_H_

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace ng {

struct Spelling {
  // As they are typed, with blanks between them: "temperature temp". A '_' counts as a '-'.
  std::string_view names;
  std::string_view key;  // that is set; empty: the name means something else elsewhere, see `why`
  // Of the sampler: joins sampler.chain, at its usual place. Empty: the chain stays as it is.
  std::string_view stage = {};
  bool takes_value = true;
  // With a number up to this one the stage leaves the chain, as it does elsewhere, and the key is
  // not set.
  double off = -std::numeric_limits<double>::infinity();
  // A number below this one means something else elsewhere; `why` says what to write. Where the key
  // is the chain itself, it is the one number besides `off`.
  double least = -std::numeric_limits<double>::infinity();
  std::string_view why = {};

  // The names by themselves.
  std::vector<std::string_view> Names() const;
};

std::span<const Spelling> Spellings();
// The row that has the name; null: there is none.
const Spelling* FindSpelling(std::string_view name);

// The chain with the stage at its usual place, unless it is there. Greedy takes the place of the
// stages that draw, and temperature that of greedy.
std::vector<std::string> WithStage(std::vector<std::string> chain, std::string_view stage);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SPELLINGS_H_
