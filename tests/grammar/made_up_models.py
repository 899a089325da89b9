"""Models with random weights and a vocabulary of bytes, as folders that ng-run opens."""
import array
import json
import random
import shutil
import struct

TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 24,
        "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False}
END = "<|endoftext|>"


def write_tiny(folder, tokenizer, end_token=END, seed=1):
    """Two small layers for a tokenizer.json of bytes."""
    folder.mkdir()
    shutil.copy(tokenizer, folder / "tokenizer.json")
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))
    end = next(token["id"] for token in vocabulary["added_tokens"] if token["content"] == end_token)
    size = len(vocabulary["model"]["vocab"]) + len(vocabulary["added_tokens"])
    write_weights(folder, TINY | {"vocab_size": size, "eos_token_id": end}, 0.4, seed)


def write_shape(folder, config, n_tokens):
    """The llama of a config.json with so many made-up tokens."""
    folder.mkdir()
    source = random.Random(1)
    # As byte-level BPE spells bytes.
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs = {byte: chr(byte) for byte in printed}
    signs |= {byte: chr(256 + i) for i, byte in enumerate(sorted(set(range(256)) - set(printed)))}
    texts = dict.fromkeys(bytes([byte]) for byte in range(256))
    marks = [b'"', b'":', b'": ', b'", "', b'"}', b'},', b'{"', b'[{', b' {', b'\n', b'  ', b'();', b'...']
    while len(texts) < n_tokens - 1:
        word = "".join(source.choices("etaoinshrdlucmfwypvbgkjqxz", range(26, 0, -1), k=source.randint(2, 9))).encode()
        kind = source.random()
        if kind < 0.45:
            word = b" " + word
        elif kind < 0.6:
            word = b" " + word.capitalize()
        elif kind < 0.65:
            word = source.choice(marks) + source.choice([word, *marks])
        elif kind < 0.75:
            word = "".join(chr(source.randint(0x400, 0x9fff)) for _ in range(source.randint(1, 3))).encode()
        elif kind < 0.78:
            word = str(source.randrange(1000)).encode()
        texts[word] = None
    vocabulary = {"".join(signs[byte] for byte in text): i for i, text in enumerate(texts)}
    end = {"id": len(vocabulary), "content": END, "special": True, "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    write_weights(folder, config | {"vocab_size": len(vocabulary) + 1, "eos_token_id": end["id"]}, 0.05)


def write_weights(folder, config, deviation, seed=1):
    """bf16; the same 65521 numbers again and again, so that no two rows are alike."""
    (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "bfloat16"}))
    source = random.Random(seed)
    block = array.array("H", (bfloat16(source.gauss(0, deviation)) for _ in range(65521))).tobytes()
    header, at = {}, 0
    shapes = tensors(config)
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            begin, end = header[name]["data_offsets"]
            if len(shape) == 1:  # a norm
                file.write(struct.pack("<H", bfloat16(1.0)) * shape[0])
                continue
            turn = 2 * (begin // 2 % 65521)
            turned = block[turn:] + block[:turn]
            whole, rest = divmod(end - begin, len(block))
            for _ in range(whole):
                file.write(turned)
            file.write(turned[:rest])


def bfloat16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def tensors(config):
    """The shapes of a llama's tensors by their names."""
    width, ffn, size = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = width // config["num_attention_heads"] * config["num_key_value_heads"]
    found = {"model.embed_tokens.weight": [size, width], "model.norm.weight": [width]}
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = [size, width]
    for i in range(config["num_hidden_layers"]):
        found |= {f"model.layers.{i}.{name}.weight": shape for name, shape in {
            "self_attn.q_proj": [width, width], "self_attn.k_proj": [kv, width], "self_attn.v_proj": [kv, width],
            "self_attn.o_proj": [width, width], "mlp.gate_proj": [ffn, width], "mlp.up_proj": [ffn, width],
            "mlp.down_proj": [width, ffn], "input_layernorm": [width], "post_attention_layernorm": [width],
        }.items()}
    return found
