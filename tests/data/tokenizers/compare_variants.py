"""Compares ng-tokenize with transformers on folders that are made by rule of one tokenizer: their tokens, merges, names
and flags are changed one by one and in pairs.

    python3 compare_variants.py --ng ../../../build/bin/ng-tokenize [--n 200] [--seed 1]

Ids are equal, or both refuse. A difference is printed with the files that make it. Needs transformers.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["a<|new|>b <|two|>  c<|pad|>d", "x <|im_end|>\n<|im_start|>y<tool_call>z", "the quick <|three|>, isn't it? 12345\n\n", " <|new|> <|pad|> ",
         "<|im_end|<|im_end|><tool_call", "caf\u00e9 \u4f60\u597d <|two|><|two|>"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def token(rng, text, **more):
    return {"content": text, **{flag: rng.random() < 0.2 for flag in FLAGS}, **more}


def typed(rng, text):
    return {"__type": "AddedToken", **token(rng, text)}


# Each rule changes the files: {"tokenizer.json": ..., "tokenizer_config.json": ..., ...}.
def name(rng, files):
    key = rng.choice(["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token", "a_token"])
    text = rng.choice(["<|new|>", "<|two|>", "<|pad|>", "<tool_call>", "<|im_end|>", "he"])
    files["tokenizer_config.json"][key] = rng.choice([text, typed(rng, text)]) if key != "image_token" else text


def extra(rng, files):
    texts = rng.sample(["<|new|>", "<|two|>", "<|three|>", "<tool_call>"], 2)
    key = rng.choice(["extra_special_tokens", "additional_special_tokens"])
    named = {f"{i}_token": text for i, text in enumerate(texts)}
    files["tokenizer_config.json"][key] = named if key == "extra_special_tokens" and rng.random() < 0.5 else texts


def special_map(rng, files):
    files["special_tokens_map.json"] = {"pad_token": rng.choice(["<|pad|>", token(rng, "<|pad|>")]), "additional_special_tokens": ["<|new|>"],
                                        "eos_token": rng.choice(["<|im_end|>", "<|three|>"])}


def decoder(rng, files):
    first = rng.choice([515, 516, 517, 540])
    texts = rng.sample(["<|new|>", "<|two|>", "<tool_call>"], 2)
    files["tokenizer_config.json"]["added_tokens_decoder"] = {
        str(first + i): token(rng, text, special=rng.random() < 0.5) for i, text in enumerate(texts)}


def added(rng, files):
    first = rng.choice([516, 517, 530])
    files["added_tokens.json"] = {text: first + i for i, text in enumerate(rng.sample(["<|new|>", "<|two|>", "<|three|>"], 2))}


def flags(rng, files):
    one = rng.choice(files["tokenizer.json"]["added_tokens"])
    one[rng.choice(FLAGS + ("special",))] ^= True


def ids(rng, files):
    rng.choice(files["tokenizer.json"]["added_tokens"])["id"] += rng.choice([1, 7, 100])


def more(rng, files):
    tokens = files["tokenizer.json"]["added_tokens"]
    tokens.append(token(rng, rng.choice(["<|new|>", "<|two|>", "he", "q", "<|im_end|><tool", "a<"]), special=rng.random() < 0.5, id=512 + len(tokens)))


def fewer(rng, files):
    tokens = files["tokenizer.json"]["added_tokens"]
    tokens.pop(rng.randrange(len(tokens)))


def merges(rng, files):
    merges = files["tokenizer.json"]["model"]["merges"]
    at = rng.randrange(len(merges))
    rng.choice([lambda: merges.append(merges[at]), lambda: merges.insert(0, merges[at]), lambda: merges.insert(0, "#version: 0.2"),
                lambda: merges.pop(), lambda: files["tokenizer.json"]["model"].update(ignore_merges=True)])()


def steps(rng, files):
    rng.choice([lambda: files["tokenizer.json"].update(normalizer=None), lambda: files["tokenizer.json"].update(normalizer={"type": "Lowercase"}),
                lambda: files["tokenizer.json"].update(normalizer={"type": "Sequence", "normalizers": [
                    {"type": "NFKC"}, {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}]}),
                lambda: files["tokenizer.json"].update(post_processor=None)])()


RULES = [name, name, extra, special_map, decoder, added, flags, flags, ids, more, more, fewer, merges, steps]


def reference(folder):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def ours(program, folder):
    lines = "".join(json.dumps({"text": text, "parse_special": True}) + "\n" for text in TEXTS)
    done = subprocess.run([program, "--tokenizer", folder, "--jsonl"], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ng", required=True)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    base = json.load(open(os.path.join(HERE, "bbpe_qwen2", "tokenizer.json")))
    counts = {"equal": 0, "both refuse": 0, "only ng refuses": 0, "only transformers refuses": 0, "different": 0}
    for i in range(options.n):
        rng = random.Random(options.seed * 100003 + i)
        files = {"tokenizer.json": json.loads(json.dumps(base)), "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
                 "config.json": {"model_type": "llama"}}
        rules = [rng.choice(RULES) for _ in range(1 + i % 3)]
        for rule in rules:
            rule(rng, files)
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                json.dump(content, open(os.path.join(folder, path), "w"))
            a, b = reference(folder), ours(options.ng, folder)
        kind = ("equal" if a == b else "different") if isinstance(a, list) and isinstance(b, list) else \
            "only ng refuses" if isinstance(a, list) else "only transformers refuses" if isinstance(b, list) else "both refuse"
        counts[kind] += 1
        if kind in ("different", "only ng refuses"):
            shown = {key: value for key, value in files.items() if key != "tokenizer.json"}
            print(i, kind, [rule.__name__ for rule in rules], json.dumps(shown), json.dumps(files["tokenizer.json"]["added_tokens"]))
            if isinstance(b, str):
                print("   ", b)
            for text, one, other in zip(TEXTS, a, b if isinstance(b, list) else []):
                if one != other:
                    print("   ", repr(text), one, other)
    print(json.dumps(counts))
    sys.exit(counts["different"] > 0)


if __name__ == "__main__":
    main()
