"""Makes a tiny model in each form in which quantised checkpoints are published.

    python make_files.py [DIR]     # needs numpy

Each folder holds config.json, model.safetensors, and in expected.json a prompt, the ids that follow
and the logits of the prompt's last tokens, computed here in float64 from the values that the stored
parts mean. Written from the formats' specifications; nothing here is read by the engine.
"""

import json
import pathlib
import sys

import numpy as np

WIDTH, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LAYERS = 64, 64, 4, 2, 16, 32, 1
EPS, THETA = 1e-5, 10000.0
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
    "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": LAYERS, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "hidden_act": "silu",
    "max_position_embeddings": 64, "rms_norm_eps": EPS, "rope_theta": THETA,
    "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
    "torch_dtype": "bfloat16"}
# Of some folders the feed-forward is wider.
INNERS = {"fp8_block_128": 128}


def shapes(inner):
    return {
        "self_attn.q_proj": (HEADS * HEAD_DIM, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, WIDTH),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
        "mlp.gate_proj": (inner, WIDTH), "mlp.up_proj": (inner, WIDTH), "mlp.down_proj": (WIDTH, inner)}


PROMPT = [3, 17, 8, 29, 1, 30]


# ---- numbers ----------------------------------------------------------------------------------

class Bf16(np.ndarray):
    """Numbers of BF16, held as the float32 that they are."""


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).view(Bf16)


def floats(exponent_bits, fraction_bits, bias):
    n = 1 << (exponent_bits + fraction_bits)
    values = []
    for i in range(n):
        exponent, fraction = i >> fraction_bits, i & ((1 << fraction_bits) - 1)
        lead = 0 if exponent == 0 else 1
        values.append((lead + fraction / (1 << fraction_bits)) * 2.0 ** (max(exponent, 1) - bias))
    return np.array(values + [-v for v in values])


E4M3 = floats(4, 3, 7)
E4M3[[127, 255]] = np.nan
E2M1 = floats(2, 1, 1)
NF4 = np.array([-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004,
                0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684,
                1.0], np.float32)
FP4 = np.array([0.0, 0.0052083333, 0.6666667, 1.0, 0.3333333, 0.5, 0.1666667, 0.25] * 2, np.float32)
FP4[8:] *= -1


class F8(np.ndarray):
    """Bytes that are numbers of E4M3."""


def nearest(table, x):
    distance = np.abs(np.nan_to_num(table, nan=1e30)[None, :] - np.asarray(x).reshape(-1, 1))
    return distance.argmin(1).reshape(np.shape(x)).astype(np.uint8)


def f8(x):
    return nearest(E4M3, x).view(F8)


# ---- files ------------------------------------------------------------------------------------

KINDS = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64", "int8": "I8",
         "uint8": "U8", "uint32": "U32"}


