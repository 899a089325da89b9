#!/usr/bin/env python3
"""Rows of points of a transformers model, for ng-diff --against-tensors: export_points.py MODEL OUT.

    tests/peers/export_points.py DIR points.safetensors --ids "3 1 4 1 5"
    build/bin/ng-diff --config a.ini --against-tensors points.safetensors

The model runs in f32 with eager attention, and forward hooks keep what its modules read and put
out. A tensor has the name of its point and the prompt's number, layer0.attn_in.0, and a row for each
token. Points that a family has no module for are left out: ng-diff compares those that there are.
"""
import argparse
import inspect
import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

# Modules of a layer by the names that families give them.
ATTENTION = ("self_attn", "attn", "attention", "self_attention")
MLP = ("mlp", "feed_forward", "block_sparse_moe")
OUT_MATRIX = ("o_proj", "c_proj", "dense", "out_proj")
DOWN_MATRIX = ("down_proj", "c_proj", "dense_4h_to_h", "fc2", "fc_out")
LAYERS = ("layers", "h", "blocks")
NORM = ("norm", "ln_f", "final_layernorm", "final_layer_norm")


def member(module, names):
    """The member of a module that has one of these names, or None."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def first(value):
    return value[0] if isinstance(value, tuple) else value


class Export:
    """Hooks of a model, and the rows that they have kept."""

    def __init__(self, model):
        self.rows = {}
        self.calls = []  # attention calls of a pass, in the order of the layers
        body = model.base_model
        self.layers = member(body, LAYERS)
        if self.layers is None:
            raise SystemExit(f"{type(body).__name__} has no list of layers under {LAYERS}")
        for index, layer in enumerate(self.layers):
            self.hook_layer(f"layer{index}.", layer)
        self.on_input("embed", self.layers[0])
        self.on_output("norm", member(body, NORM))
        self.on_output("logits", model.get_output_embeddings())

    def keep(self, name, value):
        """value: [1, tokens, ...]"""
        self.rows[name] = value.detach().to(torch.float32)[0].contiguous()

    def on_output(self, name, module):
        if module is not None:
            module.register_forward_hook(lambda m, given, out: self.keep(name, first(out)))

    def on_input(self, name, module):
        def hook(_, given, named):
            self.keep(name, given[0] if given else named["hidden_states"])
        if module is not None:
            module.register_forward_pre_hook(hook, with_kwargs=True)

    def hook_layer(self, prefix, layer):
        attention, mlp = member(layer, ATTENTION), member(layer, MLP)
        self.on_output(prefix + "out", layer)
        self.on_input(prefix + "attn_in", attention)
        self.on_output(prefix + "attn_out", attention)
        self.on_input(prefix + "attn_head", attention and member(attention, OUT_MATRIX))
        self.on_input(prefix + "mlp_in", mlp)
        self.on_output(prefix + "mlp_out", mlp)
        self.on_input(prefix + "mlp_act", mlp and member(mlp, DOWN_MATRIX))

    def watch_attention(self, model):
        """q, k and v as the attention function is handed them: [1, heads, tokens, head_dim]."""
        module = inspect.getmodule(type(model))
        plain = module.eager_attention_forward

        def eager_attention_forward(layer, query, key, value, *args, **kwargs):
            self.calls.append((query, key, value))
            return plain(layer, query, key, value, *args, **kwargs)

        module.eager_attention_forward = eager_attention_forward

    def take(self, prompt):
        for index, call in enumerate(self.calls):
            for name, value in zip("qkv", call):
                self.keep(f"layer{index}.{name}", value.transpose(1, 2))
        for index in range(len(self.layers)):
            name = f"layer{index}.attn_head"
            query = self.rows.get(f"layer{index}.q")
            if name in self.rows and query is not None and self.rows[name].dim() == 2:
                heads = query.shape[1]
                self.rows[name] = self.rows[name].reshape(len(query), heads, -1)
        taken = {f"{name}.{prompt}": rows.clone() for name, rows in self.rows.items()}
        self.rows.clear()
        self.calls.clear()
        return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a folder with config.json and safetensors")
    parser.add_argument("out", help="the safetensors file to write")
    parser.add_argument("--ids", action="append", required=True,
                        help="token ids of a prompt, separated by blanks; may be given several times")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = AutoConfig.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(
        args.model, config=config, dtype=torch.float32, attn_implementation="eager").eval()
    export = Export(model)
    export.watch_attention(model)
    tensors, metadata = {}, {"exporter": "transformers"}
    for prompt, text in enumerate(args.ids):
        ids = [int(word) for word in text.split()]
        with torch.no_grad():
            model(torch.tensor([ids]), use_cache=False)
        tensors |= export.take(prompt)
        metadata[f"tokens.{prompt}"] = json.dumps({"prompt_len": len(ids), "ids": ids})
    save_file(tensors, args.out, metadata=metadata)
    print(f"{args.out}: {len(tensors)} tensors", file=sys.stderr)


if __name__ == "__main__":
    main()
