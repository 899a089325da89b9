// What a schema says of arrays: their length, their elements, and which of them they contain.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/compiler.h"
#include "plugins/sampler/grammar/schema/elements.h"

namespace ng::grammar {

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
    if (AlwaysDiffer(all, elements)) continue;
    return SetOf(all, elements, PointerTo(node.at, "uniqueItems"));
  }
  return ArrayOf(all, elements);
}

absl::Status SchemaCompiler::CollectElements(const SchemaNode& node, Elements& elements) {
  constexpr size_t kMostContained = 4;
  const Json& json = *node.json;
  for (const char* name : {"prefixItems", "items"}) {
    if (json.contains(name) && json[name].is_array()) {
      elements.n_prefix = std::max<int64_t>(elements.n_prefix, std::ssize(json[name]));
    }
  }
  if (!json.contains("contains")) return absl::OkStatus();
  Contained contained{.node = node.Part(json["contains"], "contains")};
  NG_ASSIGN_OR_RETURN(contained.times, Counts({node}, "minContains", "maxContains"));
  if (!json.contains("minContains")) contained.times.least = 1;
  contained.from = json.value(kFrom, int64_t{0});
  // With an upper bound an element that does not count must not match; else it may.
  if (contained.times.most >= 0) {
    NG_ASSIGN_OR_RETURN(contained.opposite, nodes_.Negated(contained.node));
  }
  if (contained.times.any()) return absl::OkStatus();
  if (elements.contained.size() == kMostContained) {
    return SchemaError(contained.node.at,
                       absl::StrCat("more than ", kMostContained, " at once are not supported"));
  }
  elements.contained.push_back(std::move(contained));
  return absl::OkStatus();
}

// An array as it is read: how many elements there are, and how many of them count for each
// `contains`, each as far as it matters.
class SchemaCompiler::Reading {
 public:
  Reading(SchemaCompiler& compiler, const AllOf& all, const Elements& elements)
      : compiler_(compiler), net_(compiler.net_), all_(all), elements_(elements) {}

  absl::StatusOr<Part> Make() {
    NG_RETURN_IF_ERROR(Measure());
    begin_ = net_.Then(net_.Text("["), net_.Calling(compiler_.blanks_));
    const Part end = net_.Text("]");
    base_ = net_.NewStates((last_ + 1) * n_hits_);
    out_ = end.in;
    if (by_ == By::kStates) {
      net_.Free(begin_.out, base_);
    } else {
      rule_ = net_.NewRule(
          "elements", by_ == By::kElements ? elements_.count : elements_.contained.front().times);
      out_ = net_.NewState();
      net_.SetRule(rule_, {base_, out_});
      net_.Call(begin_.out, end.in, rule_);
    }
    for (int64_t n = 0; n <= last_; ++n) {
      for (int64_t hits = 0; hits < n_hits_; ++hits) AddState(n, hits);
    }
    return Part{begin_.in, end.out};
  }

 private:
  // What is counted by a rule and not by states of their own.
  enum class By : uint8_t { kStates, kElements, kHits };

  absl::Status Measure() {
    constexpr int64_t kFewStates = 40;
    constexpr int64_t kMostStates = 100000;
    const Count& count = elements_.count;
    last_ = elements_.last();
    for (const Contained& each : elements_.contained) {
      n_hits_ = std::min(n_hits_ * (each.counted() + 1), kMostStates + 1);
    }
    const std::vector<Contained>& contained = elements_.contained;
    const bool one = contained.size() == 1 && contained.front().from == 0;
    if ((last_ + 1) * n_hits_ > kFewStates) {
      if (count.any() && one) by_ = By::kHits;
      if (!count.any() && (one || contained.empty())) by_ = By::kElements;
    }
    if (by_ != By::kStates) last_ = elements_.first_alike();
    if (by_ == By::kHits) n_hits_ = 1;
    if ((last_ + 1) * n_hits_ <= kMostStates) return absl::OkStatus();
    const std::string at = contained.empty() ? all_.front().at : contained.front().node.at;
    return SchemaError(at, absl::StrCat("together with a count of elements, it takes more than ",
                                        kMostStates, " states"));
  }

  // How many count for a `contained`, of a number for all of them.
  int64_t HitsOf(int64_t hits, size_t which) const {
    for (size_t i = 0; i < which; ++i) hits /= elements_.contained[i].counted() + 1;
    return hits % (elements_.contained[which].counted() + 1);
  }
  int32_t State(int64_t n, int64_t hits) const {
    return base_ + static_cast<int32_t>(std::min(n, last_) * n_hits_ + hits);
  }

