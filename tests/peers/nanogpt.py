#!/usr/bin/env python3
"""Generation with and without a cache, at the size of nanoGPT's character model: nanogpt.py.

Four layers, four heads, width 128, context 128, a vocabulary of 65: 0.8M parameters, random. The
same weights generate uncached in torch, as nanoGPT does, and in ng with and without its cache, in
turn, from a prompt of one token. nanoGPT goes on beyond the context by cropping the ids to the last
128; ng's run.on_full = recompute does the same.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
CONTEXT = 128
CONFIG = {"model_type": "nanogpt", "block_size": CONTEXT, "vocab_size": 65, "n_layer": 4,
          "n_head": 4, "n_embd": 128, "bias": False, "dropout": 0.0}
LENGTHS = (10, 50, 127, 200)  # new tokens; 127 fill the context
MEASURED_BEFORE = {10: 1.2, 50: 1.8, 127: 2.5, 200: 2.5}  # nanoGPT's own cache, as published
GOALS = {"ng uncached": 8, "nanoGPT uncached": 50}  # ng cached, at 127 new tokens


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm and around a residual."""

    def __init__(self, config):
        super().__init__()
        self.n_head, width, bias = config["n_head"], config["n_embd"], config["bias"]
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width, bias=bias),
                                   "c_proj": nn.Linear(width, width, bias=bias)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width, bias=bias),
                                  "c_proj": nn.Linear(4 * width, width, bias=bias)})

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.n_head, -1).transpose(1, 2)
                   for part in self.attn["c_attn"](self.ln_1(x)).split(width, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        attended = attended.transpose(1, 2).reshape(batch, length, width)
        x = x + self.attn["c_proj"](attended)
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class NanoGpt(nn.Module):
    """nanoGPT's decoder: learned positions, a head tied to the embedding."""

    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.context = config["block_size"]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config["vocab_size"], width),
            "wpe": nn.Embedding(self.context, width),
            "h": nn.ModuleList(Block(config) for _ in range(config["n_layer"])),
            "ln_f": nn.LayerNorm(width, bias=config["bias"]),
        })
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        for block in parts["h"]:
            x = block(x)
        return functional.linear(parts["ln_f"](x[:, [-1], :]), parts["wte"].weight)

    @torch.no_grad()
    def generate(self, ids, n_new, choose):
        """One token after another, each from all ids before it, as far as the context goes."""
        for _ in range(n_new):
            logits = self(ids[:, -self.context:])[:, -1, :]
            ids = torch.cat((ids, choose(logits)), dim=1)
        return ids


def draw(logits):
    """A token by its probability."""
    return torch.multinomial(functional.softmax(logits, dim=-1), num_samples=1)


def save(model, folder):
    """The folder that ng reads."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
              folder / "model.safetensors")


def torch_seconds(model, n_new, threads):
    """nanoGPT's time, the second of two."""
    torch.set_num_threads(threads)
    for _ in range(2):
        start = time.perf_counter()
        model.generate(torch.ones((1, 1), dtype=torch.long), n_new, draw)
        seconds = time.perf_counter() - start
    return seconds


def ng_seconds(folder, n_new, use_cache, args):
    """ng's time without loading, the median of a few prompts after the first; None if refused."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text('{"prompt_ids": [1]}\n' * 4)
    on_full = ["--run.on_full=recompute"] if 1 + n_new > CONTEXT else []
    run = subprocess.run(
        [args.ng_run, f"--model.path={folder}", "--prompts", prompts, "--output=jsonl",
         f"--run.max_new_tokens={n_new}", f"--run.use_cache={str(use_cache).lower()}",
         f"--run.threads={args.threads}", "--cache.max_sequences=1",
         "--sampler.chain=temperature", "--sampler.temperature.value=1", *on_full],
        capture_output=True, text=True, check=False)
    if run.returncode:
        print(run.stderr.strip(), file=sys.stderr)
        return None
    timings = [json.loads(line)["timings"] for line in run.stdout.splitlines()]
    return statistics.median(t["prefill_s"] + t["decode_s"] for t in timings[1:])


def measure(model, folder, args):
    """Rounds of all three in turn: {who: {length: median seconds or None}}."""
    engines = {
        "ng cached": lambda n: ng_seconds(folder, n, True, args),
        "ng uncached": lambda n: ng_seconds(folder, n, False, args),
        "nanoGPT uncached": lambda n: min(torch_seconds(model, n, t) for t in {1, args.threads}),
    }
    rounds = {who: {n: [] for n in LENGTHS} for who in engines}
    for _ in range(args.rounds):
        for n_new in LENGTHS:
            for who, seconds in engines.items():
                rounds[who][n_new].append(seconds(n_new))
    return {who: {n: None if None in times else statistics.median(times)
                  for n, times in by_length.items()} for who, by_length in rounds.items()}


def print_table(seconds):
    """Times and speed-ups by length as markdown."""
    print("| new tokens | nanoGPT uncached | ng uncached | ng cached "
          "| nanoGPT / ng cached | ng uncached / cached | nanoGPT's own cache, published |")
    print("|---|---|---|---|---|---|---|")
    for n_new in LENGTHS:
        plain, full, cached = (seconds[who][n_new]
                               for who in ("nanoGPT uncached", "ng uncached", "ng cached"))
        times = ["-" if s is None else f"{1e3 * s:.2f} ms" for s in (plain, full, cached)]
        ratios = ["-" if cached is None or s is None else f"{s / cached:.1f}x"
                  for s in (plain, full)]
        print(f"| {n_new} | {' | '.join(times + ratios)} | {MEASURED_BEFORE[n_new]}x |")
    print(f"\nGoals at {CONTEXT - 1}: nanoGPT / ng cached {GOALS['nanoGPT uncached']}x, "
          f"ng uncached / cached {GOALS['ng uncached']}x.")


def main():
    """Makes the model, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ng-run", default=HERE.parents[1] / "build/bin/ng-run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of ng; torch has the better of "
                        "this and 1")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = NanoGpt(CONFIG).eval()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        save(model, folder)
        print_table(measure(model, folder, args))


if __name__ == "__main__":
    main()
