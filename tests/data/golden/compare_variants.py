"""Compares ng-run with transformers on model folders that are made by rule of tiny random models: their indices, ties,
tensors, names and ids are changed one by one, in pairs and in threes.

    OMP_NUM_THREADS=1 python3 compare_variants.py --ng ../../../build/bin/ng-run [--n 200] [--seed 1] [--only 17]

Logits and what is generated are equal, or both refuse. That transformers makes weights up which the file does not hold
counts as its refusal. A difference is printed with its rules. Needs torch, transformers and safetensors.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

PROMPT = [5, 17, 200, 3, 44, 250, 99, 7, 121, 60, 280, 33]
SIZES = {"vocab_size": 320, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
OF_GPT2 = {"vocab_size": 320, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {"llama": {**SIZES, "tie_word_embeddings": False}, "qwen3": {**SIZES, "tie_word_embeddings": True}, "gemma3_text": SIZES, "mistral": {**SIZES, "sliding_window": None},
          "gpt2": OF_GPT2}


class Folder:
    """What a rule changes: shards are the weight files' tensors by name, index is None where there is one file."""

    def __init__(self, kind, rng):
        config = transformers.AutoConfig.for_model(kind, **MODELS[kind])
        torch.manual_seed(rng.randrange(1 << 30))
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.3 * torch.randn(weight.shape))
        model.tie_weights()
        self.config = json.loads(json.dumps(config.to_dict()))
        self.config["architectures"] = [type(model).__name__]
        tied = getattr(config, "tie_word_embeddings", True)
        tensors = {name: value.detach().clone() for name, value in model.state_dict().items() if not (tied and name == "lm_head.weight")}
        self.shards, self.index = {"model.safetensors": tensors}, None
        self.generation = {"do_sample": False}
        self.wte = "transformer.wte.weight" if kind == "gpt2" else "model.embed_tokens.weight"

    @property
    def weight_map(self):
        return (self.index or {}).get("weight_map", {})

    def any(self, rng):
        shard = self.shards[rng.choice(sorted(self.shards))]
        return shard, rng.choice(sorted(shard))

    def find(self, name):
        return next((shard for shard in self.shards.values() if name in shard), None)

    def rename(self, change):
        for file, shard in self.shards.items():
            self.shards[file] = {change(name): value for name, value in shard.items()}
        if self.weight_map:
            self.index["weight_map"] = {change(name): file for name, file in self.weight_map.items()}

    def write(self, folder):
        for file, shard in self.shards.items():
            save_file({name: value.contiguous() for name, value in shard.items()}, os.path.join(folder, file), metadata={"format": "pt"})
        for name, content in (("config.json", self.config), ("generation_config.json", self.generation), ("model.safetensors.index.json", self.index)):
            if content is not None:
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(content if isinstance(content, str) else json.dumps(content))


def split(rng, of):
    if of.index:
        return
    (shard,), n = of.shards.values(), rng.choice([2, 3])
    files = [f"model-{i + 1:05d}-of-{n:05d}.safetensors" for i in range(n)]
    place = {name: rng.choice(files) for name in shard}
    of.shards = {file: {name: value for name, value in shard.items() if place[name] == file} for file in files}
    of.shards = {file: shard for file, shard in of.shards.items() if shard}
    of.index = {"metadata": {"total_size": 1}, "weight_map": place}


def overlay(rng, of):
    split(rng, of)
    shard, name = of.any(rng)
    of.shards["overlay.safetensors"] = {name: shard[name] + 0.5}
    if rng.random() < 0.7:
        of.weight_map[name] = "overlay.safetensors"


def unnamed(rng, of):
    split(rng, of)
    shard, name = of.any(rng)
    shard[rng.choice([name + "_scale", "extra.weight", "model.layers.7.mlp.up_proj.weight"])] = torch.ones(4, 4)


def named(rng, of):
    split(rng, of)
    of.weight_map[rng.choice(["extra.weight", "model.layers.7.mlp.up_proj.weight"])] = rng.choice(sorted(of.shards) + ["gone.safetensors"])


def left_out(rng, of):
    split(rng, of)
    of.weight_map.pop(of.any(rng)[1], None)


def beside(rng, of):
    split(rng, of)
    of.shards["model.safetensors"] = {name: value + 0.1 for shard in of.shards.values() for name, value in shard.items()}


