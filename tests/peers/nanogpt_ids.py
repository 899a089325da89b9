#!/usr/bin/env python3
"""What nanoGPT's generate makes of a prompt, greedily: nanogpt_ids.py FOLDER "1 2 3" N.

FOLDER holds config.json and model.safetensors as ng reads them. Prints JSON with the prompt's ids
and all ids; beyond the context each step sees the last ones that fit. The files beyond_context.json
of tests/data/golden/nanogpt are its output.
"""
import argparse
import json
import pathlib

import torch
from safetensors.torch import load_file

from nanogpt import NanoGpt


def main():
    """Reads the model, generates, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("ids", help="the prompt")
    parser.add_argument("n_new", type=int)
    args = parser.parse_args()
    model = NanoGpt(json.loads((args.folder / "config.json").read_text())).eval()
    weights = load_file(args.folder / "model.safetensors")
    head = weights.pop("lm_head.weight", None)
    if head is not None:
        weights["transformer.wte.weight"] = head
    model.load_state_dict(weights)
    prompt = torch.tensor([[int(i) for i in args.ids.split()]])
    ids = model.generate(prompt, args.n_new, lambda logits: logits.argmax(-1, keepdim=True))
    print(json.dumps({"prompt_ids": prompt[0].tolist(), "ids": ids[0].tolist()}))


if __name__ == "__main__":
    main()
