"""A model of two small layers with random weights, for a tokenizer.json of bytes."""
import json
import random
import shutil
import struct

WIDTH, FFN, LAYERS, HEADS, POSITIONS = 24, 40, 2, 3, 512


def write(folder, tokenizer):
    folder.mkdir()
    shutil.copy(tokenizer, folder / "tokenizer.json")
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))
    eos = next(token["id"] for token in vocabulary["added_tokens"] if token["content"] == "<|endoftext|>")
    size = len(vocabulary["model"]["vocab"]) + len(vocabulary["added_tokens"])
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": WIDTH, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": size,
        "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "eos_token_id": eos, "tie_word_embeddings": False, "torch_dtype": "float32"}))
    shapes = {"model.embed_tokens.weight": [size, WIDTH], "model.norm.weight": [WIDTH],
              "lm_head.weight": [size, WIDTH]}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name in "qkvo":
            shapes[f"{layer}self_attn.{name}_proj.weight"] = [WIDTH, WIDTH]
        shapes |= {layer + "mlp.gate_proj.weight": [FFN, WIDTH], layer + "mlp.up_proj.weight": [FFN, WIDTH],
                   layer + "mlp.down_proj.weight": [WIDTH, FFN], layer + "input_layernorm.weight": [WIDTH],
                   layer + "post_attention_layernorm.weight": [WIDTH]}
    save(folder / "model.safetensors", shapes)


def save(path, shapes):
    source = random.Random(1)
    header, body = {}, b""
    for name, shape in shapes.items():
        n = shape[0] * (shape[1] if len(shape) == 2 else 1)
        # Norms are 1; the rest is large enough for logits that differ.
        values = [1.0] * n if len(shape) == 1 else [source.gauss(0, 0.4) for _ in range(n)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 4 * n]}
        body += struct.pack(f"<{n}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
