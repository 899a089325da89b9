// What a schema says of objects: which properties, and in which order they are written.
//
// Up to kAnyOrder named properties come in any order, each once; what has been written is the
// state. More come in the order in which the schema names them. Properties that it does not name
// may come in between.
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {
namespace {

constexpr size_t kAnyOrder = 8;
constexpr size_t kMaxPatterns = 5;
constexpr size_t kMaxStates = 20000;
constexpr int64_t kMostCounted = 16;  // properties, by states

bool IsFalse(const AllOf& all) {
  return std::ranges::any_of(all, [](const SchemaNode& node) {
    return node.json->is_boolean() && !node.json->get<bool>();
  });
}

}  // namespace

struct SchemaCompiler::Properties {
  struct Named {
    std::string key;
    bool required = false;
    int32_t rule = -1;  // name, colon and value; -1: it must not be there
    uint32_t met = 0;   // which of `asked` it meets
  };
  struct Others {
    int32_t rule = -1;
    uint32_t met = 0;
  };
  std::vector<Named> named;
  std::vector<Others> others;
  std::vector<Dfa> asked;  // of each at least one name
  std::vector<Dependency> dependencies;
  Count count;
  const Dfa* name_limit = nullptr;
  Count name_length;  // beside that
  Place place = Place::kWithin;
};

absl::StatusOr<AllOf> SchemaCompiler::PropertySchemas(const AllOf& all, const std::string& key) {
  AllOf found;
  for (const SchemaNode& node : all) {
    const Json& json = *node.json;
    bool listed = false;
    const Json* named =
        json.contains("properties") ? nodes_.Member(json["properties"], key) : nullptr;
    if (named != nullptr) {
      found.push_back(node.Part(json["properties"], "properties").Part(*named, key));
      listed = true;
    }
    if (json.contains("patternProperties")) {
      const SchemaNode patterns = node.Part(json["patternProperties"], "patternProperties");
      for (const auto& [pattern, schema] : patterns.json->items()) {
        NG_ASSIGN_OR_RETURN(const Dfa* dfa, PatternDfa(pattern, patterns.at));
        if (!dfa->Matches(key)) continue;
        found.push_back(patterns.Part(schema, pattern));
        listed = true;
      }
    }
    if (listed || !json.contains("additionalProperties")) continue;
    found.push_back(node.Part(json["additionalProperties"], "additionalProperties"));
  }
  return found;
}

absl::StatusOr<std::vector<SchemaCompiler::Dependency>> SchemaCompiler::Dependencies(
    const AllOf& all) const {
  std::vector<Dependency> found;
  for (const SchemaNode& node : all) {
    for (const char* name : {"dependentRequired", "dependencies"}) {
      if (!node.json->contains(name)) continue;
      for (const auto& [key, needs] : (*node.json)[name].items()) {
        if (!needs.is_array()) continue;
        for (const Json& need : needs) {
          if (!need.is_string()) return SchemaError(node.at, "a name must be a text");
          found.push_back({key, need.get<std::string>()});
        }
      }
    }
  }
  return found;
}

// What propertyNames allow; null: anything. A length that is too large for a Dfa stands beside it.
absl::StatusOr<const Dfa*> SchemaCompiler::NameLimit(const AllOf& all, Count* length) {
  std::optional<Dfa> limit;
  const auto n = std::ranges::count_if(
      all, [](const SchemaNode& node) { return node.json->contains("propertyNames"); });
  for (const SchemaNode& node : all) {
    if (!node.json->contains("propertyNames")) continue;
    const SchemaNode names = node.Part((*node.json)["propertyNames"], "propertyNames");
    NG_ASSIGN_OR_RETURN(Dfa any, NamesOf(names, n == 1 ? length : nullptr));
    if (limit) {
      NG_ASSIGN_OR_RETURN(any, Combine(*limit, any, Both::kAnd, budget_));
    }
    limit = std::move(any);
  }
  if (!limit) return nullptr;
  dfas_.push_back(*std::move(limit));
  return &dfas_.back();
}

// The texts that a schema allows. `length`: where a large count may go to.
absl::StatusOr<Dfa> SchemaCompiler::NamesOf(const SchemaNode& names, Count* length) {
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> alternatives, nodes_.Alternatives({names}));
  Dfa any;
  any.NewState();
  for (const AllOf& alternative : alternatives) {
    NG_ASSIGN_OR_RETURN(const Dfa one,
                        NamesOfOne(alternative, alternatives.size() == 1 ? length : nullptr));
    NG_ASSIGN_OR_RETURN(any, Combine(any, one, Both::kOr, budget_));
  }
  return any;
}

