"""Makes the cases mistral/{tiny,window}, qwen2/window, llama/{rope_linear,rope_llama3} and the tiny
ones of helium, olmo, starcoder2, gemma2, gemma3, granite, hunyuan, smollm3, olmo2, olmo3, phi3,
cohere, nemotron, gpt_neox, codegen, gpt_bigcode, openai-gpt, bloom, opt, qwen2_moe, qwen3_moe,
glm4_moe, granitemoeshared, gpt_oss, gpt_neo, xglm, mpt, falcon, nanochat, apertus, bitnet,
ministral3, afmoe, llama4, deepseek_v3, youtu, lfm2, qwen3_5, qwen3_next, granite_hybrid and
nemotron_h, and gemma4/{inputs,experts}, with transformers.

    python make_cases.py [DIR [NAME ...]]     # needs torch, transformers (made with 5.23.0), safetensors

Random weights, eager attention, float32. The ids are greedy, each step computed anew; the tolerance
is 30 times what float32 differs from float64, like that of the other cases.
"""

import json
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AfmoeConfig, ApertusConfig, BitNetConfig, BloomConfig, CodeGenConfig, CohereConfig,
    DeepseekV3Config, FalconConfig, Gemma2Config, Gemma3TextConfig, Gemma4TextConfig,
    GPTBigCodeConfig,
    Glm4MoeConfig, GPTNeoConfig, GPTNeoXConfig, GptOssConfig, GraniteConfig, GraniteMoeHybridConfig,
    GraniteMoeSharedConfig, HeliumConfig, HunYuanDenseV1Config, Lfm2Config, Llama4TextConfig,
    LlamaConfig, Ministral3Config, MistralConfig, MptConfig, NanoChatConfig, NemotronConfig,
    NemotronHConfig, Olmo2Config, Olmo3Config, OlmoConfig, OpenAIGPTConfig, OPTConfig, Phi3Config,
    Qwen2Config, Qwen2MoeConfig, Qwen3_5TextConfig, Qwen3MoeConfig, Qwen3NextConfig, SmolLM3Config,
    Starcoder2Config, XGLMConfig, YoutuConfig)
from transformers import AutoModelForCausalLM

SIZES = dict(
    vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
    pad_token_id=None, attn_implementation="eager")
SMALL = SIZES | dict(
    vocab_size=41, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
    num_key_value_heads=1)
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 48, "rope_theta": 10000.0}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
BIASES = dict(attention_bias=True, mlp_bias=True)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
        "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.2],
        "long_factor": [2.0, 4.0]}
BOTH = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0},
        "sliding_attention": DEFAULT}
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
             linear_value_head_dim=20, linear_conv_kernel_dim=4, head_dim=16,
             layer_types=["linear_attention", "full_attention", "linear_attention"],
             rope_parameters=DEFAULT | dict(partial_rotary_factor=0.25))
DELTA_MOE = DELTA | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=10,
                         shared_expert_intermediate_size=12)
GEMMA4 = SMALL | dict(num_hidden_layers=5, head_dim=8, global_head_dim=12, sliding_window=6,
              layer_types=["sliding_attention", "full_attention"] * 2 + ["full_attention"],
              vocab_size_per_layer_input=41, hidden_size_per_layer_input=0,
              final_logit_softcapping=4.0,
              rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 1000.0,
                                                  "partial_rotary_factor": 0.5},
                               "sliding_attention": DEFAULT})
TURNING = dict(rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 1000.0},
                                "sliding_attention": DEFAULT})
INPUTS = dict(hidden_size_per_layer_input=6, num_kv_shared_layers=2, use_double_wide_mlp=True)
EXPERTS = dict(enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=10,
               attention_k_eq_v=True, num_global_key_value_heads=2)
CONV = dict(layer_types=["conv", "full_attention", "conv"], block_multiple_of=8)
MAMBA = dict(mamba_n_heads=4, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, mamba_d_conv=3,
             layer_types=["mamba", "attention", "mamba"], shared_intermediate_size=20,
             num_local_experts=4, num_experts_per_tok=2)
