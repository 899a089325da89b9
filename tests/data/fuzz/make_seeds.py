"""Writes the small files that the fuzz targets begin from, beside this script: each a model or
vocabulary that ng takes, with every part of its format and as few bytes as that allows.

    python3 make_seeds.py
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
WIDTH, FFN, LAYERS = 4, 4, 1


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def single(kind, value):
    if kind == TEXT:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)


def key_value(key, kind, value):
    if isinstance(value, list):
        body = struct.pack("<IQ", kind, len(value)) + b"".join(single(kind, v) for v in value)
        return text(key) + struct.pack("<I", ARRAY) + body
    return text(key) + struct.pack("<I", kind) + single(kind, value)


def gguf(name, version, values, tensors):
    """tensors: (name, shape with the innermost first); all F32 zeros, each padded to 8 bytes."""
    values = values + [("general.alignment", U32, 8)]
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    header += b"".join(key_value(*value) for value in values)
    data = b""
    for tensor, shape in tensors:
        header += text(tensor) + struct.pack("<I", len(shape))
        header += b"".join(struct.pack("<Q", dim) for dim in shape)
        header += struct.pack("<IQ", 0, len(data))
        size = 4
        for dim in shape:
            size *= dim
        data += bytes(size + -size % 8)
    header += bytes(-len(header) % 8)
    (HERE / name).write_bytes(header + data)


def shape_values(architecture, epsilon):
    return [("general.architecture", TEXT, architecture)] + [
        (f"{architecture}.{key}", kind, value) for key, kind, value in [
            ("context_length", U32, 16), ("embedding_length", U32, WIDTH),
            ("feed_forward_length", U32, FFN), ("block_count", U32, LAYERS),
            ("attention.head_count", U32, 2), (epsilon, F32, 1e-5)]]


def llama_like(architecture, vocab_size, extra):
    values = shape_values(architecture, "attention.layer_norm_rms_epsilon") + [
        (f"{architecture}.attention.head_count_kv", U32, 1),
        (f"{architecture}.rope.freq_base", F32, 1e4)]
    kv = WIDTH // 2
    tensors = [("token_embd.weight", [WIDTH, vocab_size]), ("output_norm.weight", [WIDTH])]
    for name, shape in [("attn_norm.weight", [WIDTH]), ("attn_q.weight", [WIDTH, WIDTH]),
                        ("attn_k.weight", [WIDTH, kv]), ("attn_v.weight", [WIDTH, kv]),
                        ("attn_output.weight", [WIDTH, WIDTH]), ("ffn_norm.weight", [WIDTH]),
                        ("ffn_gate.weight", [WIDTH, FFN]), ("ffn_up.weight", [WIDTH, FFN]),
                        ("ffn_down.weight", [FFN, WIDTH])] + extra:
        tensors.append((f"blk.0.{name}", shape))
    return values, tensors


def gpt2(vocab_size):
    values = shape_values("gpt2", "attention.layer_norm_epsilon")
    tensors = [("token_embd.weight", [WIDTH, vocab_size]), ("position_embd.weight", [WIDTH, 16]),
               ("output_norm.weight", [WIDTH]), ("output_norm.bias", [WIDTH])]
    for name, outputs, inputs in [("attn_qkv", 3 * WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH),
                                  ("ffn_up", FFN, WIDTH), ("ffn_down", WIDTH, FFN)]:
        tensors += [(f"blk.0.{name}.weight", [inputs, outputs]), (f"blk.0.{name}.bias", [outputs])]
    for name in ("attn_norm", "ffn_norm"):
        tensors += [(f"blk.0.{name}.weight", [WIDTH]), (f"blk.0.{name}.bias", [WIDTH])]
    return values, tensors


def scored_vocabulary():
    """SentencePiece's BPE: control tokens, one byte token, a user-defined one, words."""
    tokens = ["<unk>", "<s>", "</s>", "<0xC3>", "<|x|>", "\u2581", "H", "e", "l", "o", "He", "ll",
              "\u2581H"]
    types = [2, 3, 3, 6, 4] + [1] * 8
    return [("tokenizer.ggml.model", TEXT, "llama"), ("tokenizer.ggml.tokens", TEXT, tokens),
            ("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(tokens))]),
            ("tokenizer.ggml.token_type", I32, types), ("tokenizer.ggml.bos_token_id", U32, 1),
            ("tokenizer.ggml.eos_token_id", U32, 2), ("tokenizer.ggml.add_bos_token", BOOL, True),
            ("tokenizer.ggml.add_space_prefix", BOOL, True),
            ("tokenizer.chat_template", TEXT, "{{ messages }}")]


def byte_tokens():
    """The characters of the check's own text, spelled as byte-level BPE does, and two merges."""
    return list("!',0245Hdeilorstw|<>x") + ["\u0120", "\u010d", "\u010a", "\u0109", "He", "ll"]


def byte_vocabulary(pre):
    tokens = byte_tokens() + ["<s>"]
    types = [1] * (len(tokens) - 1) + [3]
    return [("tokenizer.ggml.model", TEXT, "gpt2"), ("tokenizer.ggml.pre", TEXT, pre),
            ("tokenizer.ggml.tokens", TEXT, tokens), ("tokenizer.ggml.token_type", I32, types),
            ("tokenizer.ggml.merges", TEXT, ["H e", "l l"]),
            ("tokenizer.ggml.eos_token_id", U32, len(tokens) - 1)]


def tokenizer_json(name, normalizer, pre_tokenizers, single):
    tokens = byte_tokens()
    added = [{"id": len(tokens) + i, "content": content, "special": special, "single_word": False,
              "lstrip": strip, "rstrip": strip, "normalized": False}
             for i, (content, special, strip) in enumerate([("<s>", True, False),
                                                            ("<|x|>", False, True)])]
    processor = {"type": "TemplateProcessing", "single": single, "pair": [],
                 "special_tokens": {"<s>": {"id": "<s>", "ids": [len(tokens)], "tokens": ["<s>"]}}}
    file = {"version": "1.0", "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizers},
            "post_processor": processor, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "ignore_merges": True,
                      "vocab": {token: i for i, token in enumerate(tokens)},
                      "merges": ["H e", ["l", "l"]]}}
    (HERE / name).write_text(json.dumps(file, ensure_ascii=False))


