// What schemas that hold at once say of an array as a whole.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_ELEMENTS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_ELEMENTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {

// One `contains`.
struct SchemaCompiler::Contained {
  SchemaNode node;
  std::optional<SchemaNode> opposite = std::nullopt;  // where it matters
  Count times = {};
  int64_t from = 0;  // the first element that it is about

  // No more are counted than matters.
  int64_t counted() const { return times.most >= 0 ? times.most : times.least; }
};

struct SchemaCompiler::Elements {
  Count count;
  int64_t n_prefix = 0;  // elements with schemas of their own
  std::vector<Contained> contained;

  // The element at `last` and all behind it are alike; where they are counted, so are the others.
  int64_t last() const { return std::max({first_alike(), count.least, count.most}); }
  int64_t first_alike() const {
    int64_t first = std::max<int64_t>(1, n_prefix);
    for (const Contained& each : contained) first = std::max(first, each.from);
    return first;
  }
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_ELEMENTS_H_