NEMOTRON_H = SMALL | dict(
    hybrid_override_pattern="M-*EM", num_hidden_layers=5, head_dim=8, mamba_num_heads=4,
    mamba_head_dim=10, ssm_state_size=6, n_groups=2, conv_kernel=4, n_routed_experts=4,
    num_experts_per_tok=2, moe_intermediate_size=10, moe_shared_expert_intermediate_size=12)
GPT = dict(vocab_size=41, n_embd=16, n_layer=3, n_head=2, n_positions=64, bos_token_id=None,
           eos_token_id=None, attn_implementation="eager")
CODEGEN = GPT | dict(n_head=4, n_embd=32)
QWEN2_MOE = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
                 shared_expert_intermediate_size=12, mlp_only_layers=[1])
QWEN3_MOE = dict(num_experts=4, num_experts_per_tok=3, moe_intermediate_size=12, head_dim=8)
GLM4_MOE = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=10, n_group=4,
                topk_group=2, routed_scaling_factor=1.7, use_qk_norm=True, head_dim=8)
GRANITE_MOE = dict(num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=20)
FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
GPT_OSS = dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=6,
               layer_types=WINDOWS, swiglu_limit=0.5)


GPT_NEO = dict(vocab_size=41, hidden_size=16, num_layers=3, num_heads=2, max_position_embeddings=64,
               attention_types=[[["global", "local"], 1], [["local"], 1]], bos_token_id=None,
               eos_token_id=None, attn_implementation="eager")
XGLM = dict(vocab_size=41, d_model=16, ffn_dim=24, num_layers=2, attention_heads=2,
            max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None,
            attn_implementation="eager")
MPT = dict(vocab_size=41, d_model=24, n_heads=3, n_layers=2, max_seq_len=64,
           attn_implementation="eager")
FALCON = dict(vocab_size=41, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
              num_kv_heads=2, new_decoder_architecture=True, max_position_embeddings=64,
              bos_token_id=None, eos_token_id=None, attn_implementation="eager")
MINISTRAL3 = dict(head_dim=8, sliding_window=None)
WARM = YARN | dict(original_max_position_embeddings=4, llama_4_scaling_beta=0.5)
AFMOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, num_shared_experts=1,
             num_dense_layers=1, head_dim=8, layer_types=WINDOWS, sliding_window=6)
LLAMA4 = dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size_mlp=20, head_dim=8,
              moe_layers=[1, 2], no_rope_layers=[1, 0, 1], floor_scale=4)
LATENTS = SMALL | dict(
    num_key_value_heads=2, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4,
    v_head_dim=6, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
    moe_intermediate_size=10, first_k_dense_replace=1)
YOUTU = dict(num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4,
             v_head_dim=8)


def with_rope(config_class, rope, **more):
    return config_class(**SIZES, head_dim=16, rope_parameters=rope, **more)


def small(config_class, **more):
    return config_class(**SMALL, **({"rope_parameters": DEFAULT} | more))


def with_window(config_class, window, **more):
    return config_class(**SMALL, rope_parameters=DEFAULT, sliding_window=window, **more)


