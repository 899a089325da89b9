#include "core/model/keys/inert_keys.h"

#include <algorithm>
#include <iterator>

namespace ng {
namespace {

struct InertKeys {
  const char* families;  // names between blanks; empty: all
  const char* keys;      // the same; a '*' at its end stands for any ending, GGUF's at its begin
                         // for the architecture
};

// That none of them moves a logit of transformers or llama.cpp is measured: tests/data/keys/.
constexpr InertKeys kTable[] = {
    // who wrote the file, and with what
    {"",
     "model_type architectures auto_map transformers_version _name_or_path name_or_path "
     "_commit_hash tokenizer_class task_specific_params transformers.js_config unsloth_* "
     "is_llama_config max_sequence_length custom_pipelines"},
    // how the weights are stored and computed with: ng goes by the tensors and by model.weights
    {"",
     "dtype torch_dtype use_cache _attn_implementation _attn_implementation_autoset "
     "attn_implementation _flash_attn_2_enabled use_flash_attn attention_implementation "
     "pretraining_tp chunk_size_feed_forward reorder_and_upcast_attn use_bfloat16"},
    // training
    {"",
     "initializer_range attention_dropout hidden_dropout dropout resid_pdrop embd_pdrop "
     "attn_pdrop residual_dropout embedding_dropout gradient_checkpointing loss_type"},
    // how a mixture of experts is trained
    {"",
     "router_aux_loss_coef output_router_logits router_jitter_noise enable_moe_fp32_combine "
     "num_mtp_layers num_nextn_predict_layers"},
    // which tokens are special: the tokenizer and generation_config.json have their own say
    {"", "eos_token_id bos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id"},
    // other heads on the same model, and what a call gives back
    {"",
     "id2label label2id num_labels problem_type return_dict output_attentions "
     "output_hidden_states is_decoder classifier_dropout summary_*"},
    {"gpt2", "n_ctx"},
    // without use_sliding_window
    {"qwen2 qwen3 smollm3", "sliding_window max_window_layers"},
    // said again by layer_types
    {"gemma3_text", "_sliding_window_pattern"},
    // its attention does not ask for it
    {"gemma3_text", "attn_logit_softcapping"},
    // of longrope alone
    {"phi3", "original_max_position_embeddings"},
    {"gpt_oss", "hidden_act"},
    {"gpt_neo", "resid_dropout embed_dropout"},
    {"xglm", "activation_dropout layerdrop init_std"},
    // transformers goes by none of them; the shapes of the tensors say two
    {"mpt",
     "emb_pdrop embedding_fraction init_device learned_pos_emb norm_type no_bias "
     "expansion_ratio"},
    {"ministral3", "rope_parameters.max_position_embeddings"},
    // said again by other sizes; and of DeepSeek's own code
    {"deepseek_v2 deepseek_v3 youtu glm4_moe_lite", "qk_head_dim embedding_initializer_range"},
    {"deepseek_v2 deepseek_v3 glm4_moe_lite",
     "aux_loss_alpha ep_size moe_layer_freq scoring_func seq_aux"},
    {"deepseek_v2", "head_dim norm_topk_prob n_group topk_group"},
    {"deepseek_v3 glm4_moe_lite", "topk_method"},
    {"codegen", "n_ctx"},
    // said again by layer_types and other keys; of how its convolutions were initialised
    {"lfm2 lfm2_moe",
     "full_attn_idxs block_dim block_mlp_init_scale block_norm_eps block_out_init_scale "
     "block_use_swiglu block_use_xavier_init conv_dim conv_dim_out conv_use_xavier_init num_heads "
     "use_pos_enc"},
    {"qwen3_5_text qwen3_5_moe_text qwen3_next", "full_attention_interval"},
    // a text has the same position in all three sections
    {"qwen3_5_text qwen3_5_moe_text",
     "rope_parameters.mrope_section rope_parameters.mrope_interleaved "
     "rope_scaling.mrope_section rope_scaling.mrope_interleaved"},
    // in pieces of how many tokens transformers computes; how steps are initialised
    {"granitemoehybrid", "mamba_chunk_size"},
    {"nemotron_h",
     "chunk_size mamba_chunk_size expand mamba_expand time_step_max time_step_floor "
     "time_step_limit mamba_ssm_cache_dtype use_mamba_kernels num_logits_to_keep "
     "residual_in_fp32 rescale_prenorm_residual moe_shared_expert_overlap n_shared_experts "
     "sliding_window mtp_layers_block_type num_hidden_layers attention_bias mamba_dt_max "
     "mamba_dt_limit mamba_dt_init_floor"},
    {"bloom", "slow_but_exact"},
    {"gpt_bigcode", "attention_softmax_in_fp32 scale_attention_softmax_in_fp32"},
    {"niels-gpt", "dropout p_dropout"},
    {"nanogpt", "dropout"},

    // GGUF: where the model is from
    {"",
     "general.architecture general.name general.basename general.author general.organization "
     "general.version general.description general.finetune general.quantized_by "
     "general.size_label general.license* general.url general.doi general.uuid "
     "general.repo_url general.source.* general.base_model.* general.tags "
     "general.languages general.datasets general.dataset.* general.parameter_count "
     "general.file_type general.quantization_version quantize.imatrix.*"},
    // the length of what is in another key; for training; of embeddings
    {"",
     "split.no split.tensors.count *.vocab_size *.rope.scaling.finetuned *.tensor_data_layout "
     "*.pooling_type "
     "tokenizer.ggml.token_type_count"},
    // which layers have experts, and how wide what they share is: the tensors say it
    {"", "*.leading_dense_block_count *.interleave_moe_layer_step"},
    {"ernie4_5-moe exaone-moe hunyuan-moe hy_v3 nemotron_h_moe qwen2moe", "*.expert_shared_count"},
    // of an architecture whose models may have no experts
    {"deepseek2",
     "*.expert_feed_forward_length *.expert_shared_count *.expert_weights_scale "
     "*.expert_weights_norm *.expert_gating_func"},
    {"granitehybrid", "*.expert_shared_feed_forward_length"},
    {"", "*.expert_group_used_count"},
    // of the other kind of norm; of RoPE's factors, where there are none
    {"nemotron", "*.attention.layer_norm_rms_epsilon"},
    {"phi3", "*.rope.scaling.original_context_length"},
    // a text has the same position in all sections
    {"qwen35 qwen35moe", "*.rope.dimension_sections"},
    // they turn nothing
    {"granitehybrid", "*.rope.freq_base *.rope.dimension_count"},
    {"nemotron_h nemotron_h_moe", "*.rope.*"},
    // tokens that only a chat program or an infilling one asks for
    {"",
     "tokenizer.ggml.unknown_token_id tokenizer.ggml.padding_token_id "
     "tokenizer.ggml.seperator_token_id tokenizer.ggml.cls_token_id "
     "tokenizer.ggml.mask_token_id tokenizer.ggml.fim_* tokenizer.ggml.prefix_token_id "
     "tokenizer.ggml.suffix_token_id tokenizer.ggml.middle_token_id "
     "tokenizer.huggingface.json"},
};

// Calls with each word between blanks until one answers true.
template <typename Answer>
bool AnyWord(std::string_view words, Answer answer) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (answer(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool Matches(std::string_view pattern, std::string_view key, std::string_view family) {
  if (pattern.starts_with("*.")) {
    if (!key.starts_with(family)) return false;
    key.remove_prefix(family.size());
    pattern.remove_prefix(1);
  }
  if (pattern.ends_with('*')) return key.starts_with(pattern.substr(0, pattern.size() - 1));
  return key == pattern;
}

bool IsInert(std::string_view key, std::string_view family) {
  return std::ranges::any_of(kTable, [&](const InertKeys& row) {
    const std::string_view families = row.families;
    return (families.empty() || AnyWord(families, [&](auto name) { return name == family; })) &&
           AnyWord(row.keys, [&](auto pattern) { return Matches(pattern, key, family); });
  });
}

}  // namespace

std::vector<std::string> WithoutInertKeys(std::vector<std::string> keys, std::string_view family) {
  std::erase_if(keys, [&](const std::string& key) { return IsInert(key, family); });
  return keys;
}

bool IsInertTensor(std::string_view name) {
  // GPT-2's causal masks and the value that they put in, RoPE's frequencies, XGLM's sines.
  constexpr std::string_view kEndings[] = {".attn.bias",           ".attn.masked_bias",
                                           ".attention.bias",      ".attention.masked_bias",
                                           ".rotary_emb.inv_freq", ".embed_positions.weights"};
  // Heads that predict further tokens, beside the model.
  if (name.starts_with("mtp.")) return true;
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return name.ends_with(ending) || name == ending.substr(1);
  });
}

}  // namespace ng
