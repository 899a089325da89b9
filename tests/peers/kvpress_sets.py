#!/usr/bin/env python3
"""Which tokens a cache with a budget keeps, against kvpress: kvpress_sets.py.

Makes tiny random llama and qwen3 models, and prompts of random ids. kvpress drops part of each
prompt's keys and values behind its last token; ng-run does the same with cache.budget.when = prompt
and says with --kept what is left. Compared are the sets of positions of each layer and kv head. Sets
that differ only in positions whose scores are equal, or nearly, in kvpress itself are counted apart:
both are right, and kvpress does not say which one it takes.

Needs an environment of its own: pip install torch 'transformers<5.3' 'kvpress==0.5.*'
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from kvpress import (AdaKVPress, ExpectedAttentionPress, KeyDiffPress, KnormPress, LagKVPress,
                     ObservedAttentionPress, PyramidKVPress, SnapKVPress, StreamingLLMPress, TOVAPress)

HERE = pathlib.Path(__file__).resolve().parent
RATIOS = (0.25, 0.5, 0.75)  # that leave
LAG = 32
WINDOW = 16
SHAPE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 300,
         "max_position_embeddings": 2048, "rope_theta": 10000.0, "tie_word_embeddings": False,
         "initializer_range": 0.2}

# For each policy: kvpress's press, and what ng is told beside the ratio.
NOTHING_ASIDE = ["--cache.budget.sinks=0", "--cache.budget.recent=0"]
ADAPTIVE = ["--cache.budget.heads=adaptive", "--cache.budget.safeguard=0.2"]
POLICIES = {
    "window": (lambda ratio: StreamingLLMPress(compression_ratio=ratio, n_sink=4),
               ["--cache.budget.sinks=4", "--cache.budget.recent=0"]),
    "knorm": (lambda ratio: KnormPress(compression_ratio=ratio), NOTHING_ASIDE),
    "keydiff": (lambda ratio: KeyDiffPress(compression_ratio=ratio), NOTHING_ASIDE),
    "lagkv": (lambda ratio: LagKVPress(compression_ratio=ratio, n_sink=4, lag_size=LAG),
              NOTHING_ASIDE + [f"--policy.lagkv.lag={LAG}", "--policy.lagkv.sinks=4"]),
    "observed": (lambda ratio: ObservedAttentionPress(compression_ratio=ratio),
                 NOTHING_ASIDE + ["--policy.observed.by=mean"]),
    # Of the mean over all heads, and the newest token stays.
    "tova": (lambda ratio: TOVAPress(compression_ratio=ratio),
             ["--cache.budget.sinks=0", "--cache.budget.recent=1", "--cache.budget.per=layer"]),
    "snapkv": (lambda ratio: SnapKVPress(compression_ratio=ratio, window_size=WINDOW),
               NOTHING_ASIDE + [f"--policy.snapkv.queries={WINDOW}"]),
    "expected_attention": (lambda ratio: ExpectedAttentionPress(compression_ratio=ratio),
                           NOTHING_ASIDE),
    # The policy is what stands before the blank.
    "snapkv in a pyramid": (
        lambda ratio: PyramidKVPress(compression_ratio=ratio, window_size=WINDOW, beta=4),
        ["--cache.budget.sinks=0", f"--cache.budget.recent={WINDOW}", "--cache.budget.layers=pyramid",
         "--cache.budget.beta=4", f"--policy.snapkv.queries={WINDOW}"]),
    "knorm over heads": (lambda ratio: AdaKVPress(KnormPress(compression_ratio=ratio)),
                         NOTHING_ASIDE + ADAPTIVE),
    # kvpress gives the last queries the best score of all heads, so they stay in every head.
    "snapkv over heads": (
        lambda ratio: AdaKVPress(SnapKVPress(compression_ratio=ratio, window_size=WINDOW)),
        ["--cache.budget.sinks=0", f"--cache.budget.recent={WINDOW}",
         f"--policy.snapkv.queries={WINDOW}"] + ADAPTIVE),
}


def make_model(kind, folder):
    """A random model, as its folder and as transformers runs it."""
    torch.manual_seed(7 if kind == "llama" else 8)
    config, model = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM)}[kind]
    made = model(config(**SHAPE, attn_implementation="eager")).float().eval()
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if "norm" in name:  # else the keys of qwen3 would all be as long
                weights.add_(0.3 * torch.randn_like(weights))
    made.save_pretrained(folder)
    return made


def make_prompts(count):
    """Random ids, 200 to 500 of them."""
    generator = torch.Generator().manual_seed(11)
    prompts = []
    for _ in range(count):
        length = int(torch.randint(200, 500, (1,), generator=generator))
        prompts.append(torch.randint(0, SHAPE["vocab_size"], (length,), generator=generator).tolist())
    return prompts


def kept_by_kvpress(model, press, ids):
    """{(layer, head): (positions that stay, scores of all)}"""
    found = {}
    compress = press.compress
    over_heads = isinstance(press, AdaKVPress)
    scorer = press.press if over_heads else press

    def looked_at(module, hidden_states, keys, values, attentions, kwargs):
        scores = scorer.score(module, hidden_states, keys, values, attentions, kwargs).clone()
        left, left_values = compress(module, hidden_states, keys, values, attentions, kwargs)
        if over_heads:  # what leaves is masked
            masked = collections.defaultdict(set)
            _, heads, positions = module.masked_key_indices
            for head, position in zip(heads.tolist(), positions.tolist()):
                masked[head].add(position)
            for head in range(keys.shape[1]):
                everything = set(range(keys.shape[2]))
                found[module.layer_idx, head] = (everything - masked[head],
                                                 scores[0, head].double().tolist())
            module.masked_key_indices = None
            return left, left_values
        for head in range(keys.shape[1]):
            # No two keys are alike, for each is rotated to its position.
            places = {row.numpy().tobytes(): i for i, row in enumerate(keys[0, head])}
            positions = {places[row.numpy().tobytes()] for row in left[0, head]}
            found[module.layer_idx, head] = (positions, scores[0, head].double().tolist())
        return left, left_values

    press.compress = looked_at
    model.set_attn_implementation("sdpa" if over_heads else "eager")  # as kvpress asks for it
    with torch.no_grad(), press(model):
        model.model(torch.tensor([ids]), past_key_values=transformers.DynamicCache())
    return found


def kept_by_ng(options, folder, policy, ratio, prompts, work):
    """For each prompt {(layer, head): positions that stay}."""
    lines = work / "prompts.jsonl"
    lines.write_text("".join(json.dumps({"prompt_ids": ids, "context_tokens": len(ids)}) + "\n"
                             for ids in prompts))
    kept = work / "kept.jsonl"
    command = [options.ng, "-m", str(folder), "--prompts", str(lines), "--kept", str(kept), "-n",
               "1", "--output", "jsonl", "--cache.name=budget", "--cache.budget.when=prompt",
               f"--cache.budget.ratio={1 - ratio!r}", f"--cache.budget.policy={policy.split()[0]}",
               "--run.stop_ids=", "--sampler.chain=greedy", *POLICIES[policy][1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    sets = collections.defaultdict(dict)
    for line in kept.read_text().splitlines():
        head = json.loads(line)
        sets[head["index"]][head["layer"], head["kv_head"]] = set(head["held"])
    return sets


def near_tie(scores, only_here, only_there):
    """Whether those that one keeps are worth as much as those that the other keeps."""
    values = [scores[i] for i in only_here | only_there]
    size = max(abs(value) for value in scores) or 1.0
    return max(values) - min(values) <= 2e-6 * size


def near_tie_in_layer(ours, theirs, layer):
    """The same of all heads of a layer, which share one budget."""
    heads = [place for place in theirs if place[0] == layer]
    values = [theirs[place][1][i] for place in heads
              for i in ours.get(place, set()) ^ theirs[place][0]]
    size = max(abs(value) for place in heads for value in theirs[place][1]) or 1.0
    as_many = sum(len(ours.get(place, set())) - len(theirs[place][0]) for place in heads) == 0
    return as_many and max(values) - min(values) <= 2e-6 * size


def compare(options, kind, policy, work):
    folder = work / kind
    model = make_model(kind, folder)
    prompts = make_prompts(options.prompts)
    total = equal = ties = 0
    for ratio in RATIOS:
        ours = kept_by_ng(options, folder, policy, ratio, prompts, work)
        for i, ids in enumerate(prompts):
            theirs = kept_by_kvpress(model, POLICIES[policy][0](ratio), ids)
            for place, (positions, scores) in theirs.items():
                total += 1
                held = ours[i].get(place, set())
                if held == positions:
                    equal += 1
                elif "over heads" in policy and near_tie_in_layer(ours[i], theirs, place[0]):
                    ties += 1
                elif "over heads" not in policy and len(held) == len(positions) and near_tie(
                        scores, held - positions, positions - held):
                    ties += 1
                elif options.verbose:
                    print(f"{kind} {policy} {ratio} prompt {i} {place}: ng alone "
                          f"{sorted(held - positions)}, kvpress alone {sorted(positions - held)}")
    return total, equal, ties


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ng", default=str(HERE.parents[1] / "build/bin/ng-run"))
    parser.add_argument("--policies", default="", help="default: all that ng has")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--verbose", action="store_true", help="show each set that differs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    listed = subprocess.run([options.ng, "--list-plugins"], capture_output=True, text=True,
                            check=True).stdout
    policies = options.policies.split(",") if options.policies else [
        policy for policy in POLICIES if f"policy {policy.split()[0]} " in listed]
    print("| policy | model | sets | equal | equal but for ties | |\n|---|---|---|---|---|---|")
    worst = 1.0
    with tempfile.TemporaryDirectory() as work:
        for policy in policies:
            for kind in ("llama", "qwen3"):
                total, equal, ties = compare(options, kind, policy, pathlib.Path(work))
                share = (equal + ties) / total
                worst = min(worst, share)
                print(f"| `{policy}` | {kind} | {total} | {equal} | {ties} | {100 * share:.2f} % |",
                      flush=True)
    return 0 if worst >= 0.999 else 1


if __name__ == "__main__":
    sys.exit(main())
