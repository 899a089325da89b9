// The engine's own keys, as data: their order is that of --help and --print-config.
#include <array>

#include "core/config/config.h"
#include "ng/fabric.h"
#include "ng/kv_view.h"

namespace ng {
namespace {

constexpr int64_t kInt32Max = 0x7FFFFFFF;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxPort = 65535;
constexpr int64_t kMaxSeconds = 86400;

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

// A number, or auto, which counts as this one where a number is asked for.
constexpr OptionSpec AutoOption(const char* name, int64_t as, const char* help) {
  OptionSpec spec = IntOption(name, as, {}, help);
  spec.default_value = "auto";
  return spec;
}

struct CoreKey {
  OptionSpec spec;
  ConfigForm form = ConfigForm::kPlain;
};

constexpr CoreKey kTable[] = {
    {TextOption("model.path", "",
                "folder with config.json and model.safetensors, or a GGUF file; or the name of a "
                "model that is on this machine, ORG/NAME or NAME:TAG (ng-run --list-models)"),
     ConfigForm::kPath},
    {TextOption("model.folders", "", "more folders whose models go by their names"),
     ConfigForm::kPathList},
    {TextOption("model.adapters", "",
                "adapters that add to the model (LoRA): folders that PEFT has written, or GGUF "
                "files, each with :SCALE behind it where it is to count more or less"),
     ConfigForm::kPathsWithScales},
    {TextOption("model.named_adapters", "",
                "adapters of which each request may take one, NAME=PATH each: ng-serve has a model "
                "MODEL:NAME for it"),
     ConfigForm::kNamedPathsWithScales},
    {ChoiceOption("model.weights", "auto", "auto|f32|bf16|f16|int8|int4|mxfp4",
                  "type the weights are held in; auto: the file's own")},
    {TextOption("model.packed", "",
                "file that ng-pack has made of the model: its weights are mapped, none is read"),
     ConfigForm::kPath},
    {ChoiceOption("model.load", "with_prompt", "with_prompt|before_prompt",
                  "with_prompt: ng-run reads each layer of the weights just before it is computed "
                  "for the first time; before_prompt: all of them first")},
    {BoolOption("model.strict", false,
                "true: refuse a model with keys or tensors that ng does not use; false: warn")},
    {TextOption("model.ignore_keys", "",
                "keys of the model's files to ignore, by their dotted names")},
    {TextOption("tokenizer.path", "", "tokenizer file or folder; empty: the one beside the model"),
     ConfigForm::kPath},
    {TextOption("tokenizer.chat_template", "auto",
                "name of a chat template, or a file with one; auto: the model's own; "
                "run.template.<name> sets a variable of it"),
     ConfigForm::kNameOrPath},
    {TextOption("plugins.path", "", "more folders with plugins, searched in this order"),
     ConfigForm::kPathList},
    {BoolOption("plugins.allow_world_writable", false,
                "true: load plugins from folders and files that anyone can write to")},
    {TextOption("attention.name", "flash", "the attention plugin")},
    {TextOption("cache.name", "contiguous", "the cache plugin")},
    {ChoiceOption("cache.codec", "f32", kCodecs, "type in which keys and values are stored")},
    {ChoiceOption("cache.codec_k", "", kCodecs,
                  "type of the keys; empty: cache.codec, but int8 for int4")},
    {ChoiceOption("cache.codec_v", "", kCodecs, "type of the values; empty: cache.codec")},
    {IntOption("cache.max_tokens", 0, {.min = 0}, "tokens per sequence; 0: what the run needs")},
    {IntOption("cache.usual_tokens", 0, {.min = 0},
               "tokens of a conversation or of a server's sequence where cache.max_tokens is 0; 0: "
               "the model's context, as far as that takes little memory")},
    {IntOption("cache.max_sequences", 0, {.min = 0, .max = kInt32Max},
               "sequences at a time; 0: as many as there are prompts")},
    {IntOption("cache.checkpoints", 0, {.min = 0, .max = kInt32Max},
               "with a cache that shares prompts: how many positions of texts keep the states and "
               "windows that later prompts go on from; ng-serve: 3 for each sequence")},
    {TextOption("sampler.chain", "temperature,top_k",
                "the sampler plugins, in the order they apply"),
     ConfigForm::kNames},
    {IntOption("sampler.seed", 1, {.min = 0}, "seed of the random draws")},
    {TextOption("probe.chain", "",
                "the probe plugins that look into each step, in the order they are asked"),
     ConfigForm::kNames},
    {TextOption("drafter.name", "none",
                "the drafter plugin, which proposes tokens that a step then checks at once; the "
                "answer stays the same; none: no drafts")},
    {IntOption("drafter.gamma", 8, {.min = 1, .max = 64},
               "the most tokens of a sequence that are drafted for a step")},
    {BoolOption("drafter.adapt", true,
                "true: draft as many tokens as gain time, by what was kept so far and what steps "
                "take; false: always drafter.gamma")},
    {TextOption("fabric.name", "local",
                "the fabric plugin, which moves rows between the processes of a run; local: one "
                "process; mpi: those that mpirun started")},
    {ChoiceOption("fabric.split", "heads", "heads|layers",
                  "what each process computes; heads: its heads and output columns of each layer; "
                  "layers: its layers, for slow networks")},
    {IntOption("fabric.groups", 1, {.min = 1, .max = kMaxRanks},
               "groups of as many processes each; a group runs the whole model and takes the next "
               "prompts when it has room for them")},
    {IntOption("fabric.pieces", 0, {.min = 0, .max = 64},
               "with heads: a step of many rows is cut into at most so many pieces of 32 rows or "
               "more, and one is computed while rows of another are sent; 1: never; 0: into 4, "
               "where the first layer shows that this gains time")},
    {RealOption("fabric.deadline", 60.0, {.min = 0.1, .max = 86400.0},
                "seconds that a process waits for the others before it ends the run")},
    {AutoOption(
         "run.max_new_tokens", 64,
         "the most tokens to generate; auto: for an answer to a message what fits the context "
         "and the memory, at most 8192, for a text to go on with 64; -1: nothing but the context "
         "and the memory ends them; 0 gives the prompt back"),
     ConfigForm::kListOrAuto},
    {IntListOption("run.stop_ids", "auto", {.min = 0, .max = kInt32Max},
                   "token ids that end a run; auto: the model's own; empty: none"),
     ConfigForm::kListOrAuto},
    {BoolOption("run.use_cache", true, "false: recompute all keys and values at every step")},
    {IntOption("run.prefill_chunk", 0, {.min = 0}, "prompt tokens per step; 0: the whole prompt")},
    {IntOption(
        "run.context_tokens", 0, {.min = 0},
        "so many of a prompt's first tokens are its context, where nothing else says it: for "
        "a cache that lets tokens go at its end; 0: nothing says it")},
    {IntOption("run.threads", 0, {.min = 0, .max = kMaxThreads},
               "worker threads; 0: one per physical core, within the CPU quota")},
    {ChoiceOption(
        "run.pin", "none", "none|cores",
        "cores: each worker thread but the first keeps to a core of its own, and packs the "
        "weights that it reads; where no other work needs the CPU")},
    {ChoiceOption("run.isa", "auto", "auto|scalar|avx2|avx_vnni|avx512|avx512_vnni|avx512_bf16",
                  "instruction set level; auto: NG_ISA if it is set, or the best of this CPU")},
    {ChoiceOption("run.arithmetic", "fastest", "fastest|portable",
                  "portable: among levels that give the same bits on every CPU")},
    {ChoiceOption(
        "run.on_full", "error", "error|recompute|drop_turns",
        "when the text does not fit the context; error: refuse the run, recompute: compute the "
        "last tokens that fit again at every step, drop_turns: leave out the oldest turns of a "
        "conversation (--chat)")},
    {BoolOption("run.model_defaults", true,
                "true: the model's own sampling where the config says nothing of it")},
    {BoolOption("run.check_plugins", false,
                "true: check the results of every plugin, which is slow; for authors of plugins")},
    {TextOption("run.system", "", "system turn of the chat template; empty: none")},
    {TextOption("run.date", "", "the date that a chat template is told, 2026-11-22; empty: today")},
    {TextOption(
        "serve.host", "127.0.0.1",
        "ng-serve: address to listen on, in digits; one that others reach needs serve.key")},
    {IntOption("serve.port", 8080, {.min = 0, .max = kMaxPort},
               "port to listen on; 0: any that is free")},
    {TextOption("serve.key", "",
                "what clients must send as \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\""),
     ConfigForm::kSecret},
    {TextOption("serve.names", "",
                "host names by which clients may call the server, beside localhost and addresses"),
     ConfigForm::kNames},
    {TextOption("serve.model", "", "the model's name in requests; empty: that of its file")},
    {IntOption("serve.max_body_bytes", int64_t{4} << 20, {.min = 1, .max = int64_t{1} << 30},
               "the largest request")},
    {IntOption("serve.max_queued", 64, {.min = 1, .max = kInt32Max},
               "answers that may wait for their turn; more are refused with 429")},
    {IntOption("serve.max_connections", 512, {.min = 1, .max = kInt32Max},
               "connections at a time; the longest idle one makes room for another")},
    {IntOption("serve.read_seconds", 30, {.min = 1, .max = kMaxSeconds},
               "within which a request must come whole")},
    {IntOption("serve.write_seconds", 30, {.min = 1, .max = kMaxSeconds},
               "after which a client that reads nothing of its answer is left")},
    {IntOption("serve.idle_seconds", 60, {.min = 1, .max = kMaxSeconds},
               "after which a connection without a request is closed")},
    {IntOption("serve.answer_seconds", 600, {.min = 0, .max = kMaxSeconds},
               "after which an answer is broken off, from when its prompt is read; 0: never")},
    {IntOption("serve.alive_seconds", 5, {.min = 0, .max = kMaxSeconds},
               "after which a stream that says nothing shows that it lives; 0: never")},
    {IntOption("serve.responses", 100, {.min = 0, .max = 100000},
               "how many of the last responses can be gone on from (previous_response_id)")},
    {ChoiceOption("serve.log", "auto", "auto|off|text|json",
                  "a line on stderr for each request; auto: as text, where stderr is a terminal")},
    {IntOption("serve.views", 0, {.min = 0, .max = 1000},
               "how many of the last answers can be looked into; ng-serve --view: 32")},
};

// Every variable of a chat template; only the template knows their names.
constexpr std::string_view kTemplateVariables = "run.template.";
constexpr OptionSpec kTemplateVariable =
    TextOption("run.template.<name>", "", "a variable of the chat template");

}  // namespace

std::optional<ConfigKey> TemplateVariableKey(std::string_view key) {
  if (!key.starts_with(kTemplateVariables) || key == kTemplateVariables) return std::nullopt;
  return ConfigKey{std::string(key), &kTemplateVariable, ConfigForm::kPlain};
}

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
