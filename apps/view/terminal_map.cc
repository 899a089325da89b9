#include "apps/view/terminal_map.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/view/byte_scale.h"

namespace ng::view {
namespace {

constexpr int kLabelColumns = 24;  // of a position and a text
constexpr int kFewestColumns = 8;  // of the map
constexpr std::string_view kShades = " .:-=+*#%@";
constexpr std::string_view kReset = "\x1b[0m";

using Rgb = std::array<double, 3>;

// From dark to light, so that it is read without its colors too.
Rgb ColorOf(uint8_t byte) {
  constexpr std::array<Rgb, 5> kRamp = {
      {{0, 0, 4}, {81, 18, 124}, {183, 55, 121}, {252, 137, 97}, {252, 253, 191}}};
  const double at = byte / 255.0 * (kRamp.size() - 1);
  const auto below = std::min(static_cast<size_t>(at), kRamp.size() - 2);
  Rgb color;
  for (size_t i = 0; i < color.size(); ++i) {
    color[i] = kRamp[below][i] +
               (at - static_cast<double>(below)) * (kRamp[below + 1][i] - kRamp[below][i]);
  }
  return color;
}

// What sets the color of the foreground (38) or the background (48).
void AppendColor(int which, uint8_t byte, TerminalColors colors, std::string* out) {
  const Rgb color = ColorOf(byte);
  if (colors == TerminalColors::k24Bit) {
    absl::StrAppendFormat(out, "\x1b[%d;2;%.0f;%.0f;%.0fm", which, color[0], color[1], color[2]);
    return;
  }
  const auto level = [](double value) { return static_cast<int>(value / 256.0 * 6.0); };
  const int index = 16 + 36 * level(color[0]) + 6 * level(color[1]) + level(color[2]);
  absl::StrAppendFormat(out, "\x1b[%d;5;%dm", which, index);
}

char Shade(uint8_t byte) {
  return kShades[byte == 0 ? 0 : 1 + (byte - size_t{1}) * (kShades.size() - 1) / kByteSteps];
}

// The length of the UTF-8 character at the beginning of a valid text.
size_t LengthOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Controls, and marks that change the direction of what follows or are not seen.
bool Disturbs(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return lead < 0x20 || lead == 0x7F;
  const auto second = static_cast<unsigned char>(character[1]);
  if (lead == 0xC2) return second < 0xA0;   // U+0080 to U+009F
  if (lead == 0xD8) return second == 0x9C;  // U+061C
  if (character.size() != 3) return false;
  const auto third = static_cast<unsigned char>(character[2]);
  if (lead == 0xEF) return second == 0xBB && third == 0xBF;  // U+FEFF
  if (lead != 0xE2) return false;
  if (second == 0x80) return third >= 0x8B && (third <= 0x8F || third >= 0xA8) && third <= 0xAE;
  return second == 0x81 && third >= 0xA0 && third <= 0xAF;  // U+2060 to U+206F
}

// As much of a text as surely fits: what is not ASCII may be two columns wide.
std::string Label(std::string_view text, int columns) {
  std::string label;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, LengthOf(text));
    text.remove_prefix(character.size());
    const bool disturbs = Disturbs(character);
    columns -= disturbs || character.size() == 1 ? 1 : 2;
    if (columns < 0) break;
    label += disturbs ? "?" : std::string(character);
  }
  return label;
}

struct Cells {
  int64_t n;
  std::vector<uint8_t> bytes;  // [n][n]

  uint8_t At(int64_t i, int64_t j) const {
    return i < n ? bytes[static_cast<size_t>(i * n + j)] : uint8_t{0};
  }
};

void AppendLine(const Cells& cells, int64_t i, TerminalColors colors, std::string* out) {
  for (int64_t j = 0; j < cells.n; ++j) {
    if (colors == TerminalColors::kNone) {
      *out += Shade(cells.At(i, j));
      continue;
    }
    AppendColor(38, cells.At(i, j), colors, out);
    AppendColor(48, cells.At(i + 1, j), colors, out);
    *out += "\xE2\x96\x80";  // the upper half block
  }
  if (colors != TerminalColors::kNone) *out += kReset;
}

}  // namespace

std::string TerminalMap(const AttentionMaps& maps, int layer, int head,
                        std::span<const std::string> labels, const TerminalStyle& style) {
  const HeadMap& map = maps.layers().at(layer).at(head);
  const HeadScores scores = maps.Scores(map);
  const int64_t n_queries = maps.n_queries();
  const int64_t room = std::max(kFewestColumns, style.columns - kLabelColumns);
  const int64_t n = std::min(n_queries, room);
  const Cells cells{n, maps.Squares(map, n)};
  std::string out = absl::StrFormat(
      "layer %d head %d: entropy %.3f, first token %.3f, previous token %.3f, induction %.3f\n",
      layer, head, scores.entropy, scores.first_token, scores.previous_token, scores.induction);
  absl::StrAppend(&out, "queries down, keys across, from ", kLeastProbability,
                  " to 1 on a log scale");
  if (style.colors == TerminalColors::kNone) {
    absl::StrAppend(&out, " \"", std::string(kShades), "\"");
  }
  if (n < n_queries) {
    absl::StrAppend(&out, "; a cell is the largest of about ", (n_queries + n - 1) / n, " x ",
                    (n_queries + n - 1) / n);
  }
  out += '\n';
  const int64_t step = style.colors == TerminalColors::kNone ? 1 : 2;
  for (int64_t i = 0; i < n; i += step) {
    AppendLine(cells, i, style.colors, &out);
    const int64_t query = i * n_queries / n;
    const std::string place = absl::StrCat(" ", query, " ");
    out += place;
    out += Label(labels[static_cast<size_t>(query)],
                 std::max(0, kLabelColumns - static_cast<int>(place.size())));
    out += '\n';
  }
  return out;
}

}  // namespace ng::view