def file_name(rng, of):
    if not of.index:
        (shard,) = of.shards.values()
        of.shards = {rng.choice(["weights.safetensors", "model.fp16.safetensors"]): shard}


def index_odd(rng, of):
    split(rng, of)
    rng.choice([lambda: of.index.pop("metadata", None), lambda: of.index.update(metadata={}), lambda: of.index.update(more=1),
                lambda: of.index.update(weight_map={}), lambda: of.index.pop("weight_map", None)])()


def tie(rng, of):
    of.config["tie_word_embeddings"] = rng.choice([True, False])
    if rng.random() < 0.3:
        del of.config["tie_word_embeddings"]
    embedding, head = of.find(of.wte), of.find("lm_head.weight")
    if head is not None and rng.random() < 0.5:
        del head["lm_head.weight"]
    elif head is None and embedding is not None and rng.random() < 0.7:
        embedding["lm_head.weight"] = embedding[of.wte] + rng.choice([0, 0.1])
        if of.wte in of.weight_map:
            of.weight_map["lm_head.weight"] = of.weight_map[of.wte]


def only_head(rng, of):
    tie(rng, of)
    embedding, head = of.find(of.wte), of.find("lm_head.weight")
    if embedding is not None and head is not None:
        del embedding[of.wte]


IDS = [2, [2], 2.0, [2, 5], [2.0, 7], None, -1, 319, 320, 5000, [], [7], "2", True, [[2]]]


def ids(rng, of):
    key = rng.choice(["eos_token_id", "eos_token_id", "bos_token_id", "pad_token_id"])
    (of.config if rng.random() < 0.5 or not isinstance(of.generation, dict) else of.generation)[key] = rng.choice(IDS)


def generation(rng, of):
    of.generation = rng.choice([None, "", "{}", "\ufeff{}", "[]", "{", "null", {"eos_token_id": [44, 7], "transformers_version": "4.0"}, {"_from_model_config": True},
                                {"do_sample": False, "temperature": 0.5, "top_p": 0.9}, {"max_length": 20, "more": {"a": 1}}])


def bans(rng, of):
    if isinstance(of.generation, dict):
        some = rng.sample(range(320), 160)
        of.generation.update(rng.choice([{"suppress_tokens": some}, {"suppress_tokens": []}, {"suppress_tokens": None}, {"bad_words_ids": [[i] for i in some]},
                                         {"repetition_penalty": 1.3}, {"bad_words_ids": [[2], [5]]}]))


def prefix(rng, of):
    before = of.wte.split(".")[0] + "."
    rng.choice([lambda: of.rename(lambda name: name.removeprefix(before)), lambda: of.rename(lambda name: before + name),
                lambda: of.rename(lambda name: before + name if name.startswith(before) else name), lambda: of.rename(lambda name: "module." + name),
                lambda: of.rename(lambda name: "_orig_mod." + name)])()


def layers(rng, of):
    of.config["n_layer" if "n_layer" in of.config else "num_hidden_layers"] += rng.choice([-1, -1, 1])
    if isinstance(of.config.get("layer_types"), list) and rng.random() < 0.8:
        of.config["layer_types"] = (of.config["layer_types"] * 2)[:of.config["num_hidden_layers"]]


def more(rng, of):
    shard, name = of.any(rng)
    name = rng.choice(["model.layers.0.self_attn.rotary_emb.inv_freq", "extra", "lm_head.bias", name.removesuffix(".weight") + ".bias", name + "_scale", "transformer.h.0.attn.masked_bias"])
    shard.setdefault(name, torch.ones(4))
    of.weight_map.setdefault(name, next(file for file, tensors in of.shards.items() if tensors is shard))


def fewer(rng, of):
    shard, name = of.any(rng)
    if len(shard) > 1:
        del shard[name]
        of.weight_map.pop(name, None)


def dtype(rng, of):
    kind = rng.choice([torch.float16, torch.bfloat16, torch.bfloat16, torch.float64])
    for shard in of.shards.values():
        for name in rng.sample(sorted(shard), rng.choice([1, len(shard)])):
            shard[name] = shard[name].to(kind)


def shape(rng, of):
    shard, name = of.any(rng)
    shard[name] = rng.choice([lambda t: t[None], lambda t: t.t() if t.dim() == 2 else t, lambda t: t[:-1], lambda t: torch.cat([t, t[:1]])])(shard[name])


