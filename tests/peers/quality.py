#!/usr/bin/env python3
"""What quantised weights cost in quality: quality.py [MODEL ...] [--pairs int8:q8_0,int4:q4_0].

For each model the mean KL divergence of the next-token distribution, f32 weights against quantised
ones: ng with itself, llama.cpp with itself, on the same weights and the same ids; by a pair such as
auto:q4_K_M ng reads llama.cpp's quantised file as it is. MODEL is a niels folder, which is converted to GGUF's llama architecture for llama.cpp (same RoPE pairing, biases in
the feed-forward layer), or an f32 GGUF file that both read. The ids are sampled from the model.
"""
import argparse
import ctypes
import json
import pathlib
import subprocess
import tempfile

import gguf
import llama_cpp as llama
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from make_models import GGUF_TYPES, quantise

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MORE_GGUF_TYPES = {"q4_1": 3, "q5_0": 8, "q5_1": 9, "q2_K": 10, "q3_K_M": 12, "q5_K_M": 17,
                   "q6_K": 18}  # llama.cpp's llama_ftype
GOAL = 1.05  # ng's divergence, at most this many times llama.cpp's
NIELS_LAYER = {  # GGUF's name of a layer's tensor -> the niels name
    "attn_norm.weight": "ln1.weight",
    "attn_output.weight": "attn.proj.weight",
    "ffn_norm.weight": "ln2.weight",
    "ffn_gate.weight": "mlp.fc_g.weight",
    "ffn_gate.bias": "mlp.fc_g.bias",
    "ffn_up.weight": "mlp.fc_a.weight",
    "ffn_up.bias": "mlp.fc_a.bias",
    "ffn_down.weight": "mlp.fc_out.weight",
    "ffn_down.bias": "mlp.fc_out.bias",
}


def read_weights(folder):
    """All tensors of a folder as f32, by name."""
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return {name: file.get_tensor(name).float().numpy() for name in file.keys()}


def niels_to_gguf(folder, path):
    """A niels folder as an f32 GGUF file of the llama architecture, without a tokenizer."""
    config = json.loads((folder / "config.json").read_text())
    weights = read_weights(folder)
    embedding = "tok_emb.weight" if "tok_emb.weight" in weights else "lm_head.weight"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["T"])
    writer.add_embedding_length(config["C"])
    writer.add_block_count(config["L"])
    writer.add_feed_forward_length(config["d_ff"])
    writer.add_head_count(config["H"])
    writer.add_head_count_kv(config["H"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["C"] // config["H"])
    writer.add_vocab_size(config["V"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_tensor("token_embd.weight", weights[embedding])
    writer.add_tensor("output_norm.weight", weights["ln_f.weight"])
    for layer in range(config["L"]):
        qkv = np.split(weights[f"blocks.{layer}.attn.qkv.weight"], 3)
        for name, tensor in zip(("attn_q", "attn_k", "attn_v"), qkv):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ascontiguousarray(tensor))
        for name, source in NIELS_LAYER.items():
            writer.add_tensor(f"blk.{layer}.{name}", weights[f"blocks.{layer}.{source}"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run_ng(args, model, *options):
    """ng-run's lines of JSON, with everything but the weights in f32."""
    run = subprocess.run([args.ng_run, f"--model.path={model}", "--cache.codec=f32",
                          "--output=jsonl", "--run.stop_ids=", *options],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr.strip())
    return [json.loads(line) for line in run.stdout.splitlines()]


def sample_ids(args, model, scratch):
    """Ids that the model itself writes, from different first ids: [n_sequences][n_tokens]."""
    prompts = scratch / "first.jsonl"
    prompts.write_text("".join(json.dumps({"prompt_ids": [10 + i]}) + "\n"
                               for i in range(args.sequences)))
    lines = run_ng(args, model, "--prompts", prompts, "--sampler.chain=temperature",
                   "--sampler.temperature.value=1", f"--run.max_new_tokens={args.tokens - 1}",
                   "--model.weights=f32")
    return [line["ids"] for line in lines]


def ng_logits(args, model, weights, ids, scratch):
    """Logits of every position: [n_sequences * n_tokens, vocab]."""
    prompts, saved = scratch / "all.jsonl", scratch / "logits.safetensors"
    prompts.write_text("".join(json.dumps({"prompt_ids": row}) + "\n" for row in ids))
    run_ng(args, model, "--prompts", prompts, "--sampler.chain=greedy", "--run.max_new_tokens=1",
           f"--model.weights={weights}", "--save", saved, "--save-tensors=logits")
    tensors = load_file(saved)
    return np.concatenate([tensors[f"logits.{i}"] for i in range(len(ids))])


def llama_logits(path, ids, threads):
    """The same by llama.cpp, its cache f32 too."""
    model_params = llama.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(str(path).encode(), model_params)
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = max(map(len, ids))
    params.n_threads = params.n_threads_batch = threads
    params.type_k = params.type_v = 0  # f32
    context = llama.llama_init_from_model(model, params)
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    rows = []
    for row in ids:
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        batch = llama.llama_batch_init(len(row), 0, 1)
        batch.n_tokens = len(row)
        for i, token in enumerate(row):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if llama.llama_decode(context, batch):
            raise SystemExit(f"{path}: llama_decode failed")
        logits = np.ctypeslib.as_array(llama.llama_get_logits(context), (len(row), n_vocab))
        rows.append(logits.copy())
        llama.llama_batch_free(batch)
    llama.llama_free(context)
    llama.llama_model_free(model)
    return np.concatenate(rows)


def mean_divergence(logits, other):
    """The mean of KL(softmax(logits) || softmax(other)) over the rows, in nats."""
    def log_softmax(x):
        x = x.astype(np.float64)
        x -= x.max(axis=1, keepdims=True)
        return x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    p, q = log_softmax(logits), log_softmax(other)
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def compare(model, args, scratch):
    """The table's rows of one model."""
    plain = model
    if model.is_dir():
        plain = scratch / "model-f32.gguf"
        niels_to_gguf(model, plain)
    ids = sample_ids(args, model, scratch)
    ours, theirs = ng_logits(args, model, "f32", ids, scratch), llama_logits(plain, ids,
                                                                             args.threads)
    apart = mean_divergence(ours, theirs)
    for weights, kind in args.pairs:
        quantised = scratch / f"model-{kind}.gguf"
        quantise(plain, quantised, {**GGUF_TYPES, **MORE_GGUF_TYPES}[kind])
        held = ng_logits(args, quantised if weights == "auto" else model, weights, ids, scratch)
        ng = mean_divergence(ours, held)
        peer = mean_divergence(theirs, llama_logits(quantised, ids, args.threads))
        print(f"| {model.name} | {weights} | {ng:.3e} | {kind} | {peer:.3e} | {ng / peer:.2f} "
              f"| {GOAL} | {apart:.1e} |", flush=True)


def main():
    """Prints a row for each model and pair of types."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path, default=[ROOT / "configs/demo"])
    parser.add_argument("--ng-run", default=ROOT / "build/bin/ng-run")
    parser.add_argument("--pairs", default=[("int8", "q8_0"), ("int4", "q4_0")],
                        type=lambda text: [tuple(pair.split(":")) for pair in text.split(",")])
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128, help="of each sequence")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    print("| model | ng | KL | llama.cpp | KL | ratio | goal, at most | KL of the f32 runs |")
    print("|---|---|---|---|---|---|---|---|")
    for model in args.models:
        with tempfile.TemporaryDirectory() as scratch:
            compare(model, args, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
