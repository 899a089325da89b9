"""Makes blocks.safetensors: random blocks of every quantised type, and the values they stand for.

    python make_blocks.py [DIR]     # needs numpy, safetensors, gguf (made with 0.19.0)

<TYPE>.blocks are bytes, <TYPE>.values what the gguf package computes of them in float32.
"""

import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

# Where the f16 numbers of a block are; all other bytes may be anything.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
          "MXFP4": [], "IQ3_XXS": [0], "IQ3_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
          "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64]}


def main(folder):
    random = np.random.default_rng(5)
    tensors = {}
    for name, halves in HALVES.items():
        dtype = GGMLQuantizationType[name]
        n_values, n_bytes = GGML_QUANT_SIZES[dtype]
        n_blocks = 6 if n_values == 32 else 3
        blocks = random.integers(0, 256, (n_blocks, n_bytes), dtype=np.uint8)
        for at in halves:
            numbers = (random.standard_normal(n_blocks) * 0.05).astype(np.float16)
            numbers[0] = np.float16(3e-6)  # below the smallest normal number
            blocks[:, at:at + 2] = numbers.view(np.uint8).reshape(n_blocks, 2)
        if name == "MXFP4":  # a power of two; the first two are below the normal numbers
            blocks[:, 0] = 110 + blocks[:, 0] % 32
            blocks[:3, 0] = [0, 1, 252]
        if name == "IQ1_M":  # 4 bits of the f16 number at the top of each of the last 4 words
            numbers = (random.standard_normal(n_blocks) * 0.05).astype(np.float16)
            numbers[0] = np.float16(3e-6)
            for i in range(4):
                four = (numbers.view(np.uint16) >> (4 * i) & 15).astype(np.uint8)
                blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | four << 4
        tensors[name + ".blocks"] = blocks.reshape(-1)
        tensors[name + ".values"] = dequantize(blocks, dtype).astype(np.float32).reshape(-1)
    save_file(tensors, folder / "blocks.safetensors")


main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