// The same of one alternative.
absl::StatusOr<Dfa> SchemaCompiler::NamesOfOne(const AllOf& all, Count* length) {
  constexpr int64_t kMaxUnrolled = 300;
  NG_ASSIGN_OR_RETURN(Count count, Counts(all, "minLength", "maxLength"));
  if (length != nullptr && std::max(count.least, count.most) > kMaxUnrolled) {
    *length = std::exchange(count, {});
  }
  NG_ASSIGN_OR_RETURN(Dfa names, OfLength(count, budget_));
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, TextLimits(all));
  for (const Dfa* each : limits) {
    NG_ASSIGN_OR_RETURN(names, Combine(names, *each, Both::kAnd, budget_));
  }
  for (const SchemaNode& node : all) {
    NG_ASSIGN_OR_RETURN(const unsigned types, TypesOf(node));
    const Json& json = *node.json;
    const bool listed = json.contains("enum") || json.contains("const");
    if (!listed && (types & kStringType) != 0) continue;
    Json list = json.contains("enum") ? json["enum"] : Json::array();
    if (json.contains("const")) list.push_back(json["const"]);
    std::vector<std::string> texts;
    for (const Json& value : list) {
      const bool allowed = value.is_string() && (types & kStringType) != 0;
      if (allowed) texts.push_back(value.get<std::string>());
    }
    NG_ASSIGN_OR_RETURN(const Dfa these, TheTexts(texts));
    NG_ASSIGN_OR_RETURN(names, Combine(names, these, Both::kAnd, budget_));
  }
  return names;
}

absl::Status SchemaCompiler::CollectNames(const AllOf& all, Properties& found) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  std::set<std::string> required;
  const auto add = [&](const std::string& key) {
    if (known.insert(key).second) keys.push_back(key);
  };
  for (const SchemaNode& node : all) {
    const Json& json = *node.json;
    if (json.contains("properties")) {
      for (const auto& [key, schema] : json["properties"].items()) add(key);
    }
    if (!json.contains("required")) continue;
    if (!json["required"].is_array()) return SchemaError(node.at, "required must be a list");
    for (const Json& key : json["required"]) {
      if (!key.is_string()) return SchemaError(node.at, "required must be a list of texts");
      add(key.get<std::string>());
      required.insert(key.get<std::string>());
    }
  }
  NG_ASSIGN_OR_RETURN(found.dependencies, Dependencies(all));
  for (const Dependency& dependency : found.dependencies) {
    add(dependency.key);
    add(dependency.needs);
  }
  for (const SchemaNode& node : all) {
    if (!node.json->contains(kHasName)) continue;
    NG_ASSIGN_OR_RETURN(found.asked.emplace_back(),
                        NamesOf(node.Part((*node.json)[kHasName], kHasName), nullptr));
  }
  for (const std::string& key : keys) {
    NG_ASSIGN_OR_RETURN(const AllOf schemas, PropertySchemas(all, key));
    Properties::Named& named = found.named.emplace_back();
    named.key = key;
    named.required = required.contains(key);
    for (size_t i = 0; i < found.asked.size(); ++i) {
      if (found.asked[i].Matches(key)) named.met |= 1U << i;
    }
    const int64_t length = CodePoints(key);
    const bool name_allowed = (found.name_limit == nullptr || found.name_limit->Matches(key)) &&
                              length >= found.name_length.least &&
                              (found.name_length.most < 0 || length <= found.name_length.most);
    if (IsFalse(schemas) || !name_allowed) continue;
    named.rule = net_.NewRule(key);
    NG_ASSIGN_OR_RETURN(const Part name, NamePart(key, found.place));
    const auto read_as = spelling_.members.read_as.find(key);
    NG_ASSIGN_OR_RETURN(const Part part,
                        Property(name,
                                 read_as == spelling_.members.read_as.end() ? unsigned{kReadAsAny}
                                                                            : read_as->second,
                                 schemas, found.place));
    net_.SetRule(named.rule, part);
  }
  return absl::OkStatus();
}

