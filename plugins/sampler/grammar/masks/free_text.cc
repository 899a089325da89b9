#include "plugins/sampler/grammar/masks/free_text.h"

namespace ng::grammar {
namespace {

struct FirstBytes {
  Kinds kind;
  int low;
  int high;
};
constexpr FirstBytes kFirstBytes[] = {
    {kTwoBytes, 0xC2, 0xDF}, {kThreeBytes, 0xE0, 0xEF}, {kFourBytes, 0xF0, 0xF4}};

// Grows to hold the place.
template <class T>
T& At(std::vector<T>& all, int32_t place) {
  const auto index = static_cast<size_t>(place);
  if (index >= all.size()) all.resize(index + 1);
  return all[index];
}

}  // namespace

void FreeText::Forget() {
  ways_.clear();
  rests_.clear();
}

bool FreeText::GoesOn(int32_t configuration, const Below& below) {
  int32_t now = configuration;
  if (below.at != Within::kNothing) {
    const int32_t rest = RestFrom(now, below.at);
    // A text may cut this character off.
    const bool may_cut = (below.kinds & kNoCharacter) != 0;
    if (rest == Machine::kDead || (may_cut && rest != now)) return false;
    now = rest;
  }
  if (below.kinds == 0) return true;
  if (below.height == Below::kMostHeight) return false;
  for (uint32_t i = 0; i < below.height; ++i) {
    const Way way = WayFrom(now);
    if ((below.kinds & ~way.kinds) != 0) return false;
    if (way.to == now) return true;
    now = way.to;
  }
  return true;
}

FreeText::Way FreeText::WayFrom(int32_t configuration) {
  const Way known = At(ways_, configuration);
  if (known.to != kUnknown) return known;
  const Way found = FindWay(configuration);
  if (!machine_.Spend(1)) return {.to = Machine::kDead};
  return At(ways_, configuration) = found;
}

FreeText::Way FreeText::FindWay(int32_t configuration) {
  Way way = {.to = Step(configuration, 'e')};
  // Two letters tell most of what is no free text.
  if (way.to == Machine::kDead || Step(configuration, 't') != way.to) {
    return {.to = Machine::kDead};
  }
  Kinds others = 0;
  for (int byte = 0; byte < kAsciiBytes; ++byte) {
    const Kinds kind = KindOf(static_cast<uint8_t>(byte));
    way.kinds |= kind;
    if (Step(configuration, byte) != way.to) others |= kind;
  }
  way.kinds &= ~others;
  for (const auto& [kind, low, high] : kFirstBytes) {
    bool all = true;
    for (int byte = low; byte <= high && all; ++byte) {
      Within at = Within::kNothing;
      ReadKind(static_cast<uint8_t>(byte), &at);
      const int32_t behind = Step(configuration, byte);
      all = behind != Machine::kDead && RestFrom(behind, at) == way.to;
    }
    if (all) way.kinds |= kind;
  }
  // Bytes that are no characters: where each byte leads back here.
  bool all = way.to == configuration;
  for (int byte = kAsciiBytes; byte <= 0xFF && all; ++byte) {
    all = Step(configuration, byte) == way.to;
  }
  if (all) way.kinds |= kNoCharacter;
  return way;
}

int32_t FreeText::RestFrom(int32_t configuration, Within at) {
  const Rest known = At(rests_, configuration);
  if (known.to != kUnknown && known.at == at) return known.to;
  const int32_t found = FindRest(configuration, at);
  if (!machine_.Spend(1)) return Machine::kDead;
  At(rests_, configuration) = {found, at};
  return found;
}

int32_t FreeText::FindRest(int32_t configuration, Within at) {
  const NextOfCharacter next = NextOf(at);
  int32_t all = kUnknown;
  for (int byte = next.low; byte <= next.high; ++byte) {
    int32_t to = Step(configuration, byte);
    if (to != Machine::kDead && next.behind != Within::kNothing) to = RestFrom(to, next.behind);
    if (to == Machine::kDead || (all != kUnknown && to != all)) return Machine::kDead;
    all = to;
  }
  return all;
}

}  // namespace ng::grammar
