// The engine's own keys, as data: their order is that of --help and --print-config.
#include <array>

#include "core/config/config.h"
#include "ng/kv_view.h"

namespace ng {
namespace {

constexpr double kIntEnd = 0x1p63;  // every int64 lies within [-kIntEnd, kIntEnd]
constexpr double kInt32Max = 0x7FFFFFFF;
constexpr double kMaxThreads = 1024;

// The codecs' names as an option lists its choices: "f32|bf16|...", with its end.
constexpr size_t ChoicesSize() {
  size_t size = 0;
  for (const CodecInfo& codec : kCodecTable) size += codec.name.size() + 1;
  return size;
}
constexpr auto kCodecChoices = [] {
  std::array<char, ChoicesSize()> choices{};
  size_t end = 0;
  for (const CodecInfo& codec : kCodecTable) {
    if (end > 0) choices[end++] = '|';
    for (const char c : codec.name) choices[end++] = c;
  }
  return choices;
}();
constexpr const char* kCodecs = kCodecChoices.data();

constexpr OptionSpec Text(const char* key, const char* value, const char* help,
                          const char* choices = nullptr) {
  return {key, OptionType::kText, value, 0, 0, false, false, choices, help};
}
constexpr OptionSpec Bool(const char* key, const char* value, const char* help) {
  return {key, OptionType::kBool, value, 0, 0, false, false, nullptr, help};
}
constexpr OptionSpec Int(const char* key, const char* value, double min, double max,
                         const char* help) {
  return {key, OptionType::kInt, value, min, max, false, false, nullptr, help};
}
constexpr OptionSpec Ids(const char* key, const char* value, const char* help) {
  return {key, OptionType::kIntList, value, 0, kInt32Max, false, false, nullptr, help};
}

struct CoreKey {
  OptionSpec spec;
  ConfigForm form = ConfigForm::kPlain;
};

constexpr CoreKey kTable[] = {
    {Text("model.path", "", "folder with config.json and model.safetensors, or a GGUF file"),
     ConfigForm::kPath},
    {Text("model.weights", "auto", "type the weights are held in; auto: the file's own",
          "auto|f32|bf16|f16|int8|int4")},
    {Bool("model.strict", "false",
          "true: refuse a model with keys or tensors that ng does not use; false: warn")},
    {Text("model.ignore_keys", "", "keys of the model's files to ignore, by their dotted names")},
    {Text("tokenizer.path", "", "tokenizer file or folder; empty: the one beside the model"),
     ConfigForm::kPath},
    {Text("tokenizer.chat_template", "auto",
          "name of the chat template; auto: recognised from the model's own metadata")},
    {Text("plugins.path", "", "more folders with plugins, searched in this order"),
     ConfigForm::kPathList},
    {Bool("plugins.allow_world_writable", "false",
          "true: load plugins from folders and files that anyone can write to")},
    {Text("attention.name", "flash", "the attention plugin")},
    {Text("cache.name", "contiguous", "the cache plugin")},
    {Text("cache.codec", "f32", "type in which keys and values are stored", kCodecs)},
    {Text("cache.codec_k", "", "type of the keys; empty: cache.codec, but int8 for int4", kCodecs)},
    {Text("cache.codec_v", "", "type of the values; empty: cache.codec", kCodecs)},
    {Int("cache.max_tokens", "0", 0, kIntEnd, "tokens per sequence; 0: what the run needs")},
    {Int("cache.max_sequences", "0", 0, kInt32Max,
         "sequences at a time; 0: as many as there are prompts")},
    {Text("sampler.chain", "temperature,top_k", "the sampler plugins, in the order they apply"),
     ConfigForm::kNames},
    {Int("sampler.seed", "1", 0, kIntEnd, "seed of the random draws")},
    {Int("run.max_new_tokens", "64", -kIntEnd, kIntEnd,
         "the most tokens to generate; 0 or less gives the prompt back")},
    {Ids("run.stop_ids", "auto", "token ids that end a run; auto: the model's own; empty: none"),
     ConfigForm::kListOrAuto},
    {Bool("run.use_cache", "true", "false: recompute all keys and values at every step")},
    {Int("run.prefill_chunk", "0", 0, kIntEnd, "prompt tokens per step; 0: the whole prompt")},
    {Int("run.threads", "0", 0, kMaxThreads, "worker threads; 0: one per physical core")},
    {Text("run.isa", "auto",
          "instruction set level; auto: NG_ISA if it is set, or the best of this CPU",
          "auto|scalar|avx2|avx512|avx512_vnni|avx512_bf16")},
    {Text("run.on_full", "error",
          "when the text does not fit the context; error: refuse the run, recompute: compute the "
          "last tokens that fit again at every step",
          "error|recompute")},
    {Bool("run.check_plugins", "false",
          "true: check the results of every plugin, which is slow; for authors of plugins")},
    {Text("run.system", "", "system turn of the chat template; empty: none")},
};

}  // namespace

std::span<const ConfigKey> CoreConfigKeys() {
  static const auto* const keys = [] {
    auto* table = new std::array<ConfigKey, std::size(kTable)>;
    for (size_t i = 0; i < table->size(); ++i) {
      (*table)[i] = {kTable[i].spec.name, &kTable[i].spec, kTable[i].form};
    }
    return table;
  }();
  return *keys;
}

}  // namespace ng
