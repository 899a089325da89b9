#include "apps/view/page.h"

#include <bit>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "apps/view/byte_scale.h"
#include "apps/view/page_text.h"
#include "ng/files.h"

namespace ng::view {
namespace {

static_assert(std::endian::native == std::endian::little, "the page reads little endian");

std::string_view Bytes(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view Bytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

Json FactsJson(const Facts& facts) {
  Json json = Json::array();
  for (const auto& [label, value] : facts) json.push_back({label, value});
  return json;
}

// Six digits are enough to show, and a lens has many of them.
Json TopJson(const TopIds& top) {
  Json json = Json::array();
  for (const auto& [id, p] : top) json.push_back({id, std::stod(absl::StrFormat("%.6g", p))});
  return json;
}

Json StepJson(const StepRecord& step) {
  Json json = Json::object();
  json["logprob"] = step.logprob;
  json["entropy"] = step.entropy;
  json["top"] = TopJson(step.top_k);
  if (step.stages.empty()) return json;
  Json& stages = json["stages"] = Json::array();
  for (const StageRecord& stage : step.stages) {
    stages.push_back({{"name", stage.name}, {"n", stage.n_left}, {"top", TopJson(stage.top)}});
  }
  return json;
}

Json LensJson(const Lens& lens) {
  Json json = {{"layers", lens.layers}, {"pos", lens.positions}, {"rank", lens.rank}};
  Json& top = json["top"] = Json::array();
  for (const std::vector<TopIds>& of_layer : lens.top) {
    Json& tops = top.emplace_back(Json::array());
    for (const TopIds& ids : of_layer) tops.push_back(TopJson(ids));
  }
  return json;
}

// "heads" counts them; "names" are their numbers where these are not 0, 1, ...
Json LayerJson(int layer, const std::map<int, HeadMap>& heads) {
  Json json = {{"layer", layer}, {"heads", heads.size()}};
  std::vector<int> names;
  names.reserve(heads.size());
  for (const auto& [head, map] : heads) names.push_back(head);
  if (names.back() + 1 != std::ssize(names)) json["names"] = names;
  return json;
}

Json AttentionJson(const AttentionMaps* maps) {
  if (maps == nullptr || maps->layers().empty()) return nullptr;
  Json layers = Json::array();
  Json scores = Json::object();
  for (const auto& [layer, heads] : maps->layers()) {
    layers.push_back(LayerJson(layer, heads));
    Json& of_layer = scores[absl::StrCat(layer)] = Json::array();
    for (const auto& [head, map] : heads) {
      const HeadScores of = maps->Scores(map);
      of_layer.push_back({of.entropy, of.first_token, of.previous_token, of.induction});
    }
  }
  Json json = Json::object();
  json["layers"] = std::move(layers);
  json["T"] = maps->n_queries();
  json["scale"] = {{"min", kLeastProbability}, {"steps", kByteSteps}, {"error", ByteError()}};
  json["scores"] = std::move(scores);
  return json;
}

bool HasSurvival(const Page& page) { return page.survival != nullptr && !page.survival->empty(); }

Json SurvivalJson(const Page& page) {
  if (!HasSurvival(page)) return nullptr;
  return {{"layers", page.survival->n_layers()},
          {"heads", page.survival->n_kv_heads()},
          {"T", page.ids.size()}};
}

Json AgainstJson(const AgainstRun& against) {
  Json json = Json::object();
  json["name"] = against.name;
  json["summary"] = FactsJson(against.summary);
  json["kl"] = against.kl;
  Json& top = json["top"] = Json::array();
  for (const TopIds& ids : against.top) top.push_back(TopJson(ids));
  json["attention"] = AttentionJson(against.attention);
  return json;
}

class PageWriter {
 public:
  using Sink = absl::FunctionRef<absl::Status(std::string_view text)>;
  explicit PageWriter(Sink sink) : write_(sink) {}

  absl::Status Write(const Page& page) {
    NG_RETURN_IF_ERROR(write_(kPageBefore));
    NG_RETURN_IF_ERROR(write_("<script id=\"ng-run\" type=\"application/json\">"));
    NG_RETURN_IF_ERROR(write_(ScriptText(Manifest(page))));
    NG_RETURN_IF_ERROR(write_("</script>\n"));
    NG_RETURN_IF_ERROR(WriteMaps("b-", page.attention));
    if (HasSurvival(page)) {
      const std::vector<int32_t> left_at = page.survival->LeftAt(std::ssize(page.ids));
      NG_RETURN_IF_ERROR(WriteBlob("b-left", {reinterpret_cast<const char*>(left_at.data()),
                                              left_at.size() * sizeof(left_at.front())}));
    }
    if (page.against) NG_RETURN_IF_ERROR(WriteMaps("b-x-", page.against->attention));
    return write_(kPageAfter);
  }

 private:
  absl::Status WriteBlob(const std::string& name, std::string_view bytes) {
    NG_RETURN_IF_ERROR(write_(absl::StrCat("<script id=\"", name, "\" type=\"text/plain\">")));
    NG_RETURN_IF_ERROR(write_(Base64(bytes)));
    return write_("</script>\n");
  }

  absl::Status WriteMaps(std::string_view prefix, const AttentionMaps* maps) {
    if (maps == nullptr) return absl::OkStatus();
    for (const auto& [layer, heads] : maps->layers()) {
      const auto name = [&, layer = layer](const char* what) {
        return absl::StrCat(std::string(prefix), what, "-", layer);
      };
      std::vector<uint8_t> thumbnails;
      std::vector<float> edges;
      size_t place = 0;
      for (const auto& [head, map] : heads) {
        NG_RETURN_IF_ERROR(WriteBlob(absl::StrCat(name("a"), "-", place++), Bytes(map.bytes)));
        const std::vector<uint8_t> thumbnail = maps->Thumbnail(map);
        thumbnails.insert(thumbnails.end(), thumbnail.begin(), thumbnail.end());
        edges.insert(edges.end(), map.received.begin(), map.received.end());
      }
      for (const auto& [head, map] : heads) {
        edges.insert(edges.end(), map.entropies.begin(), map.entropies.end());
      }
      NG_RETURN_IF_ERROR(WriteBlob(name("t"), Bytes(thumbnails)));
      NG_RETURN_IF_ERROR(WriteBlob(name("e"), Bytes(edges)));
    }
    return absl::OkStatus();
  }

  Sink write_;
};

}  // namespace

Json Manifest(const Page& page) {
  Json json = Json::object();
  json["format"] = 1;
  json["run"] = {{"title", page.title},
                 {"model", page.model},
                 {"summary", FactsJson(page.summary)},
                 {"config", page.config},
                 {"stop_reason", page.stop_reason},
                 {"replay", page.replay}};
  Json& texts = json["texts"] = Json::object();
  for (const auto& [id, text] : page.texts) texts[absl::StrCat(id)] = text;
  json["ids"] = page.ids;
  json["prompt_len"] = page.prompt_len;
  Json& roles = json["roles"] = Json::array();
  for (size_t i = 0; i < page.ids.size(); ++i) {
    roles.push_back(i >= page.special.size() ? "answer" : page.special[i] ? "special" : "text");
  }
  Json& steps = json["steps"] = Json::array();
  for (const StepRecord& step : page.steps) steps.push_back(StepJson(step));
  json["lens"] = page.lens ? LensJson(*page.lens) : Json(nullptr);
  json["attention"] = AttentionJson(page.attention);
  if (!json["attention"].is_null()) {
    json["attention"]["left_out"] = page.left_out;
    json["attention"]["why"] = page.why;
  }
  json["survival"] = SurvivalJson(page);
  json["cache"] = page.cache;
  json["against"] = page.against ? AgainstJson(*page.against) : Json(nullptr);
  return json;
}

std::string ScriptText(const Json& json) {
  // What is no UTF-8 in a path or an option becomes U+FFFD.
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return absl::StrReplaceAll(text, {{"<", "\\u003c"}});
}

std::string Base64(std::string_view bytes) {
  return absl::Base64Escape({bytes.data(), bytes.size()});
}

absl::Status WritePage(const std::string& path, const Page& page, const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, stop));
  const auto write = [&](std::string_view text) { return file.Write(text); };
  NG_RETURN_IF_ERROR(PageWriter(write).Write(page));
  return file.Commit();
}

std::string PageText(const Page& page) {
  std::string text;
  const auto append = [&](std::string_view more) {
    text += more;
    return absl::OkStatus();
  };
  PageWriter(append).Write(page).IgnoreError();  // there is none
  return text;
}

}  // namespace ng::view
