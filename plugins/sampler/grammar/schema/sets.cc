// What a schema says of arrays whose elements must differ: these are decided where they differ
// anyway, or where few values are possible.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/compiler.h"
#include "plugins/sampler/grammar/schema/elements.h"

namespace ng::grammar {
namespace {

constexpr size_t kMostValues = 10;

}  // namespace

bool SchemaCompiler::AlwaysDiffer(const AllOf& all, const Elements& elements) {
  constexpr int64_t kMostPlaces = 8;
  const int64_t n = elements.count.most;
  if (n < 0 || n > kMostPlaces) return false;
  std::vector<AllOf> places;
  for (int64_t i = 0; i < n; ++i) places.push_back(ElementSchemas(all, i));
  const auto differ = [this](const AllOf& a, const AllOf& b) {
    return std::ranges::any_of(a, [&](const SchemaNode& one) {
      return std::ranges::any_of(
          b, [&](const SchemaNode& other) { return nodes_.Disjoint(one, other, kAllTypes); });
    });
  };
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!differ(places[i], places[j])) return false;
    }
  }
  return true;
}

absl::StatusOr<std::optional<std::vector<Json>>> SchemaCompiler::FewValues(const AllOf& all) {
  std::vector<Json> found;
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives, nodes_.Alternatives(all));
  for (const AllOf& alternative : alternatives) {
    unsigned types = kAllTypes;
    std::optional<Json> list;
    for (const SchemaNode& node : alternative) {
      NG_ASSIGN_OR_RETURN(const unsigned more, TypesOf(node));
      types &= more;
      if (node.json->contains("const")) list = Json::array({(*node.json)["const"]});
      if (node.json->contains("enum")) list = (*node.json)["enum"];
    }
    if (!list) {
      if ((types & ~(kNullType | kBooleanType)) != 0) return std::nullopt;
      list = Json::array({nullptr, false, true});
    }
    for (const Json& value : *list) {
      bool allowed =
          std::ranges::none_of(found, [&value](const Json& other) { return Same(other, value); });
      for (const SchemaNode& node : alternative) {
        NG_ASSIGN_OR_RETURN(const bool keeps, Keeps(node, value, 0));
        allowed &= keeps;
      }
      if (allowed) found.push_back(value);
      if (found.size() > kMostValues) return std::nullopt;
    }
  }
  return found;
}

// An array of different values: which of them have been written is the state.
absl::StatusOr<Part> SchemaCompiler::SetOf(const AllOf& all, const Elements& elements,
                                           const std::string& at) {
  const Count& count = elements.count;
  std::vector<Json> values;
  std::vector<uint32_t> allowed;  // [place], a bit for each value; the last one is of all behind it
  const auto refused = [&] {
    return SchemaError(at, absl::StrCat("is supported where at most ", kMostValues,
                                        " values are listed for the elements, where no two can be "
                                        "equal, or where it is false"));
  };
  if (!elements.contained.empty()) return refused();
  const int64_t last = count.most < 0
                           ? elements.n_prefix
                           : std::min(elements.n_prefix, std::max<int64_t>(0, count.most - 1));
  for (int64_t place = 0; place <= last; ++place) {
    NG_ASSIGN_OR_RETURN(const auto few, FewValues(ElementSchemas(all, place)));
    if (!few) return refused();
    allowed.push_back(0);
    for (const Json& value : *few) {
      const auto known =
          std::ranges::find_if(values, [&value](const Json& other) { return Same(other, value); });
      allowed.back() |= 1U << (known - values.begin());
      if (known == values.end()) values.push_back(value);
      if (values.size() > kMostValues) return refused();
    }
  }
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
    const uint32_t here = allowed[std::min(static_cast<size_t>(n), allowed.size() - 1)];
    for (size_t i = 0; i < rules.size(); ++i) {
      const uint32_t more = set | 1U << i;
      if (more == set || (here >> i & 1) == 0) continue;
      const Part after = net_.Calling(blanks_);
      net_.Call(before, after.in, rules[i]);
      net_.Free(after.out, base + static_cast<int32_t>(more));
    }
  }
  return Part{begin.in, end.out};
}

}  // namespace ng::grammar
