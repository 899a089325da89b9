"""Makes low_bits/: a tiny llama whose matrices are random blocks of the types of 1 to 4 bits.

    python make_low_bits.py    # needs numpy, safetensors, gguf (0.19.0), llama-cpp-python (0.3.36)

case.json and expected-LOW.safetensors are as those of llama/: logits.<i> and decode_logits.<i> are
llama.cpp's, with dequant_ before them those of f64 arithmetic on the values that the gguf package
computes of the blocks. Made with one thread, without flash attention, with a cache of f32.
"""

import ctypes
import json
import pathlib

import gguf
import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "low_bits"
WIDTH, FFN, HEADS, KV, VOCAB, EPS, BASE = 256, 256, 4, 1, 384, 1e-5, 10000.0
HEAD = WIDTH // HEADS
NEW_TOKENS = 8
SEED = 154  # the ids are certain
SHAPES = {"attn_q": (WIDTH, WIDTH), "attn_k": (KV * HEAD, WIDTH), "attn_v": (KV * HEAD, WIDTH),
          "attn_output": (WIDTH, WIDTH), "ffn_gate": (FFN, WIDTH), "ffn_up": (FFN, WIDTH),
          "ffn_down": (WIDTH, FFN)}
TYPES = [["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"],
         ["TQ1_0", "TQ2_0", "MXFP4", "MXFP4", "IQ4_NL", "IQ4_XS", "MXFP4"]]
AT = {"TQ1_0": 52, "TQ2_0": 64}  # where the f16 factor is; of the others at the beginning


def set_factor(name, blocks, factor):
    bits = int(np.float16(factor).view(np.uint16))
    if name == "MXFP4":
        blocks[:, 0] = 127 + round(np.log2(factor)) + np.arange(len(blocks)) % 3 - 1
    elif name == "IQ1_M":
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    else:
        at = AT.get(name, 0)
        blocks[:, at:at + 2] = [bits & 255, bits >> 8]


def random_matrix(random, name, shape, spread):
    """The blocks, and the values that they stand for."""
    dtype = GGMLQuantizationType[name]
    n_values, n_bytes = GGML_QUANT_SIZES[dtype]
    blocks = random.integers(0, 256, (shape[0] * shape[1] // n_values, n_bytes), dtype=np.uint8)
    set_factor(name, blocks, 1.0)
    set_factor(name, blocks, spread / dequantize(blocks, dtype).std())
    blocks = blocks.reshape(shape[0], -1)
    return blocks, dequantize(blocks, dtype).astype(np.float64).reshape(shape)


def write_model(path, random):
    """The GGUF file; returns the values of its matrices."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in {"context_length": 64, "embedding_length": WIDTH, "block_count": len(TYPES),
                       "feed_forward_length": FFN, "head_count": HEADS, "head_count_kv": KV,
                       "layer_norm_rms_eps": EPS, "rope_freq_base": BASE,
                       "rope_dimension_count": HEAD, "vocab_size": VOCAB}.items():
        getattr(writer, "add_" + key)(value)
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    names += [f"t{i}" for i in range(len(names), VOCAB)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([name.encode() for name in names])
    writer.add_token_scores([-float(i) for i in range(VOCAB)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    values = {}

    def add(name, dtype, shape, spread):
        blocks, values[name] = random_matrix(random, dtype, shape, spread)
        writer.add_tensor(name + ".weight", blocks, raw_dtype=GGMLQuantizationType[dtype])

    add("token_embd", "IQ4_XS", (VOCAB, WIDTH), 1.0)
    add("output", "IQ3_S", (VOCAB, WIDTH), 0.4)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer, types in enumerate(TYPES):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(WIDTH, np.float32))
        for (name, shape), dtype in zip(SHAPES.items(), types, strict=True):
            add(f"blk.{layer}.{name}", dtype, shape, 1.0 / np.sqrt(WIDTH))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def norm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)


def rotated(x):
    """Neighbours rotate together. x: [tokens, heads, HEAD]"""
    angle = np.arange(len(x))[:, None] * BASE ** (-np.arange(0, HEAD, 2) / HEAD)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(x.shape)


def exact_logits(w, ids):
    x = w["token_embd"][ids]
    future = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for layer in range(len(TYPES)):
        m = {name: w[f"blk.{layer}.{name}"] for name in SHAPES}
        h = norm(x)
        q = rotated((h @ m["attn_q"].T).reshape(len(ids), HEADS, HEAD))
        k = rotated((h @ m["attn_k"].T).reshape(len(ids), KV, HEAD)).repeat(HEADS // KV, 1)
        v = (h @ m["attn_v"].T).reshape(len(ids), KV, HEAD).repeat(HEADS // KV, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD) + future
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(len(ids), WIDTH) @ m["attn_output"].T
        h = norm(x)
        gate = h @ m["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ m["ffn_up"].T)) @ m["ffn_down"].T
    return norm(x) @ w["output"].T


class Llama:
    """llama.cpp on the file: the logits of all ids."""

    def __init__(self, path):
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())

    def logits(self, ids):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = 64
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = int(GGMLQuantizationType.F32)
        params.flash_attn_type = 0
        context = llama_cpp.llama_init_from_model(self.model, params)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        assert llama_cpp.llama_decode(context, batch) == 0
        rows = [np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (VOCAB,)).copy()
                for i in range(len(ids))]
        llama_cpp.llama_free(context)
        return np.array(rows)


@llama_cpp.llama_log_callback
def say_nothing(*_):
    pass


def main():
    random = np.random.default_rng(SEED)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "model-LOW.gguf"
    weights = write_model(path, random)
    llama_cpp.llama_log_set(say_nothing, ctypes.c_void_p(0))
    llama = Llama(path)
    prompts = [[int(i) for i in random.integers(3, VOCAB, n)] for n in (6, 11)]
    expected, all_ids, apart, margin, most, same = {}, [], 0.0, 1e9, 0.0, True
    for i, prompt in enumerate(prompts):
        ids = list(prompt)
        for _ in range(NEW_TOKENS):
            ids.append(int(llama.logits(ids)[-1].argmax()))
        theirs, exact = llama.logits(ids[:-1]), exact_logits(weights, ids[:-1])
        for name, rows in (("", theirs), ("dequant_", exact.astype(np.float32))):
            expected[f"{name}logits.{i}"] = rows[:len(prompt)].copy()
            expected[f"{name}decode_logits.{i}"] = rows[len(prompt) - 1:].copy()
        top = np.sort(exact[len(prompt) - 1:], -1)
        margin = min(margin, float((top[:, -1] - top[:, -2]).min()))
        apart = max(apart, float(np.abs(theirs - exact).max()))
        most = max(most, float(np.abs(exact).max()))
        same &= exact[len(prompt) - 1:].argmax(-1).tolist() == ids[len(prompt):]
        all_ids.append(ids)
    save_file(expected, FOLDER / "expected-LOW.safetensors")
    case = {"prompts": prompts, "max_new_tokens": NEW_TOKENS, "types": {"LOW": {
        "file": path.name, "greedy_ids": all_ids, "greedy_exact": same and margin > 1.5 * apart,
        "min_margin": margin, "logit_abs_max": most, "llamacpp_vs_dequant_max_abs": apart,
        "tolerance": {"dequant_max_abs": 2e-5 * most, "llamacpp_max_abs": 2.5 * apart}}}}
    (FOLDER / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(margin, apart, most, same)


main()
