#include "apps/eval/tasks/words.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace ng::eval {
namespace {

constexpr const char* kAdjectives[] = {
    "amber",  "ancient", "autumn", "bitter", "black",  "bold",    "brave",  "bright",
    "broken", "calm",    "clever", "cold",   "coral",  "crimson", "dark",   "distant",
    "dusty",  "early",   "empty",  "faint",  "gentle", "golden",  "grey",   "heavy",
    "hidden", "hollow",  "humble", "ivory",  "jolly",  "late",    "little", "lonely",
    "loud",   "lucky",   "misty",  "modest", "narrow", "noble",   "pale",   "patient",
    "proud",  "quick",   "rapid",  "silent", "silver", "steady",  "tender", "winter"};
constexpr const char* kNouns[] = {
    "anchor", "apple",  "arrow",  "basket", "beetle", "bridge",  "button",  "candle",
    "castle", "cherry", "cloud",  "copper", "desert", "eagle",   "falcon",  "feather",
    "forest", "garden", "hammer", "harbor", "island", "kettle",  "ladder",  "lantern",
    "lemon",  "maple",  "marble", "mirror", "needle", "ocean",   "orchard", "otter",
    "paper",  "pepper", "pillow", "planet", "pocket", "rabbit",  "ribbon",  "river",
    "saddle", "shadow", "spider", "stone",  "temple", "thunder", "turtle",  "window"};
constexpr const char* kPeople[] = {
    "miller", "teacher", "sailor",   "farmer",  "painter",  "baker",  "doctor", "captain",
    "tailor", "student", "merchant", "soldier", "gardener", "singer", "mason",  "widow"};
constexpr const char* kVerbs[] = {"carried", "found",  "sold",     "painted", "brought", "lost",
                                  "wanted",  "mended", "hid",      "showed",  "kept",    "drew",
                                  "washed",  "broke",  "polished", "praised"};
constexpr const char* kThings[] = {"a letter",  "an old coat", "the map",      "a wooden box",
                                   "the boat",  "a small key", "some bread",   "a blue cup",
                                   "the horse", "a good book", "three chairs", "the wheel",
                                   "a picture", "some cloth",  "the ladder",   "a warm hat"};
constexpr const char* kPlaces[] = {
    "near the church",   "by the road",     "after the rain",    "in the market",
    "before supper",     "at the mill",     "behind the house",  "on the hill",
    "in the evening",    "beside the well", "during the summer", "under the trees",
    "across the valley", "without a word",  "for his brother",   "with great care"};

constexpr int64_t kNames = int64_t{std::size(kAdjectives)} * int64_t{std::size(kNouns)};

template <size_t n>
const char* AnyOf(const char* const (&words)[n], Draws& draws) {
  return words[draws.Below(int64_t{n})];
}

// `n` values of `draw` that differ.
template <class Value>
std::vector<Value> DrawDifferent(int64_t n, const std::function<Value()>& draw) {
  std::vector<Value> values;
  while (std::ssize(values) < n) {
    Value value = draw();
    if (std::ranges::count(values, value) == 0) values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

std::string ProseSentence(const DrawsKey& key) {
  Draws draws(key);
  std::string sentence = absl::StrCat("The ", AnyOf(kAdjectives, draws));
  absl::StrAppend(&sentence, " ", AnyOf(kPeople, draws));
  absl::StrAppend(&sentence, " ", AnyOf(kVerbs, draws));
  absl::StrAppend(&sentence, " ", AnyOf(kThings, draws));
  absl::StrAppend(&sentence, " ", AnyOf(kPlaces, draws), ".");
  return sentence;
}

std::string NameOf(int64_t i) {
  // Coprime with the number of names, so that neighbours share no word.
  constexpr int64_t kStep = 1103;
  const int64_t place = (i % kNames) * kStep % kNames;
  std::string name = absl::StrCat(kAdjectives[place % std::ssize(kAdjectives)], " ",
                                  kNouns[place / std::ssize(kAdjectives)]);
  if (i >= kNames) absl::StrAppend(&name, " ", i / kNames + 1);
  return name;
}

std::vector<int64_t> DrawNames(Draws& draws, int64_t n) {
  return DrawDifferent<int64_t>(n, [&] { return draws.Below(kNames); });
}

std::vector<std::string> DrawNumbers(Draws& draws, int64_t n) {
  constexpr int64_t kLeast = 10000;
  return DrawDifferent<std::string>(n,
                                    [&] { return absl::StrCat(kLeast + draws.Below(9 * kLeast)); });
}

std::vector<std::string> DrawNouns(Draws& draws, int64_t n) {
  return DrawDifferent<std::string>(n, [&] { return std::string(AnyOf(kNouns, draws)); });
}

std::vector<std::string> DrawVariables(Draws& draws, int64_t n) {
  return DrawDifferent<std::string>(n, [&] {
    std::string name;
    for (int i = 0; i < 3; ++i) name += static_cast<char>('A' + draws.Below(26));
    return name;
  });
}

std::string PaddingSentence(int64_t n_words) {
  std::string sentence = "It was so";
  for (int64_t i = 0; i < n_words; ++i) sentence += ", so";
  return sentence + " quiet.";
}

}  // namespace ng::eval