# name: description, config, the same with a convention broken, config.json in transformers 4 form
CASES = {
    "mistral/tiny": (
        "grouped queries, head_dim of its own, a sliding window that the run just fits",
        with_rope(MistralConfig, DEFAULT, sliding_window=28),
        {"window": with_rope(MistralConfig, DEFAULT, sliding_window=12)}, False),
    "llama/rope_linear": (
        "rope scaling linear, biases everywhere",
        with_rope(LlamaConfig, LINEAR, **BIASES),
        {"scaling": with_rope(LlamaConfig, DEFAULT, **BIASES)}, False),
    "llama/rope_llama3": (
        "rope scaling llama3: pairs that keep, blend and stretch their frequency",
        with_rope(LlamaConfig, LLAMA3), {"scaling": with_rope(LlamaConfig, DEFAULT)}, True),
    "mistral/window": (
        "a run that goes beyond the sliding window",
        with_window(MistralConfig, 6), {"window": with_window(MistralConfig, None)}, False),
    "qwen2/window": (
        "a run that goes beyond the sliding window, which only the layers from the second on have",
        with_window(Qwen2Config, 6, use_sliding_window=True, max_window_layers=1),
        {"window": with_window(Qwen2Config, None),
         "layers": with_window(Qwen2Config, 6, use_sliding_window=True, max_window_layers=0)},
        False),
    "helium/tiny": (
        "neighbouring dimensions rotate together, biases of q, k and v but not behind attention",
        small(HeliumConfig, head_dim=8, attention_bias=True),
        {"eps": small(HeliumConfig, head_dim=8, attention_bias=True, rms_norm_eps=0.1)}, False),
    "olmo/tiny": (
        "LayerNorm without weights before each block and before the head",
        small(OlmoConfig), {"clip": small(OlmoConfig, clip_qkv=0.5)}, False),
    "starcoder2/tiny": (
        "LayerNorm, RoPE, grouped queries and a feed-forward layer without a gate",
        small(Starcoder2Config, hidden_act="gelu_pytorch_tanh"),
        {"activation": small(Starcoder2Config, hidden_act="relu")}, False),
    "gemma2/tiny": (
        "norms before and after each block with weights + 1, a gated GELU, caps, windows by layer",
        small(Gemma2Config, head_dim=8, sliding_window=6, attn_logit_softcapping=4.0,
              final_logit_softcapping=5.0, query_pre_attn_scalar=5),
        {"window": small(Gemma2Config, head_dim=8, sliding_window=64, attn_logit_softcapping=4.0,
                         final_logit_softcapping=5.0, query_pre_attn_scalar=5),
         "caps": small(Gemma2Config, head_dim=8, sliding_window=6, query_pre_attn_scalar=5)},
        False),
    "gemma3/tiny": (
        "two tables of RoPE, by the kind of layer; norms of the heads of q and k with weights + 1",
        small(Gemma3TextConfig, head_dim=8, sliding_window=6, layer_types=WINDOWS,
              rope_parameters=BOTH),
        {"rope": small(Gemma3TextConfig, head_dim=8, sliding_window=6, layer_types=WINDOWS,
                       rope_parameters=BOTH | {"full_attention": DEFAULT})}, False),
    "granite/tiny": (
        "factors of the embedding, the blocks, the scores and the logits",
        small(GraniteConfig, embedding_multiplier=3.0, residual_multiplier=0.4,
              attention_multiplier=0.2, logits_scaling=2.5),
        {"factors": small(GraniteConfig)}, False),
    "hunyuan/tiny": (
        "norms of the heads of q and k behind RoPE",
        small(HunYuanDenseV1Config, head_dim=8),
        {"eps": small(HunYuanDenseV1Config, head_dim=8, rms_norm_eps=0.1)}, False),
    "smollm3/tiny": (
        "a layer that does not rotate", small(SmolLM3Config, no_rope_layers=[1, 0, 1]),
        {"rope": small(SmolLM3Config, no_rope_layers=[1, 1, 1])}, False),
    "olmo2/tiny": (
        "norms after each block, and one of all heads of q and of k",
        small(Olmo2Config), {"eps": small(Olmo2Config, rms_norm_eps=0.1)}, False),
    "olmo3/tiny": (
        "yarn in the layers that see all keys, plain RoPE in those with a window",
        small(Olmo3Config, sliding_window=6, layer_types=WINDOWS,
              rope_parameters=BOTH | {"full_attention": YARN}),
        {"yarn": small(Olmo3Config, sliding_window=6, layer_types=WINDOWS, rope_parameters=BOTH)},
        False),
    "phi3/tiny": (
        "q, k and v in one tensor, gate and up in another, half of a head turns, longrope",
        small(Phi3Config, rope_parameters=LONG, partial_rotary_factor=0.5,
              original_max_position_embeddings=32),
        {"factors": small(Phi3Config, partial_rotary_factor=0.5)}, False),
    "cohere/tiny": (
        "blocks in parallel, LayerNorm of each head with weights of its own, scaled logits",
        small(CohereConfig, use_qk_norm=True, logit_scale=0.4),
        {"scale": small(CohereConfig, use_qk_norm=True)}, False),
    "nemotron/tiny": (
        "squared ReLU, LayerNorm with weights + 1, half of a head turns",
        small(NemotronConfig, head_dim=8),
        {"activation": small(NemotronConfig, head_dim=8, hidden_act="relu")}, False),
    "gpt_neox/tiny": (
        "blocks in parallel with a norm each, q, k and v of each head together",
        small(GPTNeoXConfig, rotary_pct=0.5),
        {"parallel": small(GPTNeoXConfig, rotary_pct=0.5, use_parallel_residual=False)}, False),
    "codegen/tiny": (
        "q, v and k in quarters, part of a head turns, blocks in parallel, a bias of the head",
        CodeGenConfig(**CODEGEN, rotary_dim=4), {"rope": CodeGenConfig(**CODEGEN, rotary_dim=8)},
        False),
    "gpt_bigcode/tiny": (
        "learned positions and one kv head", GPTBigCodeConfig(**GPT),
        {"eps": GPTBigCodeConfig(**GPT, layer_norm_epsilon=0.1)}, False),
    "openai-gpt/tiny": (
        "norms of the stream behind each block, none before the head", OpenAIGPTConfig(**GPT),
        {"eps": OpenAIGPTConfig(**GPT, layer_norm_epsilon=0.1)}, False),
    "bloom/tiny": (
        "slopes for positions, a number of heads that is no power of two, a norm of the embedding",
        BloomConfig(vocab_size=41, hidden_size=24, n_layer=2, n_head=3, bos_token_id=None,
                    eos_token_id=None, pad_token_id=None, attn_implementation="eager"),
        {"eps": BloomConfig(vocab_size=41, hidden_size=24, n_layer=2, n_head=3, bos_token_id=None,
                            eos_token_id=None, pad_token_id=None, layer_norm_epsilon=0.1,
                            attn_implementation="eager")}, False),
    "opt/tiny": (
        "ReLU, learned positions that begin at the tensor's third row",
        OPTConfig(vocab_size=41, hidden_size=16, ffn_dim=24, num_hidden_layers=2,
                  num_attention_heads=2, max_position_embeddings=64, word_embed_proj_dim=16,
                  bos_token_id=None, eos_token_id=None, pad_token_id=None,
                  attn_implementation="eager"),
        {"activation": OPTConfig(vocab_size=41, hidden_size=16, ffn_dim=24, num_hidden_layers=2,
                                 num_attention_heads=2, max_position_embeddings=64,
                                 word_embed_proj_dim=16, activation_function="gelu",
                                 bos_token_id=None, eos_token_id=None, pad_token_id=None,
                                 attn_implementation="eager")}, False),
    "qwen2_moe/tiny": (
        "experts by softmax, one for all rows with a weight of its own, a layer without experts",
        small(Qwen2MoeConfig, **QWEN2_MOE),
        {"sum": small(Qwen2MoeConfig, **QWEN2_MOE, norm_topk_prob=True)}, False),
    "qwen3_moe/tiny": (
        "experts whose weights add up to 1, those of a layer in one tensor",
        small(Qwen3MoeConfig, **QWEN3_MOE, norm_topk_prob=True),
        {"sum": small(Qwen3MoeConfig, **QWEN3_MOE)}, False),
    "glm4_moe/tiny": (
        "experts by sigmoid, chosen with biases in groups, one for all rows, a first layer without",
        small(Glm4MoeConfig, **GLM4_MOE),
        {"groups": small(Glm4MoeConfig, **(GLM4_MOE | dict(n_group=1, topk_group=1)))}, False),
    "granitemoeshared/tiny": (
        "experts by the softmax of the chosen, beside a feed-forward with gate and up in one",
        small(GraniteMoeSharedConfig, **GRANITE_MOE, attention_multiplier=0.3),
        {"used": small(GraniteMoeSharedConfig, **(GRANITE_MOE | dict(num_experts_per_tok=1)),
                       attention_multiplier=0.3)}, False),
    "gpt_oss/tiny": (
        "sinks, windows by layer, yarn, experts with biases whose gate and up are clamped",
        small(GptOssConfig, **GPT_OSS, rope_parameters=YARN | dict(truncate=False)),
        {"limit": small(GptOssConfig, **(GPT_OSS | dict(swiglu_limit=7.0)),
                        rope_parameters=YARN | dict(truncate=False)),
         "window": small(GptOssConfig, **(GPT_OSS | dict(sliding_window=64)),
                         rope_parameters=YARN | dict(truncate=False))}, False),
    "gpt_oss/mxfp4": (
        "experts of 4 bits with a power of two for each 32",
        GptOssConfig(**(SMALL | GPT_OSS | dict(hidden_size=32, intermediate_size=32,
                                               num_hidden_layers=1, layer_types=WINDOWS[:1])),
                     rope_parameters=YARN, quantization_config={"quant_method": "mxfp4"}),
        {"experts": GptOssConfig(**(SMALL | GPT_OSS | dict(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, layer_types=WINDOWS[:1])),
            rope_parameters=YARN)}, False),
    "gpt_neo/tiny": (
        "windows in the layers that are called local, scores that are not scaled",
        GPTNeoConfig(**GPT_NEO, window_size=6),
        {"window": GPTNeoConfig(**GPT_NEO, window_size=64)}, False),
    "xglm/tiny": (
        "positions of sines, an embedding times the root of the width",
        XGLMConfig(**XGLM), {"scale": XGLMConfig(**XGLM, scale_embedding=False)}, False),
    "mpt/tiny": (
        "slopes for positions, q, k and v clipped, a scale of the scores",
        MptConfig(**MPT, attn_config=dict(clip_qkv=0.6, softmax_scale=0.3)),
        {"clip": MptConfig(**MPT, attn_config=dict(softmax_scale=0.3)),
         "scale": MptConfig(**MPT, attn_config=dict(clip_qkv=0.6))}, False),
    "falcon/grouped": (
        "blocks in parallel with a norm each, q, k and v of each group of heads together",
        FalconConfig(**FALCON), {"eps": FalconConfig(**FALCON, layer_norm_epsilon=0.1)}, False),
    "nanochat/tiny": (
        "RoPE that turns backwards, norms without weights, capped logits",
        small(NanoChatConfig, final_logit_softcapping=5.0), {"cap": small(NanoChatConfig)}, False),
    "apertus/tiny": (
        "xIELU, whose values each layer has", small(ApertusConfig),
        {"eps": small(ApertusConfig, rms_norm_eps=0.1)}, False),
    "bitnet/tiny": (
        "norms before the second matrix of each block", small(BitNetConfig),
        {"eps": small(BitNetConfig, rms_norm_eps=0.1)}, False),
    "ministral3/tiny": (
        "queries whose temperature grows with the position",
        small(Ministral3Config, **MINISTRAL3, rope_parameters=WARM),
        {"temperature": small(Ministral3Config, **MINISTRAL3,
                              rope_parameters=WARM | dict(llama_4_scaling_beta=0.1))}, False),
    "afmoe/tiny": (
        "attention times a gate, experts by sigmoid, RoPE only where there is a window",
        small(AfmoeConfig, **AFMOE, mup_enabled=True), {"scale": small(AfmoeConfig, **AFMOE)},
        False),
    "llama4/tiny": (
        "chunks of keys, temperature where nothing turns, experts that weigh what they read",
        small(Llama4TextConfig, **LLAMA4, attention_chunk_size=6),
        {"chunks": small(Llama4TextConfig, **LLAMA4, attention_chunk_size=64),
         "temperature": small(Llama4TextConfig, **LLAMA4, attention_chunk_size=6,
                              attn_temperature_tuning=False)}, False),
    "deepseek_v3/tiny": (
        "latents of q and of k and v, part of a head turns, yarn with a scale of the scores",
        DeepseekV3Config(**LATENTS, rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.9)),
        {"scale": DeepseekV3Config(**LATENTS, rope_parameters=YARN)}, False),
    "youtu/tiny": (
        "latents of k and v alone, halves that turn, a tied head",
        YoutuConfig(**(SMALL | YOUTU), rope_parameters=DEFAULT, rope_interleave=False),
        {"halves": YoutuConfig(**(SMALL | YOUTU), rope_parameters=DEFAULT)}, False),
    "lfm2/tiny": (
        "short convolutions between two gates in place of attention",
        small(Lfm2Config, **CONV, conv_bias=True),
        {"types": small(Lfm2Config, **(CONV | dict(layer_types=["full_attention"] * 3)))}, False),
    "qwen3_5/tiny": (
        "the gated delta rule in two layers; attention times a gate, a quarter of a head turns",
        Qwen3_5TextConfig(**(SMALL | DELTA), tie_word_embeddings=True),
        {"rope": Qwen3_5TextConfig(**(SMALL | DELTA | dict(rope_parameters=DEFAULT)),
                                   tie_word_embeddings=True)}, False),
    "qwen3_next/tiny": (
        "the same with q, k, v and gate of each group of heads together, and experts",
        Qwen3NextConfig(**(SMALL | DELTA_MOE), norm_topk_prob=False),
        {"weights": Qwen3NextConfig(**(SMALL | DELTA_MOE))}, False),
    "granite_hybrid/tiny": (
        "Mamba 2 in two layers, experts and a feed-forward for all rows, no positions",
        small(GraniteMoeHybridConfig, **MAMBA, residual_multiplier=0.5),
        {"rope": small(GraniteMoeHybridConfig, **MAMBA, residual_multiplier=0.5,
                       position_embedding_type="rope")}, False),
    "nemotron_h/tiny": (
        "layers of one block each: Mamba 2 with groups, attention, a feed-forward, experts",
        NemotronHConfig(**NEMOTRON_H),
        {"step": NemotronHConfig(**NEMOTRON_H, time_step_min=0.7)}, False),
    "gemma4/inputs": (
        "layers with heads of two sizes, the last two read the keys of others, each gets an input",
        Gemma4TextConfig(**(GEMMA4 | INPUTS)),
        {"turning": Gemma4TextConfig(**(GEMMA4 | INPUTS | TURNING))}, False),
    "gemma4/experts": (
        "experts beside a feed-forward, with norms of their own; values made of keys",
        Gemma4TextConfig(**(GEMMA4 | EXPERTS)),
        {"turning": Gemma4TextConfig(**(GEMMA4 | EXPERTS | TURNING))}, False),
}
PROMPTS = [5, 16]  # tokens
NEW_TOKENS = 12


