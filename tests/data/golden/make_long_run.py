"""Makes phi3/tiny/long_run.json with transformers: a prompt beyond the original positions of longrope, the
greedy ids behind it, each step computed anew, and the logits of the prompt's last token and of the first.

    python make_long_run.py     # needs torch, transformers (made with 5.23.0)
"""

import json
import pathlib

import torch
from transformers import AutoModelForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parent / "phi3/tiny"
PROMPT = list(range(40))
NEW_TOKENS = 8


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def main():
    model = AutoModelForCausalLM.from_pretrained(FOLDER, attn_implementation="eager").eval()
    assert len(PROMPT) > model.config.original_max_position_embeddings
    rows = logits(model, PROMPT)
    ids = list(PROMPT)
    for _ in range(NEW_TOKENS):
        ids.append(int(logits(model, ids)[-1].argmax()))
    case = {"prompt_ids": PROMPT, "ids": ids, "first_logits": rows[0].tolist(),
            "last_logits": rows[-1].tolist()}
    (FOLDER / "long_run.json").write_text(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