// The names that are not listed, by which of the patterns they match and what they meet.
absl::Status SchemaCompiler::CollectOthers(const AllOf& all, Properties& found) {
  NG_ASSIGN_OR_RETURN(const std::vector<NamePattern> patterns, PatternsOfNames(all));
  const size_t n_sets = patterns.size() + found.asked.size();
  if (n_sets > kMaxPatterns) {
    const std::string at = patterns.empty() ? all.front().at : patterns[0].at;
    return SchemaError(
        at, absl::StrCat("has ", n_sets, " patterns, at most ", kMaxPatterns, " are supported"));
  }
  // What is said of the values of names that match these of the patterns.
  const auto schemas_of = [&](size_t which) {
    AllOf schemas;
    for (const SchemaNode& node : all) {
      const Json& json = *node.json;
      bool matched = false;
      for (size_t i = 0; i < patterns.size(); ++i) {
        const bool has = json.contains("patternProperties") &&
                         json["patternProperties"].contains(patterns[i].text);
        if ((which >> i & 1) == 0 || !has) continue;
        const SchemaNode list = node.Part(json["patternProperties"], "patternProperties");
        schemas.push_back(list.Part((*list.json)[patterns[i].text], patterns[i].text));
        matched = true;
      }
      if (matched || !json.contains("additionalProperties")) continue;
      schemas.push_back(node.Part(json["additionalProperties"], "additionalProperties"));
    }
    return schemas;
  };
  // Mostly there are no others: then it need not be known which.
  if (n_sets == 0 && IsFalse(schemas_of(0))) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Properties::Named& named : found.named) names.push_back(named.key);
  Dfa free = found.name_limit == nullptr ? AnyText() : *found.name_limit;
  if (!names.empty()) {
    NG_ASSIGN_OR_RETURN(const Dfa listed, TheTexts(names));
    NG_ASSIGN_OR_RETURN(free, Combine(free, listed, Both::kAndNot, budget_));
  }
  const bool bare = NamesAreBare(found.place);
  if (bare) {
    NG_ASSIGN_OR_RETURN(const Dfa* writable, BareNames());
    NG_ASSIGN_OR_RETURN(free, Combine(free, *writable, Both::kAnd, budget_));
  }
  // A set of names, by which of the patterns they match.
  const auto add = [&](size_t which, const Dfa& dfa) -> absl::Status {
    const AllOf schemas = schemas_of(which);
    if (IsFalse(schemas)) return absl::OkStatus();
    const bool any_name = names.empty() && n_sets == 0 && found.name_limit == nullptr;
    Properties::Others& others = found.others.emplace_back();
    others.met = static_cast<uint32_t>(which >> patterns.size());
    others.rule = net_.NewRule("another property");
    absl::StatusOr<Part> name =
        bare ? AddDfa(dfa, net_) : NameIn(any_name ? nullptr : &dfa, found.name_length);
    NG_RETURN_IF_ERROR(name.status());
    NG_ASSIGN_OR_RETURN(const Part part, Property(*name, kReadAsAny, schemas, found.place));
    net_.SetRule(others.rule, part);
    return absl::OkStatus();
  };
  // Cut in two by one pattern after another.
  const std::function<absl::Status(size_t, size_t, const Dfa&)> cut =
      [&](size_t i, size_t which, const Dfa& dfa) -> absl::Status {
    if (dfa.Empty()) return absl::OkStatus();
    if (i == n_sets) return add(which, dfa);
    const Dfa& by = i < patterns.size() ? *patterns[i].dfa : found.asked[i - patterns.size()];
    for (const bool in : {false, true}) {
      NG_ASSIGN_OR_RETURN(const Dfa part,
                          Combine(dfa, by, in ? Both::kAnd : Both::kAndNot, budget_));
      NG_RETURN_IF_ERROR(cut(i + 1, which | (in ? size_t{1} << i : 0), part));
    }
    return absl::OkStatus();
  };
  return cut(0, 0, free);
}

