#!/usr/bin/env python3
"""Quantised caches where the cache is large: cache.py MODELS [--shape 135m].

ng's caches int8 and int4 (K int8, V int4) against its own bf16, and against llama.cpp's q8_0, all
with 8-bit weights: prefill of a long prompt and decode behind one. As in compare.py every round
starts each once, and the ratios are of the medians over the rounds.
"""
import argparse
import pathlib
import statistics

from compare import HERE, Contender, run_rounds
from compare import Comparison as Row

DEPTH = "8000"
NG = {codec: Contender("ng", "int8", codec) for codec in ("bf16", "int8", "int4")}
LLAMA_CPP = Contender("llama_cpp", "int8", "q8_0")
GOALS = {
    Row("prefill", NG["int8"], NG["bf16"]): 0.97,
    Row("prefill", NG["int4"], NG["bf16"]): 0.97,
    Row(DEPTH, NG["int8"], NG["bf16"]): 1.25,
    Row(DEPTH, NG["int4"], NG["bf16"]): 1.35,
    Row("prefill", NG["int8"], LLAMA_CPP): 2.0,
    Row(DEPTH, NG["int8"], LLAMA_CPP): 2.0,
}


def main():
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path, help="make_models.py's folder")
    parser.add_argument("--bench", default=HERE.parents[1] / "build/bin/ng-bench")
    parser.add_argument("--shape", default="135m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    results = run_rounds(args.shape, GOALS, args)
    print(f"\n### {args.shape}, 8-bit weights\n")
    print("| | cache | against | tok/s | tok/s | ratio | goal |")
    print("|---|---|---|---|---|---|---|")
    for row, goal in GOALS.items():
        ours, theirs = (statistics.median(results[side][row.what]) for side in (row.ng, row.peer))
        what = (f"prefill of {args.prompt}" if row.what == "prefill"
                else f"decode at depth {row.what}")
        print(f"| {what} | {row.ng.cache} | {row.peer.engine} {row.peer.cache} | {ours:.1f} "
              f"| {theirs:.1f} | {ours / theirs:.2f} | {goal:.2f} |")


if __name__ == "__main__":
    main()
