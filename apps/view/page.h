// Page: a run as one HTML file that needs nothing else. The run's data are put into the page's own
// text as JSON and base64, so that no byte of a token is read as HTML.
#ifndef NG_APPS_VIEW_PAGE_H_
#define NG_APPS_VIEW_PAGE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/view/attention_maps.h"
#include "apps/view/survival.h"
#include "ng/request.h"
#include "ng/status.h"

namespace ng::view {

using Json = nlohmann::ordered_json;
// Pairs of a label and what it says.
using Facts = std::vector<std::pair<std::string, std::string>>;
// {id, probability}, the best first.
using TopIds = std::vector<std::pair<int32_t, float>>;

// What the model would say after each layer.
struct Lens {
  std::vector<int> layers;
  std::vector<int64_t> positions;
  std::vector<std::vector<TopIds>> top;    // [layers][positions]
  std::vector<std::vector<int64_t>> rank;  // the same: of the token that was chosen; 0 is the best
};

// A second run along the ids of the first.
struct AgainstRun {
  std::string name;                          // "cache.codec=int8"
  Facts summary;                             // what differs
  std::vector<double> kl;                    // of each step, nats
  std::vector<TopIds> top;                   // of each step
  const AttentionMaps* attention = nullptr;  // null: none
};

struct Page {
  std::string title;
  std::string model;  // its path
  Facts summary;
  std::string config;  // INI text
  std::string stop_reason;
  std::string replay;                    // a command that gives the same run
  std::map<int32_t, std::string> texts;  // of each id; valid UTF-8
  std::vector<int32_t> ids;
  int64_t prompt_len = 0;
  std::vector<bool> special;  // [prompt_len] of each token of the prompt: nobody's words
  std::vector<StepRecord> steps;
  std::optional<Lens> lens;
  const AttentionMaps* attention = nullptr;  // null: none
  std::vector<int> left_out;                 // layers that have attention and are not in it
  std::string why;                           // they are not
  const Survival* survival = nullptr;        // null, or empty: no token has left the cache
  Json cache = Json::object();
  std::optional<AgainstRun> against;
};

// All that the page says, without the attention's bytes.
Json Manifest(const Page& page);
// A JSON value as text within HTML: ASCII, and no `<`.
std::string ScriptText(const Json& json);
std::string Base64(std::string_view bytes);

std::string PageText(const Page& page);
// Writes the page whole or not at all. Errors: OutputError, InterruptedError.
absl::Status WritePage(const std::string& path, const Page& page, const std::atomic<bool>* stop);

}  // namespace ng::view

#endif  // NG_APPS_VIEW_PAGE_H_