absl::StatusOr<std::vector<SchemaCompiler::NamePattern>> SchemaCompiler::PatternsOfNames(
    const AllOf& all) {
  std::vector<NamePattern> patterns;
  for (const SchemaNode& node : all) {
    if (!node.json->contains("patternProperties")) continue;
    for (const auto& [text, schema] : (*node.json)["patternProperties"].items()) {
      if (std::ranges::find(patterns, text, &NamePattern::text) != patterns.end()) continue;
      patterns.push_back({text, PointerTo(node.at, "patternProperties")});
      if (patterns.size() > kMaxPatterns) continue;  // refused when all are counted
      NG_ASSIGN_OR_RETURN(patterns.back().dfa, PatternDfa(text, patterns.back().at));
    }
  }
  return patterns;
}

// A name of a set, null: any.
absl::StatusOr<Part> SchemaCompiler::NameIn(const Dfa* set, Count length) {
  if (set == nullptr && length.any()) return net_.Calling(string_);
  Net texts(budget_);
  const Dfa& dfa = set == nullptr ? AnyText() : *set;
  const Part part = length.any() ? AddDfa(dfa, texts) : AddCounted(dfa, length, texts);
  NG_RETURN_IF_ERROR(texts.status());
  return Spelled(texts, part);
}

absl::StatusOr<Part> SchemaCompiler::Object(const AllOf& all, Place place) {
  Properties properties;
  properties.place = place;
  const std::string at = all.empty() ? "#" : all.front().at;
  const auto located = [&](const absl::Status& status) {
    const bool known = status.ok() || status.message().substr(0, 3) == "at ";
    return known ? status : SchemaError(at, std::string(status.message()));
  };
  absl::StatusOr<const Dfa*> limit = NameLimit(all, &properties.name_length);
  NG_RETURN_IF_ERROR(located(limit.status()));
  properties.name_limit = *limit;
  NG_ASSIGN_OR_RETURN(properties.count, Counts(all, "minProperties", "maxProperties"));
  NG_RETURN_IF_ERROR(located(CollectNames(all, properties)));
  NG_RETURN_IF_ERROR(located(CollectOthers(all, properties)));
  // Each of those that are named comes once.
  const bool few =
      properties.others.empty() && properties.count.most >= std::ssize(properties.named);
  if (few) properties.count.most = -1;
  if (properties.count.least > 1 && !properties.others.empty()) {
    return SchemaError(PointerTo(at, "minProperties"),
                       "above 1 is supported only where all properties are named, by "
                       "additionalProperties = false");
  }
  return ObjectOf(properties, at, place);
}

// What has been written of an object, as states of the net.
class SchemaCompiler::Writing {
 public:
  // A set of named properties or, where their order is fixed, the next that may come; and how many
  // properties altogether, as far as that matters.
  struct State {
    uint64_t named = 0;
    int64_t count = 0;
    uint32_t met = 0;  // of what is asked of the names
    // NOLINTNEXTLINE(modernize-use-nullptr): of clang-tidy 14, which sees a 0 that is not written
    auto operator<=>(const State&) const = default;
  };