# [experts, inputs, outputs] as OpenAI's files have it: blocks [experts, outputs, n, 16] of values of
# 4 bits, scales [experts, outputs, n] of 32 inputs each; and what these say.
def mxfp4(weight):
    groups = weight.transpose(1, 2).unflatten(-1, (-1, 32))
    power = groups.abs().amax(-1, keepdim=True).log2().floor() - 2
    value = groups / 2 ** power
    index = (value.abs()[..., None] - FP4).abs().argmin(-1)
    sign = (value < 0).long()
    code = (index + 8 * sign).to(torch.uint8)
    blocks = code[..., 0::2] | code[..., 1::2] << 4
    read = (FP4[index] * (1 - 2 * sign) * 2 ** power).flatten(2).transpose(1, 2)
    return blocks, (power[..., 0] + 127).to(torch.uint8), read


def is_mxfp4(config, name):
    return hasattr(config, "quantization_config") and name.endswith(("gate_up_proj", "down_proj"))


def model_of(config, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, experts_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.3 if name.endswith("bias") else 0.2
            weight.copy_(torch.randn(weight.shape) * spread + (1.0 if "norm" in name else 0.0))
            if is_mxfp4(config, name):
                weight.copy_(mxfp4(weight)[2])
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "expert_bias")):
                buffer.copy_(torch.randn(buffer.shape) * 0.2)
            if name.endswith("layer_scalar"):
                buffer.copy_(torch.rand(buffer.shape) + 0.5)
    return model


