#!/usr/bin/env python3
"""Random weights of one shape for every engine: make_models.py DIR [--shape 135m].

The same numbers are written as a Hugging Face folder (ng, transformers), as GGUF files in f32,
bf16, q8_0, q4_0 and q4_K_M (llama.cpp, quantised by llama.cpp itself) and as a CTranslate2 model
of int8.
"""
import argparse
import ctypes
import json
import pathlib
import tempfile

import ctranslate2
import gguf
import llama_cpp
import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SHAPES = pathlib.Path(__file__).parent / "shapes"
GGUF_TYPES = {"bf16": 32, "q8_0": 7, "q4_0": 2, "q4_K_M": 15}  # llama.cpp's llama_ftype
LLAMA_LAYER = {  # GGUF's name of a layer's tensor -> the Hugging Face name
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def token_names(vocab_size):
    """Made-up tokens: three special ones, the 256 bytes, then t259, t260, ..."""
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    return names + [f"t{i}" for i in range(len(names), vocab_size)]


def interleaved(rows, n_heads):
    """Rows of a q or k projection from half-split RoPE order to GGUF's pairs of neighbours."""
    head_dim = rows.shape[0] // n_heads
    return rows.reshape(n_heads, 2, head_dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write_gguf_header(writer, config):
    """Metadata and a tokenizer without merges, enough for llama.cpp to load the model."""
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(0)
    names = token_names(config["vocab_size"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list([name.encode() for name in names])
    writer.add_token_scores([-float(i) for i in range(len(names))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(names) - 259))
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])


def write_gguf(path, config, weights):
    """The model as an f32 GGUF file; `weights` by their Hugging Face names."""
    writer = gguf.GGUFWriter(path, "llama")
    write_gguf_header(writer, config)
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"])
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for layer in range(config["num_hidden_layers"]):
        for name, source in LLAMA_LAYER.items():
            tensor = weights[f"model.layers.{layer}.{source}.weight"]
            if name in heads:
                tensor = np.ascontiguousarray(interleaved(tensor, heads[name]))
            writer.add_tensor(f"blk.{layer}.{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantise(source, target, ftype):
    """One GGUF file from another, by llama.cpp."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = ftype
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(),
                                      ctypes.byref(params)):
        raise SystemExit(f"{source}: llama.cpp cannot quantise it to {target}")


def write_ctranslate2(path, config, folder):
    """The folder's model as CTranslate2's int8. It wants a tokenizer, so it gets a made-up one."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in folder.iterdir():
            (pathlib.Path(scratch) / file.name).symlink_to(file.resolve())
        vocabulary = {name: i for i, name in enumerate(token_names(config["vocab_size"]))}
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")),
            unk_token="<unk>", bos_token="<s>", eos_token="</s>")
        tokenizer.save_pretrained(scratch)
        ctranslate2.converters.TransformersConverter(scratch).convert(
            str(path), quantization="int8", force=True)


def make(directory, shape):
    """All files of one shape; those that are there already are kept."""
    config = json.loads((SHAPES / f"{shape}.json").read_text())
    folder = directory / f"llama-{shape}-f32"
    if not folder.exists():
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**config)).eval().save_pretrained(folder)
    plain = directory / f"llama-{shape}-f32.gguf"
    if not plain.exists():
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        write_gguf(plain, config, {k: v.numpy() for k, v in model.state_dict().items()})
    for name, ftype in GGUF_TYPES.items():
        target = directory / f"llama-{shape}-{name}.gguf"
        if not target.exists():
            quantise(plain, target, ftype)
    converted = directory / f"llama-{shape}-ct2"
    if not converted.exists():
        write_ctranslate2(converted, config, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--shape", default="135m",
                        choices=sorted(file.stem for file in SHAPES.glob("*.json")))
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    make(arguments.directory, arguments.shape)
