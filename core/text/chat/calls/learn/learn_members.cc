#include "core/text/chat/calls/learn/learn_members.h"

#include <string_view>
#include <utility>
#include <vector>

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

// A value of another type, and how it begins: one of these texts, before `mark` if there is one.
struct OtherValue {
  std::string_view key;
  Json value;
  std::vector<std::string_view> begins;
  std::string_view mark;
};

std::vector<OtherValue> OtherValues() {
  return {{"ngnumber", 31337, {"31337"}, {}},
          {"ngflag", true, {"true", "True"}, {}},
          {"ngnone", nullptr, {"null", "None"}, {}},
          {"nglist", Json::array({31337}), {"["}, "31337"},
          {"ngobject", {{"ngin", 31337}}, {"{"}, "ngin"}};
}

// What is between a key and such a value.
std::optional<Symbols> BetweenOther(const Prober& prober, const OtherValue& other) {
  Json arguments = Json::object();
  arguments[std::string(other.key)] = other.value;
  const std::optional<Symbols> text = prober.Answer({.arguments = {arguments}});
  const Symbols key = SymbolsOf(other.key);
  const size_t at = text ? text->find(key) : Symbols::npos;
  if (at == Symbols::npos) return std::nullopt;
  const SymbolsView behind = SymbolsView(*text).substr(at + key.size());
  const SymbolsView before = behind.substr(0, behind.find(SymbolsOf(other.mark)));
  for (const std::string_view begin : other.begins) {
    const size_t found =
        other.mark.empty() ? behind.find(SymbolsOf(begin)) : before.rfind(SymbolsOf(begin));
    if (found != SymbolsView::npos) return Symbols(behind.substr(0, found));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Members> LearnMembers(const Prober& prober) {
  const std::optional<Symbols> one = prober.Answer({.arguments = {{{"ngkey", "ngvalue"}}}});
  Json both = Json::object();
  both["ngkey"] = "ngvalue";
  both["ngother"] = "ngsecond";
  const std::optional<Symbols> two = prober.Answer({.arguments = {both}});
  if (!one || !two) return std::nullopt;
  // The text behind one of these words, up to another; the whole rest where that is empty.
  const auto between = [](SymbolsView text, std::string_view a, std::string_view b) {
    const size_t at = text.find(SymbolsOf(a));
    const size_t from = at == text.npos ? text.size() : at + a.size();
    const size_t to = b.empty() ? text.size() : text.find(SymbolsOf(b), from);
    return to == text.npos ? SymbolsView() : text.substr(from, to - from);
  };
  Members members;
  members.between = between(*one, "ngkey", "ngvalue");
  const SymbolsView next = between(*two, "ngvalue", "ngother");
  const SymbolsView last = between(*one, "ngvalue", {});
  const SymbolsView second = between(*two, "ngother", "ngsecond");
  if (Trim(members.between).empty() || Trim(next).empty() || second != members.between) {
    return std::nullopt;
  }
  members.after = TrimRight(SharedBeginning(next, last));
  if (members.after.empty()) return std::nullopt;
  const SymbolsView rest = next.substr(members.after.size());
  const SymbolsView first = SymbolsView(*one).substr(0, one->find(SymbolsOf("ngkey")));
  members.before = TrimLeft(SharedEnd(first, rest));
  members.separator = rest.substr(0, rest.size() - members.before.size());
  if (Trim(members.before).empty()) {
    const std::vector<Symbols> ends = PartsOf(last.substr(members.after.size()));
    if (ends.empty() || Trim(members.separator).empty()) return std::nullopt;
    members.end = ends.front();
  }
  for (const OtherValue& other : OtherValues()) {
    std::optional<Symbols> mark = BetweenOther(prober, other);
    if (!mark || *mark == members.between) continue;
    bool known = false;
    for (const Symbols& one_known : members.between_others) known = known || one_known == *mark;
    if (!known) members.between_others.push_back(*std::move(mark));
  }
  return members;
}

}  // namespace ng::calls
