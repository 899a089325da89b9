// What a schema says of arrays: their length, their elements, and which of them they contain.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {

struct SchemaCompiler::Elements {
  Count count;
  int64_t n_prefix = 0;  // elements with schemas of their own
  std::optional<SchemaNode> contained;
  Count times;  // how many of them

  // The element at `last` and all behind it are alike; where they are counted, so are the others.
  int64_t last() const { return std::max({first_alike(), count.least, count.most}); }
  int64_t first_alike() const { return std::max<int64_t>(1, n_prefix); }
  // Of those contained, no more are counted than matters.
  int64_t counted() const { return times.most >= 0 ? times.most : times.least; }
};

namespace {

// What is counted by the rule and not by states of their own.
enum class CountedBy : uint8_t { kNothing, kElements, kHits };

}  // namespace

absl::StatusOr<Part> SchemaCompiler::Array(const AllOf& all) {
  Elements elements;
  NG_ASSIGN_OR_RETURN(elements.count, Counts(all, "minItems", "maxItems"));
  for (const SchemaNode& node : all) NG_RETURN_IF_ERROR(CollectElements(node, elements));
  Count& count = elements.count;
  const AllOf others = ElementSchemas(all, elements.n_prefix);
  const bool no_others =
      std::ranges::any_of(others, [](const SchemaNode& node) { return *node.json == false; });
  if (no_others && (count.most < 0 || count.most > elements.n_prefix)) {
    count.most = elements.n_prefix;
  }
  if (count.most >= 0 && count.least > count.most) return net_.Never();
  for (const SchemaNode& node : all) {
    const auto unique = node.json->find("uniqueItems");
    if (unique == node.json->end() || *unique == false) continue;
    if (elements.count.most == 0 || elements.count.most == 1) continue;
    const std::string at = PointerTo(node.at, "uniqueItems");
    NG_ASSIGN_OR_RETURN(const std::vector<Json> values, ListedElements(all, elements, at));
    return SetOf(values, elements);
  }
  return ArrayOf(all, elements);
}

// The values that an element may have, where the schema lists them.
absl::StatusOr<std::vector<Json>> SchemaCompiler::ListedElements(const AllOf& all,
                                                                 const Elements& elements,
                                                                 const std::string& at) {
  constexpr size_t kMostValues = 10;
  std::vector<Json> found;
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives,
                      nodes_.Alternatives(ElementSchemas(all, 0)));
  bool listed = elements.n_prefix == 0 && !elements.contained;
  for (const AllOf& alternative : alternatives) {
    Json list;
    for (const SchemaNode& node : alternative) {
      if (node.json->contains("const")) list = Json::array({(*node.json)["const"]});
      if (node.json->contains("enum")) list = (*node.json)["enum"];
    }
    listed &= list.is_array();
    for (const Json& value : list.is_array() ? list : Json::array()) {
      bool allowed =
          std::ranges::none_of(found, [&value](const Json& other) { return Same(other, value); });
      for (const SchemaNode& node : alternative) {
        NG_ASSIGN_OR_RETURN(const bool keeps, Keeps(node, value, 0));
        allowed &= keeps;
      }
      if (allowed) found.push_back(value);
    }
  }
  if (listed && found.size() <= kMostValues) return found;
  return SchemaError(at, absl::StrCat("is supported for elements whose values are listed, at most ",
                                      kMostValues, ", or where it is false"));
}

// An array of different values: which of them have been written is the state.
Part SchemaCompiler::SetOf(const std::vector<Json>& values, const Elements& elements) {
  const Count& count = elements.count;
  std::vector<int32_t> rules;
  for (const Json& value : values) {
    rules.push_back(net_.NewRule("an element"));
    net_.SetRule(rules.back(), Literal(value));
  }
  const uint32_t n_sets = 1U << values.size();
  const int32_t base = net_.NewStates(n_sets);
  const Part begin = net_.Then(net_.Text("["), net_.Calling(blanks_));
  const Part end = net_.Text("]");
  net_.Free(begin.out, base);
  for (uint32_t set = 0; set < n_sets; ++set) {
    int32_t before = base + static_cast<int32_t>(set);
    const int n = std::popcount(set);
    if (n >= count.least) net_.Free(before, end.in);
    if (count.most >= 0 && n >= count.most) continue;
    if (set != 0) {
      const Part comma = net_.Then(net_.Text(","), net_.Calling(blanks_));
      net_.Free(before, comma.in);
      before = comma.out;
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      const uint32_t more = set | 1U << i;
      if (more == set) continue;
      const Part after = net_.Calling(blanks_);
      net_.Call(before, after.in, rules[i]);
      net_.Free(after.out, base + static_cast<int32_t>(more));
    }
  }
  return Part{begin.in, end.out};
}

absl::Status SchemaCompiler::CollectElements(const SchemaNode& node, Elements& elements) const {
  const Json& json = *node.json;
  for (const char* name : {"prefixItems", "items"}) {
    if (json.contains(name) && json[name].is_array()) {
      elements.n_prefix = std::max<int64_t>(elements.n_prefix, std::ssize(json[name]));
    }
  }
  if (!json.contains("contains")) return absl::OkStatus();
  const std::string at = PointerTo(node.at, "contains");
  if (elements.contained) return SchemaError(at, "is supported once");
  NG_ASSIGN_OR_RETURN(elements.times, Counts({node}, "minContains", "maxContains"));
  if (!json.contains("minContains")) elements.times.least = 1;
  elements.contained = SchemaNode{&json["contains"], at};
  return absl::OkStatus();
}

