#!/usr/bin/env python3
"""ng against llama.cpp on the same GGUF files, of models of many kinds: kinds.py DIR [--kinds NAME,...].

The files are made in DIR where they are not there yet: published shapes, random weights. All layers
of a file hold the same values, for only speed is looked at. Each round starts ng-bench and llama.cpp
(peers.py) once, one after the other; the ratios are of the medians over the rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import gguf
import numpy

HERE = pathlib.Path(__file__).resolve().parent
RMS = {"attention.layer_norm_rms_epsilon": 1e-6}
BLOCK = {"q8_0": (32, 34), "q4_0": (32, 18), "q4_K": (256, 144), "q6_K": (256, 210), "mxfp4": (32, 17)}
SMALL = 0.01  # the factor of each block's values


def attention(width, heads, kv_heads, head_dim, more=()):
    """The tensors of an attention block: [outputs, inputs], or the length of a vector."""
    return {"attn_norm": [width], "attn_q": [heads * head_dim, width], "attn_k": [kv_heads * head_dim, width],
            "attn_v": [kv_heads * head_dim, width], "attn_output": [width, heads * head_dim], **{name: [head_dim] for name in more}}


def feed_forward(width, inner, norm="ffn_norm"):
    return {norm: [width], "ffn_gate": [inner, width], "ffn_up": [inner, width], "ffn_down": [width, inner]}


def experts(width, inner, count, norm="ffn_norm"):
    return {norm: [width], "ffn_gate_inp": [count, width], "ffn_gate_exps": [count, inner, width],
            "ffn_up_exps": [count, inner, width], "ffn_down_exps": [count, width, inner]}


def biases(tensors, names):
    return {**tensors, **{name + ".bias": tensors[name][:-1] for name in names}}


QK_NORM = ("attn_q_norm", "attn_k_norm")
AROUND = {"post_attention_norm": [1152], "post_ffw_norm": [1152]}
DELTA = {"attn_norm": [1024], "attn_qkv": [6144, 1024], "attn_gate": [2048, 1024], "ssm_beta": [16, 1024], "ssm_alpha": [16, 1024], "ssm_conv1d": [6144, 4],
         "ssm_a": [16], "ssm_dt.bias": [16], "ssm_norm": [128], "ssm_out": [1024, 2048], **feed_forward(1024, 3584, "post_attention_norm")}
GATED = {**attention(1024, 8, 2, 256, QK_NORM), "attn_q": [4096, 1024], **feed_forward(1024, 3584, "post_attention_norm")}
CONVOLUTION = {"attn_norm": [1024], "shortconv.in_proj": [3072, 1024], "shortconv.conv": [1024, 3], "shortconv.out_proj": [1024, 1024], **feed_forward(1024, 4608)}
ATTENDS = {2, 5, 8, 10, 12, 14}  # of LFM2's layers
GPT_OSS = {**attention(2880, 64, 8, 64), **experts(2880, 2880, 32, "post_attention_norm")}


class Kind:
    """A model: its keys, and what the tensors of each layer are."""

    def __init__(self, architecture, sizes, keys, layer, weights, model=None):
        self.architecture, self.layer, self.weights = architecture, layer, weights
        self.rows, self.width, self.n_layers, heads, kv_heads, inner = sizes
        self.keys = {"vocab_size": self.rows, "context_length": 32768, "embedding_length": self.width, "block_count": self.n_layers,
                     "attention.head_count": heads, "attention.head_count_kv": kv_heads, "feed_forward_length": inner, **RMS, **keys}
        self.model = {"token_embd": [self.rows, self.width], "output_norm": [self.width], **(model or {})}


def heads_of(size):
    return {"attention.key_length": size, "attention.value_length": size}


QUANTS = ("q8_0", "q4_K")
KINDS = {
    "qwen3-0.6b": Kind("qwen3", (151936, 1024, 28, 16, 8, 3072), {**heads_of(128), "rope.freq_base": 1e6},
                       lambda _: {**attention(1024, 16, 8, 128, QK_NORM), **feed_forward(1024, 3072)}, QUANTS),
    "gemma3-1b": Kind("gemma3", (262144, 1152, 26, 4, 1, 6912), {**heads_of(256), "rope.freq_base": 1e6, "attention.sliding_window": 512},
                      lambda _: {**attention(1152, 4, 1, 256, QK_NORM), **feed_forward(1152, 6912), **AROUND}, ("q8_0", "q4_0")),
    "mixture": Kind("qwen3moe", (32000, 2048, 16, 16, 4, 1024), {**heads_of(128), "rope.freq_base": 1e6, "expert_count": 64, "expert_used_count": 8, "expert_feed_forward_length": 1024},
                    lambda _: {**attention(2048, 16, 4, 128, QK_NORM), **experts(2048, 1024, 64)}, QUANTS, {"output": [32000, 2048]}),
    "gpt-oss": Kind("gpt-oss", (201088, 2880, 8, 64, 8, 2880), {**heads_of(64), "rope.freq_base": 150000.0, "attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4, "expert_feed_forward_length": 2880},
                    lambda _: {**biases(GPT_OSS, [name for name in GPT_OSS if "norm" not in name]), "attn_sinks": [64]}, ("mxfp4",), {"output": [201088, 2880]}),
    "qwen3.5": Kind("qwen35", (151936, 1024, 24, 8, 2, 3584), {**heads_of(256), "rope.freq_base": 1e7, "rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0], "full_attention_interval": 4,
                                                              "ssm.conv_kernel": 4, "ssm.group_count": 16, "ssm.time_step_rank": 16, "ssm.state_size": 128, "ssm.inner_size": 2048},
                    lambda i: DELTA if (i + 1) % 4 else GATED, QUANTS),
    "lfm2": Kind("lfm2", (65536, 1024, 16, 16, [8 if i in ATTENDS else 0 for i in range(16)], 4608), {"rope.freq_base": 1e6, "shortconv.l_cache": 3},
                 lambda i: {**attention(1024, 16, 8, 64, QK_NORM), **feed_forward(1024, 4608)} if i in ATTENDS else CONVOLUTION, QUANTS, {"output_norm": None, "token_embd_norm": [1024]}),
}


def type_of(name, shape, weights):
    """The type of a tensor: vectors, routers and convolutions in F32; MXFP4 of experts alone."""
    if len(shape) == 1 or name.endswith(".bias") or name in ("ffn_gate_inp", "ssm_conv1d", "shortconv.conv"):
        return "f32"
    if weights == "mxfp4" and "exps" not in name:
        return "q8_0"
    if weights == "q4_K" and (name in ("token_embd", "output") or shape[-1] % 256):
        return "q6_K" if shape[-1] % 256 == 0 else "q8_0"
    return weights


def blocks(shape, kind, random):
    """Random blocks of a type, whose factors are small numbers."""
    values, size = BLOCK[kind]
    n = int(numpy.prod(shape)) // values
    # Some thousand blocks over and over: making them all anew takes minutes.
    made = random.integers(0, 256, size=(min(n, 1 << 14), size), dtype=numpy.uint8)
    factor = numpy.frombuffer(numpy.float16(SMALL / 16).tobytes(), dtype=numpy.uint8)
    places = {"q8_0": [0], "q4_0": [0], "q4_K": [0, 2], "q6_K": [208], "mxfp4": []}[kind]
    for place in places:
        made[:, place:place + 2] = factor
    if kind == "mxfp4":
        made[:, 0] = 120
    return numpy.resize(made, (n, size)).reshape(*shape[:-1], -1)


def write(kind, weights, path):
    """The file of a kind of model with these weights."""
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(str(path), kind.architecture)
    for key, value in kind.keys.items():
        key = f"{kind.architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    made = {}
    tensors = {**kind.model, **{f"blk.{i}.{name}": shape for i in range(kind.n_layers) for name, shape in kind.layer(i).items()}}
    for name, shape in tensors.items():
        if shape is None:
            continue
        part = name.split(".", 2)[2] if name.startswith("blk.") else name
        of = type_of(part, shape, weights)
        if (part, of) not in made:
            if of == "f32":
                ones = 1.0 if len(shape) == 1 and "norm" in part else -0.5 if part == "ssm_a" else 0.0
                made[part, of] = (random.normal(size=shape) * SMALL + ones).astype(numpy.float32)
            else:
                made[part, of] = blocks(shape, of, random)
        full = name if part.endswith(".bias") or part == "ssm_a" else name + ".weight"
        writer.add_tensor(full, made[part, of], raw_dtype=None if of == "f32" else gguf.GGMLQuantizationType[of.replace("q", "Q").replace("mxfp", "MXFP")])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rates_of(command):
    """What a contender printed."""
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{command[0]}: exit {run.returncode}: {(run.stderr.strip().splitlines() or ['no message'])[-1]}")
    line = json.loads(run.stdout.splitlines()[0])
    decode = line["decode_tok_s"]
    return {"prefill": line["prefill_tok_s"], "decode": decode["0"] if isinstance(decode, dict) else decode, "share": line.get("share_of_bandwidth", 0.0)}


def compare(path, args):
    """The medians of both, round by round in turn."""
    counts = ["--threads", args.threads]
    ng = [args.bench, f"--model.path={path}", "--cache.codec=bf16", "--output=jsonl", "--repeat=1", f"--prompt-tokens={args.prompt}", f"--decode-tokens={args.generate}", "--depth=0", *counts]
    llama = [sys.executable, HERE / "peers.py", "llama_cpp", path, "--cache", "f16", "--prompt", args.prompt, "--generate", args.generate, "--depths", "0", *counts]
    found = {"ng": [], "llama.cpp": []}
    for _ in range(args.rounds):
        found["ng"].append(rates_of(ng))
        found["llama.cpp"].append(rates_of(llama))
    median = {side: {what: statistics.median(rates[what] for rates in runs) for what in runs[0]} for side, runs in found.items()}
    ratio = {what: median["ng"][what] / median["llama.cpp"][what] for what in ("prefill", "decode")}
    print(f"| {path.stem} | {ratio['prefill']:.2f} | {ratio['decode']:.2f} | {median['ng']['share']:.0%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--kinds", default=",".join(KINDS), help=", ".join(KINDS))
    parser.add_argument("--weights", default="", help="only files of this type")
    parser.add_argument("--bench", default=HERE.parents[1] / "build/bin/ng-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--make", action="store_true", help="only make the files")
    args = parser.parse_args()
    args.models.mkdir(parents=True, exist_ok=True)
    print("| file | prefill, ng / llama.cpp | decode, ng / llama.cpp | ng's decode, share of the read bandwidth |\n|---|---|---|---|")
    for name in args.kinds.split(","):
        for weights in KINDS[name].weights:
            if args.weights not in ("", weights):
                continue
            path = args.models / f"{name}-{weights}.gguf"
            if not path.exists():
                write(KINDS[name], weights, path)
            if not args.make:
                compare(path, args)


if __name__ == "__main__":
    main()