  Writing(const Properties& properties, Net& net)
      : properties_(properties),
        any_order_(properties.named.size() <= kAnyOrder),
        by_rule_(properties.count.most > kMostCounted && properties.count.least <= 1 &&
                 properties.asked.empty()),
        counted_(by_rule_ ? properties.count.least
                          : std::max(properties.count.least, properties.count.most)),
        asked_((1U << properties.asked.size()) - 1),
        net_(net) {}

  bool any_order() const { return any_order_; }
  // Whether no more than the bound are there is counted by a rule and not by states.
  bool by_rule() const { return by_rule_; }
  size_t n_states() const { return states_.size(); }
  const State& operator[](size_t i) const { return states_[i]; }
  // The number in the net.
  int32_t Number(const State& state) {
    const auto [place, is_new] = known_.emplace(state, 0);
    if (is_new) {
      place->second = net_.NewState();
      states_.push_back(state);
    }
    return place->second;
  }

  bool MayEnd(const State& state) const {
    if (state.count < properties_.count.least || state.met != asked_) return false;
    for (size_t i = any_order_ ? 0 : state.named; i < properties_.named.size(); ++i) {
      const bool missing = !any_order_ || (state.named >> i & 1) == 0;
      if (properties_.named[i].required && missing) return false;
    }
    return std::ranges::all_of(properties_.dependencies, [&](const Dependency& dependency) {
      return !Has(state, dependency.key) || Has(state, dependency.needs);
    });
  }
  bool MayGoOn(const State& state) const {
    return by_rule_ || properties_.count.most < 0 || state.count < properties_.count.most;
  }
  // How many properties must still come.
  int64_t Missing(const State& state) const {
    const std::vector<Properties::Named>& named = properties_.named;
    State there = state;
    int64_t n = 0;
    for (size_t i = any_order_ ? 0 : state.named; i < named.size(); ++i) {
      if (!named[i].required || (any_order_ && (state.named >> i & 1) != 0)) continue;
      if (any_order_) there.named |= uint64_t{1} << i;
      ++n;
    }
    for (bool more = true; std::exchange(more, false);) {
      for (const Dependency& dependency : properties_.dependencies) {
        if (!Has(there, dependency.key) || Has(there, dependency.needs)) continue;
        const auto place = std::ranges::find(named, dependency.needs, &Properties::Named::key);
        there.named |= uint64_t{1} << (place - named.begin());
        more = true;
        ++n;
      }
    }
    return n;
  }
  // Adds the properties that may come from `before` on. `go(from, rule, state behind it)` adds one.
  template <class Go>
  void AddNext(const State& from, int32_t before, const Go& go) {
    const std::vector<Properties::Named>& named = properties_.named;
    const int64_t count = std::min(from.count + 1, counted_);
    for (const Properties::Others& others : properties_.others) {
      go(before, others.rule, State{from.named, count, from.met | others.met});
    }
    if (!any_order_) {
      net_.Free(before, Chain({from.named, count, from.met}, go));
      return;
    }
    for (size_t i = 0; i < named.size(); ++i) {
      const uint64_t bit = uint64_t{1} << i;
      if (named[i].rule < 0 || (from.named & bit) != 0) continue;
      go(before, named[i].rule, State{from.named | bit, count, from.met | named[i].met});
    }
  }

 private:
  bool Has(const State& state, const std::string& key) const {
    const auto place = std::ranges::find(properties_.named, key, &Properties::Named::key);
    const auto i = place - properties_.named.begin();
    return place != properties_.named.end() && (state.named >> i & 1) != 0;
  }