  bool MayEnd(int64_t n, int64_t hits) const {
    // Before anything is counted by the rule, its bound is looked at here.
    const bool enough = n >= elements_.count.least || (by_ == By::kElements && n > 0);
    if (by_ == By::kHits) return enough && (n > 0 || elements_.contained.front().times.least == 0);
    for (size_t i = 0; i < elements_.contained.size(); ++i) {
      if (HitsOf(hits, i) < elements_.contained[i].times.least) return false;
    }
    return enough;
  }

  void AddState(int64_t n, int64_t hits) {
    if (MayEnd(n, hits)) net_.Free(State(n, hits), out_);
    const int64_t most = elements_.count.most;
    if (by_ != By::kElements && most >= 0 && n >= most) return;
    const AllOf plain = compiler_.ElementSchemas(all_, n);
    const std::vector<Contained>& contained = elements_.contained;
    for (uint32_t which = 0; which < (1U << contained.size()); ++which) {
      AllOf schemas = plain;
      int64_t behind = hits;
      int64_t factor = 1;
      bool possible = true;
      for (size_t i = 0; i < contained.size(); ++i) {
        const bool asked = n >= contained[i].from;
        const bool counts = (which >> i & 1) != 0;
        if (counts) {
          possible &= asked && (by_ == By::kHits || HitsOf(hits, i) < contained[i].counted());
          schemas.push_back(contained[i].node);
          if (by_ != By::kHits) behind += factor;
        } else if (asked && contained[i].opposite) {
          schemas.push_back(*contained[i].opposite);
        }
        factor *= contained[i].counted() + 1;
      }
      const bool counts = by_ == By::kElements || (by_ == By::kHits && which != 0);
      if (possible) AddElement(State(n, hits), schemas, {n + 1, behind}, counts);
    }
  }

  struct Read {
    int64_t n = 0;
    int64_t hits = 0;
  };
  void AddElement(int32_t before, const AllOf& schemas, const Read& behind, bool counts) {
    if (counts) {
      // There must be room for those that are still to count.
      Count window;
      const bool few = by_ == By::kElements && elements_.count.most >= 0;
      const int64_t missing = few && !elements_.contained.empty()
                                  ? elements_.contained.front().times.least - HitsOf(behind.hits, 0)
                                  : 0;
      if (missing > 0) {
        window.most = elements_.count.most - missing;
        if (window.most < 1) return;
      }
      const int32_t counted = net_.NewState();
      net_.CountOne(before, counted, rule_, window);
      before = counted;
    }
    if (behind.n > 1) {
      const Part comma = net_.Then(net_.Text(","), net_.Calling(compiler_.blanks_));
      net_.Free(before, comma.in);
      before = comma.out;
    }
    const Part after = net_.Calling(compiler_.blanks_);
    net_.Call(before, after.in, compiler_.RuleOf(schemas));
    net_.Free(after.out, State(behind.n, behind.hits));
  }

  SchemaCompiler& compiler_;
  Net& net_;
  const AllOf& all_;
  const Elements& elements_;
  By by_ = By::kStates;
  int64_t last_ = 0;    // the element there and all behind it are alike
  int64_t n_hits_ = 1;  // numbers for how many count
  Part begin_;
  int32_t base_ = 0;  // the first of [last_ + 1, n_hits_] states
  int32_t rule_ = -1;
  int32_t out_ = 0;
};

absl::StatusOr<Part> SchemaCompiler::ArrayOf(const AllOf& all, const Elements& elements) {
  return Reading(*this, all, elements).Make();
}

AllOf SchemaCompiler::ElementSchemas(const AllOf& all, int64_t index) const {
  AllOf found;
  const auto at = static_cast<size_t>(index);
  for (const SchemaNode& node : all) {
    const Json& json = *node.json;
    const bool old_list = json.contains("items") && json["items"].is_array();
    const char* prefix = old_list ? "items" : "prefixItems";
    const char* rest = old_list ? "additionalItems" : "items";
    const bool has_prefix = json.contains(prefix) && json[prefix].is_array();
    if (has_prefix && at < json[prefix].size()) {
      found.push_back(node.Part(json[prefix], prefix).Part(json[prefix][at], absl::StrCat(index)));
    } else if (json.contains(rest)) {
      found.push_back(node.Part(json[rest], rest));
    }
  }
  return found;
}

}  // namespace ng::grammar