# Of layers without attention there are none.
def attention_layers(config):
    types = getattr(config, "layer_types", None) or ["attention"] * config.num_hidden_layers
    attend = [i for i, kind in enumerate(types) if kind.endswith("attention") and "linear" not in kind]
    return attend


def run(model, ids):
    torch.set_default_dtype(model.dtype)  # XGLM makes a number of its own
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
    torch.set_default_dtype(torch.float32)
    return out.logits[0], [layer[0] for layer in out.attentions]


def greedy(model, prompt):
    ids, rows = list(prompt), []
    for _ in range(NEW_TOKENS):
        rows.append(run(model, ids)[0][-1])
        ids.append(int(rows[-1].argmax()))
    return ids, torch.stack(rows)


def older_form(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.44.2"


# Experts are in a tensor each where save_pretrained takes them apart, but those of qwen3_moe.
def weights_of(model):
    weights = {k: v.contiguous() for k, v in model.state_dict().items()}
    if not any("experts" in k for k in weights) or model.config.model_type == "qwen3_moe":
        return weights
    if hasattr(model.config, "quantization_config"):
        for name in [k for k in weights if is_mxfp4(model.config, k)]:
            blocks, scales, _ = mxfp4(weights.pop(name))
            weights |= {f"{name}_blocks": blocks.contiguous(), f"{name}_scales": scales}
        return weights
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def make(folder, seed, description, config, broken, older):
    folder.mkdir(parents=True, exist_ok=True)
    model = model_of(config, seed)
    prompts = [torch.randint(config.vocab_size, (n,)).tolist() for n in PROMPTS]
    expected, all_ids, error, margin = {}, [], 0.0, 1e9
    wrong = dict.fromkeys(broken, 0.0)
    double = model_of(config, seed).double()
    for i, prompt in enumerate(prompts):
        ids, rows = greedy(model, prompt)
        all_ids.append(ids)
        logits, _ = run(model, prompt)
        full, attention = run(model, ids)
        expected[f"logits.{i}"] = logits
        expected[f"decode_logits.{i}"] = rows
        for layer, probs in zip(attention_layers(config), attention, strict=True):
            expected[f"attn_full.{i}.layer{layer}"] = probs
            expected[f"attn_row_prefill.{i}.layer{layer}"] = probs[:, len(prompt) - 1, :len(prompt)]
            for step in range(NEW_TOKENS - 1):
                pos = len(prompt) + step
                name = f"attn_row_decode.{i}.layer{layer}.step{step}"
                expected[name] = probs[:, pos, :pos + 1]
        error = max(error, float((run(double, ids)[0] - full).abs().max()))
        top = rows.topk(2).values
        margin = min(margin, float((top[:, 0] - top[:, 1]).min()))
        for name, other in broken.items():
            moved = (run(model_of(other, seed), ids)[0] - full).abs().max()
            wrong[name] = max(wrong[name], float(moved))
    tolerance = 30 * error
    assert margin > 1e-3 and min(wrong.values()) > tolerance, (margin, wrong, tolerance)

    weights = weights_of(model)
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    elif config.model_type == "gpt_neox":  # as save_pretrained calls it
        weights["embed_out.weight"] = weights.pop("lm_head.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")
    written = config.to_dict() | {"architectures": [type(model).__name__], "dtype": "float32"}
    if older:
        older_form(written)
    (folder / "config.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
    case = {
        "description": description,
        "source": f"make_cases.py, seed {seed}",
        "prompts": prompts, "max_new_tokens": NEW_TOKENS, "eot_token_id": None,
        "greedy_ids": all_ids,
        "tolerance": {"logits_max_abs": tolerance, "attn_max_abs": 2e-5},
        "measured": {"fp32_vs_fp64_max_abs": error, "min_top1_top2_margin": margin,
                     "wrong_convention_max_abs": wrong},
    }
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(folder.name, case["measured"], "tolerance", tolerance)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root.parent if root.is_file() else root
    for seed, (name, (description, config, broken, older)) in enumerate(CASES.items()):
        if name in sys.argv[2:] or not sys.argv[2:]:
            make(root / name, seed, description, config, broken, older)


if __name__ == "__main__":
    main()