  // Where, of the properties that come in order, number `at.named` or one behind it comes, which is
  // the `count`th; up to the first that must come.
  template <class Go>
  int32_t Chain(State at, const Go& go) {
    const std::vector<Properties::Named>& named = properties_.named;
    const auto [place, is_new] = chains_.emplace(at, 0);
    int32_t state = place->second;
    if (!is_new) return state;
    const int32_t first = place->second = state = net_.NewState();
    for (size_t next = at.named; next < named.size(); ++next) {
      const Properties::Named& one = named[next];
      if (one.rule >= 0) go(state, one.rule, State{next + 1, at.count, at.met | one.met});
      if (one.required || next + 1 == named.size()) break;
      at.named = next + 1;
      const auto [behind, fresh] = chains_.emplace(at, 0);
      if (fresh) behind->second = net_.NewState();
      net_.Free(state, behind->second);
      if (!fresh) break;
      state = behind->second;
    }
    return first;
  }

  const Properties& properties_;
  const bool any_order_;
  const bool by_rule_;
  const int64_t counted_;
  const uint32_t asked_;
  Net& net_;
  std::map<State, int32_t> known_;
  std::map<State, int32_t> chains_;
  std::vector<State> states_;
};

absl::StatusOr<Part> SchemaCompiler::ObjectOf(const Properties& properties, const std::string& at,
                                              Place place) {
  Writing writing(properties, net_);
  if (!writing.any_order() && !properties.dependencies.empty()) {
    return SchemaError(at, absl::StrCat("dependencies between more than ", kAnyOrder,
                                        " named properties are not supported"));
  }
  const bool members =
      place == Place::kArguments && spelling_.style == SchemaSpelling::Style::kMembers;
  const bool keywords = place == Place::kArguments && spelling_.has_keywords();
  const auto blanks = [&] { return members ? net_.Nothing() : net_.Calling(blanks_); };
  const char* const open = !keywords ? "{" : spelling_.opened ? "" : "(";
  const Part begin = members ? net_.Nothing() : net_.Then(net_.Text(open), blanks());
  const Part end = members ? MarkPart(spelling_.members.end) : net_.Text(keywords ? ")" : "}");
  Part inside = {begin.out, end.in};
  int32_t rule = -1;
  if (writing.by_rule()) {
    inside = net_.Never();
    rule = net_.NewRule("properties", {.least = 0, .most = properties.count.most});
    net_.SetRule(rule, inside);
    net_.Call(begin.out, end.in, rule);
  }
  writing.Number({});
  for (size_t s = 0; s < writing.n_states(); ++s) {
    if (s >= kMaxStates) {
      return SchemaError(at,
                         absl::StrCat("has more than ", kMaxStates, " combinations of properties"));
    }
    if (!net_.status().ok()) break;
    const Writing::State from = writing[s];
    if (writing.MayEnd(from)) net_.Free(writing.Number(from), inside.out);
    if (!writing.MayGoOn(from)) continue;
    // The first state is entered once, the others behind a property: they need a comma.
    const Part comma =
        members ? MarkPart(spelling_.members.separator) : net_.Then(net_.Text(","), blanks());
    net_.Free(writing.Number(from), comma.in);
    writing.AddNext(from, comma.out, [&](int32_t before, int32_t named, const Writing::State& to) {
      if (rule >= 0) {
        // There must be room for those that must still come.
        const int64_t missing = writing.Missing(to);
        Count window;
        if (missing > 0) window.most = properties.count.most - missing;
        if (missing >= properties.count.most) return;
        const int32_t counted = net_.NewState();
        net_.CountOne(before, counted, rule, window);
        before = counted;
      }
      const Part after = blanks();
      net_.Call(before, after.in, named);
      net_.Free(after.out, writing.Number(to));
    });
    // At the beginning there is no comma: the same ways begin behind the bracket.
    if (s == 0) net_.Free(inside.in, comma.out);
  }
  if (writing.MayEnd({})) net_.Free(inside.in, inside.out);
  return Part{begin.in, end.out};
}

}  // namespace ng::grammar
