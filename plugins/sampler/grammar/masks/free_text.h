// Where a grammar reads free text: configurations from which all characters of a kind lead to one
// and the same. So one look tells that all texts of such kinds go on, however long they are.
//
// What is found is kept until `Forget`.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_FREE_TEXT_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_FREE_TEXT_H_

#include <cstdint>
#include <vector>

#include "plugins/sampler/grammar/masks/machine.h"
#include "plugins/sampler/grammar/masks/token_kinds.h"

namespace ng::grammar {

class FreeText {
 public:
  explicit FreeText(Machine& machine) : machine_(machine) {}

  // Whether everything below a node goes on that leads to this configuration. False: it is not
  // known.
  bool GoesOn(int32_t configuration, const Below& below);
  // After the machine's numbers have changed.
  void Forget();

 private:
  static constexpr int32_t kUnknown = -1;

  // Where characters lead.
  struct Way {
    int32_t to = kUnknown;  // kDead: nowhere, or not to one
    Kinds kinds = 0;
  };
  // Where the rest of a character leads, whichever it is.
  struct Rest {
    int32_t to = kUnknown;  // kDead: as above
    Within at = Within::kNothing;
  };

  Way WayFrom(int32_t configuration);
  Way FindWay(int32_t configuration);
  int32_t RestFrom(int32_t configuration, Within at);
  int32_t FindRest(int32_t configuration, Within at);
  int32_t Step(int32_t configuration, int byte) {
    return machine_.Step(configuration, machine_.program().ClassOf(static_cast<uint8_t>(byte)));
  }

  Machine& machine_;
  std::vector<Way> ways_;    // [configurations so far]
  std::vector<Rest> rests_;  // [configurations so far]
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_MASKS_FREE_TEXT_H_
