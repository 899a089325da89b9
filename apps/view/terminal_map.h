// The attention of one head in a terminal.
#ifndef NG_APPS_VIEW_TERMINAL_MAP_H_
#define NG_APPS_VIEW_TERMINAL_MAP_H_

#include <span>
#include <string>

#include "apps/view/attention_maps.h"

namespace ng::view {

enum class TerminalColors { kNone, k256, k24Bit };

struct TerminalStyle {
  int columns = 80;
  TerminalColors colors = TerminalColors::kNone;
};

// A line with the scores of the head, then the map: queries down, keys across, on the page's log
// scale. With colors a line is two queries in half blocks, without them one query in letters. Where
// there are more keys than columns a cell is the largest of a square. Behind each line stands its
// first query's position and text. labels: [n_queries], UTF-8; what would control the terminal is
// left out of them. REQUIRES: the maps have the layer and the head.
std::string TerminalMap(const AttentionMaps& maps, int layer, int head,
                        std::span<const std::string> labels, const TerminalStyle& style);

}  // namespace ng::view

#endif  // NG_APPS_VIEW_TERMINAL_MAP_H_
