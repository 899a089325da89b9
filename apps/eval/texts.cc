#include "apps/eval/texts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/common/input.h"
#include "apps/eval/evaluate.h"
#include "ng/config.h"
#include "ng/files.h"
#include "ng/sampler.h"

namespace ng::eval {
namespace {

// A step before those of the generated tokens.
constexpr int64_t kFirstTokenStep = -1;

}  // namespace

absl::Status CheckText(std::span<const int32_t> ids, const std::string& name,
                       const ModelShape& shape) {
  if (ids.size() < 2) {
    return UsageError(absl::StrCat(name, ": has ", ids.size(),
                                   ids.size() == 1 ? " token" : " tokens",
                                   ", must have at least 2: the first is not scored"));
  }
  return Annotate(CheckIds(shape, ids), name + ": ");
}

absl::StatusOr<Texts> ReadTexts(const CommandLine& line, const Engine& engine,
                                const std::atomic<bool>* stop) {
  const std::string& path = line.text_file ? *line.text_file : *line.ids_file;
  const ModelShape& shape = engine.model_shape();
  NG_ASSIGN_OR_RETURN(const std::string content, ReadUserFile(path, stop));
  Texts texts;
  if (line.text_file) {
    absl::StatusOr<std::vector<int32_t>> ids = engine.Encode(content, {});
    if (!ids.ok()) return Annotate(ids.status(), path + ": ");
    NG_RETURN_IF_ERROR(CheckText(*ids, path, shape));
    texts.push_back(*std::move(ids));
    return texts;
  }
  std::vector<absl::string_view> lines = absl::StrSplit(content, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty()) return UsageError(path + ": holds no ids");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string name = absl::StrCat(path, ":", i + 1);
    NG_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                        ParseTokenIds({lines[i].data(), lines[i].size()}, name));
    NG_RETURN_IF_ERROR(CheckText(ids, name, shape));
    texts.push_back(std::move(ids));
  }
  return texts;
}

std::vector<std::string> DrawingOverrides() {
  return {"sampler.chain=temperature", "sampler.temperature.value=1", "run.stop_ids="};
}

absl::StatusOr<Texts> DrawTexts(Engine& engine, int64_t n, int64_t n_tokens) {
  if (n_tokens < 2) {
    return UsageError(absl::StrCat("--samples: a sequence of ", n_tokens,
                                   " token has nothing to score; --window must be at least 2"));
  }
  const auto vocab_size = static_cast<double>(engine.model_shape().vocab_size);
  const int64_t seed = engine.config().Int("sampler.seed");
  std::vector<GenerateRequest> requests;
  for (int64_t i = 0; i < n; ++i) {
    const double uniform = UniformDraw({seed, i, kFirstTokenStep});
    requests.push_back({{static_cast<int32_t>(uniform * vocab_size)}, n_tokens - 1, {}});
  }
  NG_RETURN_IF_ERROR(engine.CheckRequest(requests.front()));
  NG_RETURN_IF_ERROR(engine.Load(Needs(requests)));
  NG_ASSIGN_OR_RETURN(std::vector<Completion> done, engine.Generate(requests, {}));
  Texts texts;
  for (Completion& completion : done) {
    if (completion.stop_reason == StopReason::kInterrupted) return InterruptedError("interrupted");
    texts.push_back(std::move(completion.ids));
  }
  return texts;
}

absl::StatusOr<EngineOptions> FeedingOptions(const CommandLine& line, const EngineOptions& given) {
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(given));
  EngineOptions options = given;
  if (config.IsDefault("run.prefill_chunk")) {
    options.overrides.push_back(absl::StrCat("run.prefill_chunk=", kDefaultChunk));
  }
  if (line.samples == 0) return options;
  for (const std::string& setting : DrawingOverrides()) options.overrides.push_back(setting);
  return options;
}

absl::StatusOr<Texts> GetTexts(const CommandLine& line, Engine& engine, const InputLog& inputs,
                               const std::atomic<bool>* stop) {
  const int64_t limit = TokenLimit(engine);
  if (limit > 0 && line.window > limit) {
    return LimitError(
        absl::StrCat("--window ", line.window, " > ", limit, " tokens that fit a sequence"));
  }
  const int64_t window = line.window > 0 ? line.window : limit;
  Texts texts;
  if (line.samples == 0) {
    NG_ASSIGN_OR_RETURN(texts, ReadTexts(line, engine, stop));
  } else if (window == 0) {
    return UsageError("the model states no context to fill; give --window");
  }
  const NamedOutput output = {"--save-ids", line.save_ids.value_or("")};
  NG_RETURN_IF_ERROR(CheckOutputs({&output, 1}, inputs));
  if (line.samples > 0) {
    NG_ASSIGN_OR_RETURN(texts, DrawTexts(engine, line.samples, window));
  }
  if (line.save_ids) NG_RETURN_IF_ERROR(WriteTexts(*line.save_ids, texts, stop));
  return texts;
}

absl::Status WriteTexts(const std::string& path, const Texts& texts,
                        const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, stop));
  for (const std::vector<int32_t>& ids : texts) {
    NG_RETURN_IF_ERROR(file.Write(absl::StrCat(absl::StrJoin(ids, " "), "\n")));
  }
  return file.Commit();
}

std::vector<Window> WindowsOf(const Texts& texts, int64_t n_tokens) {
  std::vector<Window> windows;
  for (size_t text = 0; text < texts.size(); ++text) {
    const std::span<const int32_t> ids = texts[text];
    const size_t n_rows = ids.size() - 1;
    const size_t most = n_tokens > 0 ? static_cast<size_t>(n_tokens) : n_rows;
    for (size_t first = 0; first < n_rows; first += most) {
      const size_t n = std::min(most, n_rows - first);
      windows.push_back({ids.subspan(first, n), ids.subspan(first + 1, n), text, first});
    }
  }
  return windows;
}

}  // namespace ng::eval
