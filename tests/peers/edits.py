#!/usr/bin/env python3
"""Steering, ablation and patching by ng's probes against the same edits by hooks of transformers.

  edits.py NG_RUN [MODEL_DIR ...]     the small models of tests/data/golden by default

Needs torch, transformers and safetensors. Prints for each model and edit the largest difference of a
logit of the prompt, and how much the edit itself changed. Ends with 1 if a difference is above 1e-4.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
MODELS = [GOLDEN / "llama" / "tied_gqa", GOLDEN / "gpt2" / "tiny", GOLDEN / "qwen3" / "tiny"]
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
OTHER = [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4]
LIMIT = 1e-4


def ng_logits(ng_run, model, options, folder):
    out = folder / "logits"
    command = [ng_run, f"--model.path={model}", "--model.weights=f32", "--run.stop_ids=",
               "--sampler.chain=greedy", "--prompt-ids", " ".join(map(str, PROMPT)),
               "--run.max_new_tokens=1", "--save", str(out), "--save-tensors", "logits"]
    subprocess.run(command + options, check=True, capture_output=True)
    return load_file(out)["logits.0"]


class Hooked:
    """A model of transformers, its layers, and where the heads of a layer are put together."""

    def __init__(self, path):
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        inner = self.model.model if hasattr(self.model, "model") else self.model.transformer
        self.layers = inner.layers if hasattr(inner, "layers") else inner.h
        layer = self.layers[0]
        self.heads_of = ((lambda i: self.layers[i].self_attn.o_proj) if hasattr(layer, "self_attn")
                         else (lambda i: self.layers[i].attn.c_proj))

    def logits(self, ids, *hooks):
        with torch.no_grad():
            found = self.model(torch.tensor([ids])).logits[0]
        for hook in hooks:
            hook.remove()
        return found

    def edit_output(self, layer, edit):
        def hook(_module, _inputs, output):
            if isinstance(output, tuple):
                return (edit(output[0]),) + output[1:]
            return edit(output)
        return self.layers[layer].register_forward_hook(hook)

    def edit_heads(self, layer, edit):
        return self.heads_of(layer).register_forward_pre_hook(
            lambda _module, inputs: (edit(inputs[0]),) + inputs[1:])


def edits_of(hooked, folder):
    """For each edit: a name, ng's options, and the logits with the same edit by a hook."""
    config = hooked.model.config
    width, n_heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or width // n_heads
    vector = torch.randn(width, generator=torch.Generator().manual_seed(7))
    save_file({"v": vector}, folder / "v")
    yield ("steer", ["--probe.chain=steer", "--probe.steer.points=layer0.out",
                     f"--probe.steer.file={folder / 'v'}", "--probe.steer.coefficient=0.5",
                     "--probe.steer.positions=2..7"],
           lambda: hooked.edit_output(0, lambda x: x + 0.5 * vector * (
               (torch.arange(x.shape[1]) >= 2) & (torch.arange(x.shape[1]) <= 7))[:, None]))

    def zero_head(x):
        x = x.clone()
        x[..., head_dim:2 * head_dim] = 0
        return x
    yield ("ablate", ["--probe.chain=ablate", "--probe.ablate.points=layer1.attn_head",
                      "--probe.ablate.heads=1"], lambda: hooked.edit_heads(1, zero_head))

    kept = []

    def keep(x):
        kept.append(x.clone())
        return x
    hooked.logits(OTHER, hooked.edit_output(0, keep))
    save_file({"layer0.out.0": kept[0][0].contiguous()}, folder / "other")

    def take_rows(x):
        x = x.clone()
        x[:, :6] = kept[0][:, :6]
        return x
    yield ("patch", ["--probe.chain=patch", "--probe.patch.points=layer0.out",
                     f"--probe.patch.file={folder / 'other'}", "--probe.patch.positions=0..5"],
           lambda: hooked.edit_output(0, take_rows))


def main():
    ng_run, models = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]] or MODELS
    worst = 0.0
    for path in models:
        hooked = Hooked(path)
        plain = hooked.logits(PROMPT)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for edit, options, hook in edits_of(hooked, folder):
                expected = hooked.logits(PROMPT, hook())
                found = ng_logits(ng_run, path, options, folder)
                difference = (found - expected).abs().max().item()
                changed = (expected - plain).abs().max().item()
                worst = max(worst, difference)
                print(f"{path.parent.name}/{path.name:10} {edit:7} differs by {difference:.2e}, "
                      f"the edit changed {changed:.2e}")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
