#include "core/text/pipeline/unigram_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "core/text/bpe/hash_table.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "core/text/unicode.h"

namespace ng {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score

// How many nodes a trie of these tokens has, without its root.
size_t NumNodes(std::vector<std::string_view> tokens) {
  std::ranges::sort(tokens);
  size_t n_nodes = 0;
  std::string_view last;
  for (const std::string_view token : tokens) {
    n_nodes += static_cast<size_t>(token.end() - std::ranges::mismatch(token, last).in1);
    last = token;
  }
  return n_nodes;
}

}  // namespace

std::unique_ptr<PieceModel> UnigramModel::Create(UnigramSpec spec, const Vocabulary& vocabulary,
                                                 std::string path) {
  std::unique_ptr<UnigramModel> model(new UnigramModel(std::move(spec), std::move(path)));
  const size_t n_tokens = model->spec_.scores.size();
  MakeRoom(NumNodes({vocabulary.tokens.begin(), vocabulary.tokens.begin() + n_tokens}),
           &model->children_);
  std::vector<int32_t> byte_ids(256, -1);
  for (size_t id = 0; id < n_tokens; ++id) {
    const std::string& token = vocabulary.tokens[id];
    const std::optional<char> byte = ByteOfPiece(token);
    if (byte) byte_ids[static_cast<uint8_t>(*byte)] = static_cast<int32_t>(id);
    if (!vocabulary.special[id]) model->AddToken(token, static_cast<int32_t>(id));
  }
  if (model->spec_.byte_fallback) model->byte_ids_ = std::move(byte_ids);
  return model;
}

UnigramModel::UnigramModel(UnigramSpec spec, std::string path)
    : spec_(std::move(spec)), path_(std::move(path)), id_of_node_(1, -1) {
  if (!spec_.scores.empty()) unknown_score_ = *std::ranges::min_element(spec_.scores);
  unknown_score_ -= kUnknownPenalty;
}

void UnigramModel::AddToken(std::string_view token, int32_t id) {
  int32_t node = 0;
  for (const char byte : token) {
    const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
    const auto [child, is_new] = children_.emplace(key, static_cast<int32_t>(id_of_node_.size()));
    if (is_new) id_of_node_.push_back(-1);
    node = child->second;
  }
  id_of_node_[static_cast<size_t>(node)] = id;
}

std::vector<UnigramModel::Step> UnigramModel::BestSteps(std::string_view piece,
                                                        std::span<const int32_t> barred) const {
  std::vector<Step> best(piece.size() + 1);
  for (size_t at = 0; at < piece.size();) {
    const double so_far = best[at].score;
    const size_t first_length = FirstCodePoint(piece.substr(at)).length;
    const auto offer = [&](size_t end, double score, int32_t id) {
      Step& step = best[end];
      if (step.begin >= 0 && so_far + score <= step.score) return;
      step = {so_far + score, static_cast<int32_t>(at), id};
    };
    bool has_single = false;
    int32_t node = 0;
    for (size_t end = at; end < piece.size();) {
      const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(piece[end]);
      const auto child = children_.find(key);
      if (child == children_.end()) break;
      node = child->second;
      ++end;
      const int32_t id = id_of_node_[static_cast<size_t>(node)];
      if (id < 0 || std::ranges::binary_search(barred, id)) continue;
      offer(end, spec_.scores[static_cast<size_t>(id)], id);
      has_single = has_single || end == at + first_length;
    }
    if (!has_single) offer(at + first_length, unknown_score_, -1);
    at += first_length;
  }
  return best;
}

absl::Status UnigramModel::Encode(std::string_view piece, std::span<const int32_t> barred,
                                  int64_t /*most*/, std::vector<int32_t>* ids) const {
  if (piece.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return UsageError(absl::StrCat("a piece of ", piece.size(), " bytes is too long for ", path_));
  }
  const std::vector<Step> best = BestSteps(piece, barred);
  std::vector<std::pair<int32_t, std::string_view>> cut;  // from the last one on
  for (size_t end = piece.size(); end > 0;) {
    const auto begin = static_cast<size_t>(best[end].begin);
    const int32_t id = best[end].id;
    const bool joins = id == -1 && !cut.empty() && cut.back().first == -1;
    const size_t text_end = joins ? begin + (end - begin) + cut.back().second.size() : end;
    if (joins) cut.pop_back();
    cut.emplace_back(id, piece.substr(begin, text_end - begin));
    end = begin;
  }
  for (auto part = cut.rbegin(); part != cut.rend(); ++part) {
    if (part->first >= 0) {
      ids->push_back(part->first);
    } else {
      NG_RETURN_IF_ERROR(AppendUnknown(part->second, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status UnigramModel::AppendUnknown(std::string_view text, std::vector<int32_t>* ids) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (!byte_ids_.empty() && std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) {
    for (const char byte : text) ids->push_back(id_of(byte));
    return absl::OkStatus();
  }
  if (!spec_.unknown) {
    return UsageError(absl::StrCat("the text has ", JsonExcerpt(std::string(text)), ", which ",
                                   path_, " has no token for"));
  }
  ids->push_back(*spec_.unknown);
  return absl::OkStatus();
}

}  // namespace ng
