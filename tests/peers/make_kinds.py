#!/usr/bin/env python3
"""Random models of each kind of layers, as folders: make_kinds.py DIR [NAME ...].

Needs torch and transformers (made with 5.23.0). bf16, 60 to 200 MB each. memory.py holds what ng-plan
predicts of them against what ng-run takes.
"""
import pathlib
import sys

import torch
from transformers import (AutoModelForCausalLM, DeepseekV3Config, Gemma3TextConfig, Gemma4TextConfig,
                          GptOssConfig, Lfm2Config, MistralConfig, Qwen3MoeConfig, Qwen3NextConfig)

SHAPE = dict(vocab_size=32000, hidden_size=512, intermediate_size=1536, num_hidden_layers=8,
             num_attention_heads=8, num_key_value_heads=4, head_dim=64,
             max_position_embeddings=32768, sliding_window=512)
TYPES = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 2
KINDS = {
    "windowed": MistralConfig(**SHAPE),
    "sandwich": Gemma3TextConfig(**SHAPE, layer_types=TYPES),
    "mixture": Qwen3MoeConfig(**SHAPE, num_experts=16, num_experts_per_tok=4,
                              moe_intermediate_size=384),
    "sinks": GptOssConfig(**SHAPE, num_local_experts=8, num_experts_per_tok=2, layer_types=TYPES),
    "convolution": Lfm2Config(**SHAPE, layer_types=["conv", "conv", "full_attention", "conv"] * 2),
    "delta": Qwen3NextConfig(**SHAPE, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=384,
                             shared_expert_intermediate_size=384, linear_num_key_heads=4,
                             linear_num_value_heads=8, linear_key_head_dim=64,
                             linear_value_head_dim=64,
                             layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 2),
    "latents": DeepseekV3Config(**(SHAPE | dict(num_key_value_heads=8, head_dim=32)), q_lora_rank=192,
                                kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32,
                                v_head_dim=64, n_routed_experts=16, num_experts_per_tok=4,
                                moe_intermediate_size=384, n_group=4, topk_group=2,
                                first_k_dense_replace=1),
    "inputs": Gemma4TextConfig(**SHAPE, global_head_dim=128, layer_types=TYPES,
                               num_kv_shared_layers=4, hidden_size_per_layer_input=64,
                               vocab_size_per_layer_input=32000),
}


def main():
    root = pathlib.Path(sys.argv[1])
    for name, config in KINDS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
        model.save_pretrained(root / f"kind-{name}")
        print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