def save(path, tensors):
    header, data = {}, b""
    for name in sorted(tensors):
        x = tensors[name]
        kind = "BF16" if isinstance(x, Bf16) else "F8_E4M3" if isinstance(x, F8) else KINDS[x.dtype.name]
        raw = np.ascontiguousarray(x)
        raw = (raw.view(np.uint32) >> 16).astype(np.uint16).tobytes() if kind == "BF16" else raw.tobytes()
        header[name] = {"dtype": kind, "shape": list(np.shape(x)), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def stream(codes, bits, word=np.uint32):
    """Rows of codes as streams of bits in words, the lowest first. [rows, n] -> [rows, words]"""
    rows, n = codes.shape
    taken = (codes[:, :, None].astype(np.uint64) >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    taken = taken.reshape(rows, n * bits).astype(np.uint8)
    size = 8 * np.dtype(word).itemsize
    taken = np.pad(taken, ((0, 0), (0, -taken.shape[1] % size)))
    return np.packbits(taken, axis=1, bitorder="little").view(word)


# ---- a model ----------------------------------------------------------------------------------

def logits_of(weights, ids):
    """[tokens, VOCAB] in float64."""
    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w

    def turn(x):  # [tokens, heads, HEAD_DIM]
        half = HEAD_DIM // 2
        angle = np.arange(len(ids))[:, None] / THETA ** (np.arange(half) * 2 / HEAD_DIM)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x, n = weights["model.embed_tokens.weight"][ids], len(ids)
    for i in range(LAYERS):
        w = {k: weights[f"model.layers.{i}.{k}.weight"] for k in [*shapes(INNER), "input_layernorm", "post_attention_layernorm"]}
        h = norm(x, w["input_layernorm"])
        q = turn((h @ w["self_attn.q_proj"].T).reshape(n, HEADS, HEAD_DIM))
        k = turn((h @ w["self_attn.k_proj"].T).reshape(n, KV_HEADS, HEAD_DIM))
        v = (h @ w["self_attn.v_proj"].T).reshape(n, KV_HEADS, HEAD_DIM)
        k, v = (np.repeat(part, HEADS // KV_HEADS, 1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_DIM)
        scores = np.where(np.tril(np.ones((n, n))) > 0, scores, -np.inf)
        probs = np.exp(scores - scores.max(-1, keepdims=True))
        probs /= probs.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", probs, v).reshape(n, -1) @ w["self_attn.o_proj"].T
        h = norm(x, w["post_attention_layernorm"])
        gate = h @ w["mlp.gate_proj"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T
    return norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


# ---- integers ---------------------------------------------------------------------------------

def integers(w, bits, group, symmetric=False, index=None, kind=np.float16):
    """Codes [rows, inputs], scales and zeros [rows, groups]; index: the group of each input."""
    rows, inputs = w.shape
    index = np.arange(inputs) // group if index is None else index
    n, most = index.max() + 1, 2 ** bits - 1
    scales, zeros = np.zeros((rows, n)), np.zeros((rows, n), int)
    for g in range(n):
        part = w[:, index == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if symmetric:
            scales[:, g], zeros[:, g] = np.abs(part).max(1) / (2 ** (bits - 1) - (bits > 1) * 0.5), 2 ** (bits - 1)
        else:
            scales[:, g] = (high - low) / most
            zeros[:, g] = np.clip(np.round(-low / scales[:, g]), 1, most)
    scales = bf16(scales) if kind == "bf16" else scales.astype(kind)
    s = np.asarray(scales, np.float64)
    codes = np.clip(np.round(w / s[:, index]) + zeros[:, index], 0, most).astype(np.int64)
    return codes, scales, zeros, (codes - zeros[:, index]) * s[:, index]


def gptq(bits, group=32, act=False, v2=False, symmetric=False):
    def make(w, rng, _):
        index = rng.permutation(np.arange(w.shape[1]) // group) if act else np.arange(w.shape[1]) // group
        codes, scales, zeros, value = integers(w, bits, group, symmetric, index)
        stored = zeros if v2 else (zeros - 1) & (2 ** bits - 1)
        return {".qweight": np.ascontiguousarray(stream(codes, bits).T).view(np.int32),
                ".qzeros": stream(stored.T, bits).view(np.int32),
                ".scales": np.ascontiguousarray(scales.T), ".g_idx": index.astype(np.int32)}, value
    return make


def awq(group=32):
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(x):  # [n, rows]
        x = x.reshape(x.shape[0], -1, 8)[:, :, order].reshape(x.shape[0], -1)
        return stream(x, 4).view(np.int32)

    def make(w, rng, _):
        codes, scales, zeros, value = integers(w, 4, group)
        return {".qweight": pack(codes.T), ".qzeros": pack(zeros.T), ".scales": np.ascontiguousarray(scales.T)}, value
    return make


def packed(bits, group=32, symmetric=True, act=False):
    def make(w, rng, _):
        inputs = w.shape[1]
        group_ = group or inputs
        index = rng.permutation(np.arange(inputs) // group_) if act else None
        codes, scales, zeros, value = integers(w, bits, group_, symmetric, index, "bf16")
        parts = {".weight_packed": stream(codes, bits).view(np.int32), ".weight_scale": scales,
                 ".weight_shape": np.array(w.shape, np.int64)}
        if not symmetric:
            parts[".weight_zero_point"] = np.ascontiguousarray(stream(zeros.T, bits).T).view(np.int32)
        if act:
            parts[".weight_g_idx"] = index.astype(np.int32)
        return parts, value
    return make


def int8_rows(symmetric=True):
    def make(w, rng, _):
        codes, scales, zeros, value = integers(w, 8, w.shape[1], symmetric, None, np.float32)
        parts = {".weight": (codes - 128).astype(np.int8), ".weight_scale": scales}
        if not symmetric:
            parts[".weight_zero_point"] = (zeros - 128).astype(np.int8)
        return parts, value
    return make


def mlx(bits, group=64, kind=np.float16):
    def make(w, rng, _):
        rows, n = w.shape[0], w.shape[1] // group
        parts = w.reshape(rows, n, group)
        low, high = parts.min(2), parts.max(2)
        scales = ((high - low) / (2 ** bits - 1))
        scales, biases = (bf16(scales), bf16(low)) if kind == "bf16" else (scales.astype(kind), low.astype(kind))
        s, b = (np.asarray(x, np.float64)[:, :, None] for x in (scales, biases))
        codes = np.clip(np.round((parts - b) / s), 0, 2 ** bits - 1)
        return {".weight": stream(codes.reshape(w.shape).astype(np.int64), bits), ".scales": scales,
                ".biases": biases}, (codes * s + b).reshape(w.shape)
    return make


def hqq(bits, group=64, axis=1):
    def make(w, rng, _):
        lines = w.reshape(-1, group) if axis == 1 else w.reshape(group, -1)
        low, high = lines.min(axis, keepdims=True), lines.max(axis, keepdims=True)
        scale = ((high - low) / (2 ** bits - 1)).astype(np.float16)
        zero = (-low / scale.astype(np.float64)).astype(np.float16)
        s, z = scale.astype(np.float64), zero.astype(np.float64)
        codes = np.clip(np.round(lines / s + z), 0, 2 ** bits - 1).astype(np.uint32)
        per, kind, name = {8: (1, np.uint8, "8bit_u8"), 4: (2, np.uint8, "4bit_u8"), 3: (10, np.int32, "3bit_32"),
                           2: (4, np.uint8, "2bit_u8"), 1: (8, np.uint8, "1bit_u8")}[bits]
        filled = np.pad(codes, ((0, -len(codes) % per), (0, 0)))
        step = len(filled) // per
        words = sum(filled[i * step:(i + 1) * step] << (bits * (per - 1 - i)) for i in range(per))
        text = lambda t: np.frombuffer(t.encode(), np.uint8)
        one = lambda i: np.array(i, np.int32)
        flag = lambda i: np.array(i, np.uint8)
        return {".W_q": words.astype(kind), ".scale": scale, ".zero": zero, ".nbits": one(bits),
                ".group_size": one(group), ".axis": one(axis), ".packing": text(name),
                ".shape": np.array(w.shape, np.int64), ".unpack_view_dtype": text("torch.uint8"),
                ".view_as_float": flag(0), ".quant_scale": flag(0), ".quant_zero": flag(0),
                ".compute_dtype": text("torch.float16"), ".channel_wise": flag(1), ".optimize": flag(1),
                ".round_zero": flag(0), ".offload_meta": flag(0), ".stores_quant_config": flag(1),
                ".encoded_state_dict": flag(1)}, ((codes - z) * s).reshape(w.shape)
    return make


def torchao_int4(group=32):
    def make(w, rng, _):
        rows, n = w.shape[0], w.shape[1] // group
        parts = w.reshape(rows, n, group)
        low = parts.min(2)
        scale = bf16((parts.max(2) - low) / 15)
        s = np.asarray(scale, np.float64)
        zero = bf16(low + 8 * s)
        z = np.asarray(zero, np.float64)
        codes = np.clip(np.round((parts - z[:, :, None]) / s[:, :, None]), -8, 7).astype(np.int64)
        value = (codes * s[:, :, None] + z[:, :, None]).reshape(w.shape)
        data = stream(codes.reshape(w.shape) & 15, 4, np.uint8).view(np.int8)
        return {"._weight_qdata": data, "._weight_scale": scale.T, "._weight_zero_point": zero.T}, value
    return make


def torchao_int8():
    def make(w, rng, _):
        codes, scales, zeros, value = integers(w, 8, w.shape[1], True, None, np.float32)
        return {"._weight_qdata": (codes - 128).astype(np.int8), "._weight_scale": scales}, value
    return make


def bnb_int8(w, rng, _):
    most = np.abs(w).max(1).astype(np.float32)
    codes = np.round(w * 127 / most[:, None]).astype(np.int8)
    return {".weight": codes, ".SCB": most, ".weight_format": np.array(0, np.uint8)}, codes * (most[:, None] / 127.0)


def bitnet(multiplies):
    def make(w, rng, _):
        mean = bf16([np.abs(w).mean()])
        m = float(np.asarray(mean)[0])
        codes = np.clip(np.round(w / m), -1, 1).astype(np.int64) + 1
        quarter = w.shape[0] // 4
        data = sum(codes[i * quarter:(i + 1) * quarter] << (2 * i) for i in range(4)).astype(np.uint8)
        scale = mean if multiplies else bf16([1 / m])
        factor = m if multiplies else 1 / float(np.asarray(scale)[0])
        return {".weight": data, ".weight_scale": scale}, (codes - 1) * factor
    return make


# ---- floats -----------------------------------------------------------------------------------

def blocks_of(w, rows, inputs):
    """The greatest magnitude of each block, and of each value its block's."""
    peak = np.maximum.reduceat(np.maximum.reduceat(np.abs(w), range(0, w.shape[0], rows), 0), range(0, w.shape[1], inputs), 1)
    wide = np.repeat(np.repeat(peak, rows, 0)[:w.shape[0]], inputs, 1)[:, :w.shape[1]]
    return peak, wide


def fp8(scale_name, rows, inputs, kind=np.float32, shape=None):
    def make(w, rng, _):
        rows_, inputs_ = rows or w.shape[0], inputs or w.shape[1]
        peak, _ = blocks_of(w, rows_, inputs_)
        scale = bf16(peak / 448) if kind == "bf16" else (peak / 448).astype(kind)
        wide = np.repeat(np.repeat(np.asarray(scale, np.float64), rows_, 0)[:w.shape[0]], inputs_, 1)[:, :w.shape[1]]
        data = f8(w / wide)
        stored = scale.reshape(shape) if shape is not None else scale
        return {".weight": data, scale_name: stored}, E4M3[np.asarray(data)] * wide
    return make


def nvfp4(modelopt):
    def make(w, rng, _):
        peak, _ = blocks_of(w, 1, 16)
        whole = np.float32(np.abs(w).max() / (448 * 6))
        scale = f8(peak / 6 / float(whole))
        s = E4M3[np.asarray(scale)] * float(whole)
        if not modelopt:
            inverse = np.float32(1 / whole)
            s = E4M3[np.asarray(scale)] / float(inverse)
        wide = np.repeat(s, 16, 1)
        codes = nearest(E2M1, w / np.where(wide == 0, 1, wide))
        data = stream(codes, 4, np.uint8)
        parts = ({".weight": data, ".weight_scale": scale, ".weight_scale_2": np.array(whole), ".input_scale": np.array(np.float32(1))}
                 if modelopt else {".weight_packed": data, ".weight_scale": scale, ".weight_global_scale": np.array([inverse])})
        return parts, E2M1[codes] * wide
    return make


def mxfp4(mlx_names):
    def make(w, rng, _):
        peak, _ = blocks_of(w, 1, 32)
        power = np.floor(np.log2(peak)).astype(int) - 2
        wide = np.repeat(2.0 ** power, 32, 1)
        codes = nearest(E2M1, w / wide)
        scale = (power + 127).astype(np.uint8)
        parts = ({".weight": stream(codes, 4), ".scales": scale} if mlx_names else
                 {".weight_packed": stream(codes, 4, np.uint8), ".weight_scale": scale})
        return parts, E2M1[codes] * wide
    return make


def bnb4(kind, double):
    def make(w, rng, _):
        table = NF4 if kind == "nf4" else FP4
        flat = w.reshape(-1, 64)
        most = np.abs(flat).max(1).astype(np.float32)
        state = {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16", "shape": list(w.shape)}
        parts = {}
        if double:
            offset = np.float32(most.mean())
            nested = np.linspace(-1, 1, 256).astype(np.float32)
            left = most - offset
            n = -(-len(left) // 16)
            peaks = np.array([np.abs(left[i * 16:(i + 1) * 16]).max() for i in range(n)], np.float32)
            codes = nearest(nested, left / np.repeat(peaks, 16)[:len(left)])
            most = (nested[codes] * np.repeat(peaks, 16)[:len(left)] + offset).astype(np.float32)
            parts = {".weight.absmax": codes, ".weight.nested_absmax": peaks, ".weight.nested_quant_map": nested}
            state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": float(offset)}
        else:
            parts[".weight.absmax"] = most
        codes = nearest(table, flat / most[:, None]).reshape(-1)
        parts[".weight"] = (codes[0::2] << 4 | codes[1::2]).astype(np.uint8)[:, None]
        parts[".weight.quant_map"] = table
        parts[f".weight.quant_state.bitsandbytes__{kind}"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
        value = (table[codes].reshape(-1, 64).astype(np.float64) * most[:, None]).reshape(w.shape)
        return parts, value
    return make


# ---- the folders ------------------------------------------------------------------------------

def ct(format, weights, inputs=None):
    return {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
                                          "output_activations": None}},
            "ignore": ["lm_head"], "kv_cache_scheme": None, "global_compression_ratio": None}


def w(bits, strategy, group=None, symmetric=True, type="int", **more):
    return {"num_bits": bits, "type": type, "symmetric": symmetric, "strategy": strategy, "group_size": group,
            "dynamic": False, "observer": "minmax", "observer_kwargs": {}} | more


def gptq_config(bits, **more):
    return {"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": False, "sym": False,
            "damp_percent": 0.01, "true_sequential": True, "model_seqlen": 2048} | more


def round_config(packing):
    return {"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": False, "data_type": "int",
            "packing_format": packing, "autoround_version": "0.5.1", "iters": 200}


DYNAMIC = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16",
       "bnb_4bit_quant_storage": "uint8", "llm_int8_threshold": 6.0}
HQQ = {"quant_method": "hqq", "skip_modules": ["lm_head"],
       "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}, "scale_quant_params": None}}
AO = {"quant_method": "torchao", "modules_to_not_convert": ["lm_head"], "include_input_output_embeddings": False}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"]}

# Name: the config's object, how a matrix is made; and of some modules how else, None: plain.
FOLDERS = {
    "fp8_block": (FP8 | {"weight_block_size": [32, 24]}, fp8(".weight_scale_inv", 32, 24)),
    "fp8_block_128": (FP8 | {"weight_block_size": [128, 128]}, fp8(".weight_scale_inv", 128, 128, "bf16")),
    "fp8_tensor": (FP8, fp8(".weight_scale", None, None, np.float32, ())),
    "fbgemm_fp8": ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, fp8(".weight_scale", 1, None)),
    "ct_fp8_channel": (ct("float-quantized", w(8, "channel", type="float"), DYNAMIC), fp8(".weight_scale", 1, None, "bf16")),
    "ct_fp8_block": (ct("float-quantized", w(8, "block", type="float", block_structure=[16, 32])), fp8(".weight_scale", 16, 32)),
    "modelopt_fp8": ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
                     fp8(".weight_scale", None, None, np.float32, ())),
    "modelopt_nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}, nvfp4(True)),
    "gptq2": (gptq_config(2), gptq(2)),
    "gptq3": (gptq_config(3, group_size=-1), gptq(3, 64)),
    "gptq4": (gptq_config(4), gptq(4)),
    "gptq4_sym": (gptq_config(4, sym=True), gptq(4, symmetric=True)),
    "gptq4_act": (gptq_config(4, desc_act=True), gptq(4, act=True)),
    "gptq4_v2": (gptq_config(4, checkpoint_format="gptq_v2"), gptq(4, v2=True)),
    "gptq8": (gptq_config(8, sym=True, dynamic={"+:.*k_proj": {"bits": 4}, "-:.*v_proj": {}}), gptq(8, symmetric=True),
              {"self_attn.k_proj": gptq(4), "self_attn.v_proj": None}),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
             "modules_to_not_convert": None}, awq()),
    "auto_round": (round_config("auto_round"), gptq(4, v2=True)),
    "auto_round_gptq": (round_config("auto_round:auto_gptq"), gptq(4)),
    "auto_round_awq": (round_config("auto_round:auto_awq"), awq()),
    "ct_w4": (ct("pack-quantized", w(4, "group", 32)), packed(4)),
    "ct_w4_asym": (ct("pack-quantized", w(4, "group", 32, False)), packed(4, 32, False)),
    "ct_w4_act": (ct("pack-quantized", w(4, "group", 32, actorder="group")), packed(4, act=True)),
    "ct_w3": (ct("pack-quantized", w(3, "group", 32)), packed(3)),
    "ct_w8": (ct("pack-quantized", w(8, "channel")), packed(8, None)),
    "ct_int8": (ct("int-quantized", w(8, "channel"), DYNAMIC | {"type": "int"}), int8_rows()),
    "ct_int8_asym": (ct("int-quantized", w(8, "channel", None, False)), int8_rows(False)),
    "ct_nvfp4": (ct("nvfp4-pack-quantized", w(4, "tensor_group", 16, type="float")), nvfp4(False)),
    "ct_mxfp4": (ct("mxfp4-pack-quantized", w(4, "group", 32, type="float")), mxfp4(False)),
    "mlx2": ({"group_size": 32, "bits": 2}, mlx(2, 32)),
    "mlx3": ({"group_size": 64, "bits": 3}, mlx(3)),
    "mlx4": ({"group_size": 64, "bits": 4, "mode": "affine", "lm_head": False,
              "model.layers.0.self_attn.v_proj": {"group_size": 32, "bits": 6}}, mlx(4, 64, "bf16"),
             {"self_attn.v_proj": mlx(6, 32)}),
    "mlx5": ({"group_size": 32, "bits": 5}, mlx(5, 32)),
    "mlx6": ({"group_size": 64, "bits": 6}, mlx(6)),
    "mlx8": ({"group_size": 64, "bits": 8}, mlx(8, 64, np.float32)),
    "mlx_mxfp4": ({"group_size": 32, "bits": 4, "mode": "mxfp4"}, mxfp4(True)),
    "bnb_nf4": (BNB | {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False}, bnb4("nf4", False)),
    "bnb_nf4_double": (BNB | {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}, bnb4("nf4", True)),
    "bnb_fp4": (BNB | {"bnb_4bit_quant_type": "fp4"}, bnb4("fp4", False)),
    "bnb_int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0}, bnb_int8),
    "hqq1": (HQQ, hqq(1, 16)),
    "hqq2": (HQQ, hqq(2, 32)),
    "hqq3": (HQQ, hqq(3)),
    "hqq4": (HQQ, hqq(4)),
    "hqq4_columns": (HQQ, hqq(4, 16, 0)),
    "hqq8": (HQQ, hqq(8)),
    "torchao_int4": (AO | {"quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 32}}}}, torchao_int4()),
    "torchao_int8": (AO | {"quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_data": {}}}}, torchao_int8()),
    "torchao_fp8": (AO | {"quant_type": {"default": {"_type": "Float8WeightOnlyConfig", "_data": {}}}},
                    lambda w, rng, _: (lambda made: ({"._weight_qdata": made[0][".weight"], "._weight_scale": made[0][".s"]}, made[1]))(
                        fp8(".s", 1, None)(w, rng, _))),
    "bitnet": ({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}, bitnet(True)),
    "bitnet_divided": ({"quant_method": "bitnet", "modules_to_not_convert": None}, bitnet(False)),
}


def make_folder(folder, seed, config, make, other=None):
    """Whether no step of the greedy ids is a near tie."""
    rng = np.random.default_rng(seed)
    tensors, weights = {}, {}
    inner = INNERS.get(folder.name, INNER)

    def plain(name, value):
        tensors[name] = bf16(value)
        weights[name] = np.asarray(tensors[name], np.float64)

    plain("model.embed_tokens.weight", rng.normal(size=(VOCAB, WIDTH)))
    plain("model.norm.weight", rng.normal(1, 0.1, WIDTH))
    plain("lm_head.weight", rng.normal(0, 0.3, (VOCAB, WIDTH)))
    for i in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            plain(f"model.layers.{i}.{norm}.weight", rng.normal(1, 0.1, WIDTH))
        for module, shape in shapes(inner).items():
            name = f"model.layers.{i}.{module}"
            value = rng.normal(0, 0.15, shape)
            how = (other or {}).get(module, make)
            if how is None:
                plain(name + ".weight", value)
                continue
            parts, weights[name + ".weight"] = how(value, rng, name)
            for part, tensor in parts.items():
                tensors[name + part] = tensor
    folder.mkdir(parents=True, exist_ok=True)
    key = "quantization" if "quant_method" not in config else "quantization_config"
    text = CONFIG | {"intermediate_size": inner, key: config}
    if key == "quantization":
        text["quantization_config"] = config
    (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    save(folder / "model.safetensors", tensors)
    ids, least = list(PROMPT), 9.0
    for _ in range(6):
        row = logits_of(weights, ids)[-1]
        best = np.sort(row)[::-1]
        least = min(least, best[0] - best[1])
        ids.append(int(row.argmax()))
    logits = logits_of(weights, PROMPT)
    (folder / "expected.json").write_text(json.dumps(
        {"prompt": PROMPT, "ids": ids, "least_margin": round(float(least), 4),
         "logits": [[round(float(x), 7) for x in row] for row in logits[-3:]]}) + "\n")
    return least > 0.02


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for number, (name, what) in enumerate(FOLDERS.items()):
        seed = 530 + number
        while not make_folder(root / name, seed, *what):
            seed += 1000