absl::StatusOr<Part> SchemaCompiler::ArrayOf(const AllOf& all, const Elements& elements) {
  constexpr int64_t kFewStates = 40;
  constexpr int64_t kMostStates = 100000;
  const Count& count = elements.count;
  const std::optional<SchemaNode>& contained = elements.contained;
  const Count& times = elements.times;
  CountedBy by = CountedBy::kNothing;
  if ((elements.last() + 1) * (elements.counted() + 1) > kFewStates) {
    by = count.any() ? CountedBy::kHits : CountedBy::kElements;
  }
  const bool by_rule = by != CountedBy::kNothing;
  const int64_t last = by_rule ? elements.first_alike() : elements.last();
  const int64_t most_hits = by == CountedBy::kHits ? 0 : elements.counted();
  if ((last + 1) * (most_hits + 1) > kMostStates) {
    return SchemaError(PointerTo(all.front().at, "contains"),
                       absl::StrCat("together with a count of elements, it takes more than ",
                                    kMostStates, " states"));
  }
  // [last + 1, most_hits + 1] Where so many elements have been read, and so many of them count.
  const int32_t base = net_.NewStates((last + 1) * (most_hits + 1));
  const auto state = [&](int64_t n, int64_t hits) {
    return base + static_cast<int32_t>(std::min(n, last) * (most_hits + 1) + hits);
  };
  const Part begin = net_.Then(net_.Text("["), net_.Calling(blanks_));
  const Part end = net_.Text("]");
  int32_t rule = -1;
  int32_t out = end.in;
  if (by_rule) {
    rule = net_.NewRule("elements", by == CountedBy::kElements ? count : times);
    out = net_.NewState();
    net_.SetRule(rule, {state(0, 0), out});
    net_.Call(begin.out, end.in, rule);
  } else {
    net_.Free(begin.out, state(0, 0));
  }
  // With an upper bound an element that does not count must not match; else it may.
  std::optional<SchemaNode> opposite;
  if (contained && times.most >= 0) {
    NG_ASSIGN_OR_RETURN(opposite, nodes_.Negated(*contained));
  }
  for (int64_t n = 0; n <= last; ++n) {
    AllOf plain = ElementSchemas(all, n);
    AllOf hit = plain;
    if (contained) hit.push_back(*contained);
    if (opposite) plain.push_back(*opposite);
    for (int64_t hits = 0; hits <= most_hits; ++hits) {
      const int32_t from = state(n, hits);
      // Before anything is counted, the rule's bound is looked at here.
      const bool enough = n >= count.least || (by == CountedBy::kElements && n > 0);
      const bool enough_hits = hits >= times.least || (by == CountedBy::kHits && n > 0);
      if (enough && enough_hits) net_.Free(from, out);
      if (by != CountedBy::kElements && count.most >= 0 && n >= count.most) continue;
      const auto go = [&](const AllOf& schemas, int64_t hits_behind, bool counts) {
        int32_t before = from;
        if (counts) {
          // There must be room for those that are still to count.
          Count window;
          const int64_t missing = times.least - hits_behind;
          if (by == CountedBy::kElements && count.most >= 0 && missing > 0) {
            window.most = count.most - missing;
            if (window.most < 1) return;
          }
          before = net_.NewState();
          net_.CountOne(from, before, rule, window);
        }
        if (n > 0) {
          const Part comma = net_.Then(net_.Text(","), net_.Calling(blanks_));
          net_.Free(before, comma.in);
          before = comma.out;
        }
        const Part after = net_.Calling(blanks_);
        net_.Call(before, after.in, RuleOf(schemas));
        net_.Free(after.out, state(n + 1, hits_behind));
      };
      go(plain, hits, by == CountedBy::kElements);
      if (contained && by == CountedBy::kHits) go(hit, hits, true);
      if (contained && hits < most_hits) go(hit, hits + 1, by == CountedBy::kElements);
    }
  }
  return Part{begin.in, end.out};
}

AllOf SchemaCompiler::ElementSchemas(const AllOf& all, int64_t index) const {
  AllOf found;
  const auto at = static_cast<size_t>(index);
  for (const SchemaNode& node : all) {
    const Json& json = *node.json;
    const bool old_list = json.contains("items") && json["items"].is_array();
    const char* prefix = old_list ? "items" : "prefixItems";
    const char* rest = old_list ? "additionalItems" : "items";
    const std::string where = PointerTo(node.at, prefix);
    const bool has_prefix = json.contains(prefix) && json[prefix].is_array();
    if (has_prefix && at < json[prefix].size()) {
      found.push_back({&json[prefix][at], PointerTo(where, absl::StrCat(index))});
    } else if (json.contains(rest)) {
      found.push_back({&json[rest], PointerTo(node.at, rest)});
    }
  }
  return found;
}

}  // namespace ng::grammar