def rows(rng, of):
    of.config["vocab_size"] += rng.choice([-20, -1, 1, 20])


def key(rng, of):
    rng.choice([lambda: of.config.pop("architectures", None), lambda: of.config.update(architectures=["LlamaModel"]), lambda: of.config.update(architectures=[]),
                lambda: of.config.update(torch_dtype="float16"), lambda: of.config.update(dtype=None), lambda: of.config.update(rope_scaling=None),
                lambda: of.config.update(head_dim=None), lambda: of.config.update(num_key_value_heads=None), lambda: of.config.update(hidden_act="gelu"),
                lambda: of.config.update(attention_bias=None), lambda: of.config.update(more={"a": [1]}), lambda: of.config.update(rms_norm_eps=1),
                lambda: of.config.update(use_cache=False), lambda: of.config.update(transformers_version="9.9"), lambda: of.config.pop("rope_parameters", None),
                lambda: of.config.update(is_decoder=True), lambda: of.config.update(pad_token_id=None), lambda: of.config.pop("max_position_embeddings", None)])()


RULES = [split, overlay, unnamed, named, left_out, beside, file_name, index_odd, tie, tie, only_head, ids, ids, generation, bans, prefix, prefix, layers, more, more, fewer, dtype, shape,
         rows, key, key, key]


def reference(folder):
    try:
        model, told = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        made_up = [*told["missing_keys"], *told["mismatched_keys"]]
        if made_up:
            return f"makes up {made_up[:3]}"
        with torch.no_grad():
            prompt = torch.tensor([PROMPT])
            logits = model.eval()(prompt).logits[0].float()
            found = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, max_length=None)[0, len(PROMPT):].tolist()
        return logits, found
    except Exception as error:  # pylint: disable=broad-except
        return f"{type(error).__name__}: {str(error)[:300]}"


def ours(program, folder, of):
    saved = os.path.join(folder, "saved")
    # Where the folder says nothing of sampling, transformers takes the best, and ng draws.
    greedy = [] if isinstance(of.generation, dict) and "do_sample" in of.generation else ["--sampler.chain=greedy"]
    done = subprocess.run([program, "-m", folder, "--prompt-ids", " ".join(map(str, PROMPT)), "-n", "8", "--save", saved, "--save-tensors", "logits", "--output", "jsonl",
                           "--run.threads=1", "--model.weights=f32", *greedy], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return done.stderr.strip().split("\n")[-1]
    return load_file(saved)["logits.0"], json.loads(done.stdout.strip().split("\n")[-1])["ids"][len(PROMPT):]


def compare(a, b, of):
    if isinstance(a, str) or isinstance(b, str):
        return "both refuse" if isinstance(a, str) and isinstance(b, str) else "only transformers refuses" if isinstance(a, str) else "only ng refuses"
    near = a[0].shape == b[0].shape and (a[0] - b[0]).abs().max() < 1e-4 * a[0].abs().max()
    # transformers does not look for an end in config.json where a generation_config.json names none.
    ends = of.config.get("eos_token_id")
    ended = b[1] and b[1][-1] in (ends if isinstance(ends, list) else [ends])
    return "equal" if near and a[1][:len(b[1])] == b[1] and (len(a[1]) == len(b[1]) or ended) else "different"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ng", required=True)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    counts = {}
    for i in range(options.n) if options.only is None else [options.only]:
        rng = random.Random(options.seed * 100003 + i)
        kind = sorted(MODELS)[i % len(MODELS)]
        of = Folder(kind, rng)
        rules = [rng.choice(RULES) for _ in range(1 + i % 3)]
        for rule in rules:
            rule(rng, of)
        with tempfile.TemporaryDirectory() as folder:
            of.write(folder)
            b, a = ours(options.ng, folder, of), reference(folder)
        result = compare(a, b, of)
        counts[result] = counts.get(result, 0) + 1
        if result != "equal" or options.only is not None:
            print(i, kind, result, [rule.__name__ for rule in rules], "\n    transformers:", a if isinstance(a, str) else a[1], "\n    ng:", b if isinstance(b, str) else b[1], flush=True)
    print(json.dumps(counts))
    sys.exit(counts.get("different", 0) > 0)


if __name__ == "__main__":
    main()