def cache_file(name):
    """A cache snapshot of 3 tokens in 2 layers of 8 bytes, with a state of 4. Its checksums are zeros: the fuzz target
    puts in the header's itself."""
    tail = b"".join(text(part) for part in ["model", "0123", "run.isa", "avx2", "tokenizer", ""])
    tail += struct.pack("<3i", 5, 0, 7) + bytes(8)
    start = b"NGCACHE\n" + struct.pack("<IIQQQQQ", 2, 3, 56 + len(tail), 2, 8, 4, 3)
    (HERE / name).write_bytes(start + tail + bytes(2 * (8 + 8) + 4 + 8))


def main():
    cache_file("small.cache")
    scored = scored_vocabulary()
    values, tensors = llama_like("llama", 13, [])
    gguf("llama.gguf", 3, values + scored, tensors)
    values, tensors = llama_like("qwen2", 28, [("attn_q.bias", [WIDTH]), ("attn_k.bias", [2]),
                                               ("attn_v.bias", [2])])
    gguf("qwen2.gguf", 3, values + byte_vocabulary("qwen2"), tensors)
    values, tensors = llama_like("qwen3", 8, [("attn_q_norm.weight", [2]),
                                              ("attn_k_norm.weight", [2])])
    gguf("qwen3.gguf", 2, values + [("qwen3.vocab_size", U32, 8)], tensors)
    values, tensors = gpt2(28)
    gguf("gpt2.gguf", 3, values + byte_vocabulary("llama-bpe"), tensors)

    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    begin = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
    tokenizer_json("gpt2.tokenizer.json", None, [byte_level], begin)
    tokenizer_json("digits.tokenizer.json", {"type": "NFC"},
                   [{"type": "Digits", "individual_digits": True}, byte_level], begin[1:])


if __name__ == "__main__":
    main()
