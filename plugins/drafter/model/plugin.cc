// The descriptor of the drafter `model`.
#include "ng/plugin.h"

#include "plugins/drafter/model/model_drafter.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(
        ng::TextOption("path", "",
                       "a smaller model with the same vocabulary: a folder with config.json and "
                       "model.safetensors, or a GGUF file"),
        "small.gguf"),
    ng::ChoiceOption("weights", "auto", "auto|f32|bf16|f16|int8|int4|mxfp4",
                     "type its weights are held in; auto: the file's own"),
    ng::ChoiceOption("codec", "f32", "f32|bf16|f16|int8|int4",
                     "type in which its keys and values are stored")};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::DrafterPlugin<ng::ModelDrafter::Create>(
        "model", "1.0.0", "proposes what a smaller model takes for most likely", kOptions);
