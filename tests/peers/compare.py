#!/usr/bin/env python3
"""ng against its peers, interleaved in one run: compare.py MODELS [--shape 135m ...].

Every round starts each engine once, one after the other, as a process of its own that loads, warms
up and measures; the ratios are of the medians over the rounds. MODELS is make_models.py's folder.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass

from peers import PEERS

HERE = pathlib.Path(__file__).resolve().parent
GGUF_TYPE = {"f32": "f32", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}  # of the same weights
GGUF_FILES = ("q8_0", "q4_0", "q4_K_M")  # files that ng reads too, as they are
DEEP = 4096
# What ng is to reach: ng / peer by peer, discipline and weights, for the shapes 135m and 1b; and the
# share of the read bandwidth at depth 0.
GOALS = {
    ("llama_cpp", "prefill"): {"f32": (1.35, 1.3), "bf16": (1.5, 1.4), "int8": (3.2, 2.8),
                               "int4": (2.5, 2.2), "q8_0": (3.2, 2.8), "q4_0": (2.5, 2.2),
                               "q4_K_M": (2.0, 1.8)},
    ("llama_cpp", "0"): {"f32": (1.0, 1.0), "bf16": (1.0, 1.0), "int8": (1.5, 1.1),
                         "int4": (1.4, 1.1), "q8_0": (1.5, 1.1), "q4_0": (1.4, 1.1),
                         "q4_K_M": (1.4, 1.1)},
    ("llama_cpp", str(DEEP)): {"f32": (1.35,), "bf16": (1.75,), "int8": (2.2,), "int4": (2.5,)},
    ("transformers", "prefill"): {"f32": (1.5,), "bf16": (1.2,)},
    ("transformers", "0"): {"f32": (3.0,), "bf16": (3.0,)},
    ("ctranslate2", "prefill"): {"int8": (1.5,)},
}
GOAL_SHAPES = ("135m", "1b")
BANDWIDTH_GOALS = {"f32": 0.90, "bf16": 0.90, "int8": 0.90, "int4": 0.80, "q8_0": 0.90}


@dataclass(frozen=True)
class Contender:
    """An engine with its settings: what is started once a round."""

    engine: str  # "ng" or one of peers.py
    weights: str
    cache: str

    def __str__(self):
        return f"{self.engine}, {self.weights} weights, {self.cache} cache"


@dataclass(frozen=True)
class Comparison:
    """One row of the table: ng and a peer in one discipline."""

    what: str  # "prefill", or the depth of a decode
    ng: Contender
    peer: Contender

    def goal(self, shape):
        """What the ratio is to reach, as text: nothing where no goal is set."""
        goals = GOALS.get((self.peer.engine, self.what), {}).get(self.ng.weights, ())
        goal = dict(zip(GOAL_SHAPES, goals)).get(shape)
        return f"{goal:.2f}" if goal else ""


def comparisons(weights, peers, deep):
    """The rows: each peer with the weights and the cache that it has in common with ng."""
    rows = []
    for kind in weights:
        if "llama_cpp" in peers:
            # 16 bits on both sides, each engine's faster kind.
            ng, peer = Contender("ng", kind, "bf16"), Contender("llama_cpp", kind, "f16")
            rows += [Comparison("prefill", ng, peer), Comparison("0", ng, peer)]
            if deep:
                rows.append(Comparison(str(DEEP), ng, peer))
        if "transformers" in peers and kind in ("f32", "bf16"):
            ng, peer = Contender("ng", kind, kind), Contender("transformers", kind, kind)
            rows += [Comparison("prefill", ng, peer), Comparison("0", ng, peer)]
        if "ctranslate2" in peers and kind == "int8":
            ng, peer = Contender("ng", kind, "bf16"), Contender("ctranslate2", kind, "f32")
            rows += [Comparison("prefill", ng, peer), Comparison("0", ng, peer)]
    return rows


def command(contender, shape, args, depths):
    """How a contender is started on a shape."""
    folder = args.models / f"llama-{shape}-f32"
    gguf = args.models / f"llama-{shape}-{GGUF_TYPE.get(contender.weights, contender.weights)}.gguf"
    counts = ["--threads", str(args.threads)]
    if contender.engine == "ng":
        same_file = contender.weights in GGUF_FILES
        return [args.bench, f"--model.path={gguf if same_file else folder}",
                f"--model.weights={'auto' if same_file else contender.weights}",
                f"--cache.codec={contender.cache}", "--output=jsonl", "--repeat=1",
                f"--prompt-tokens={args.prompt}", f"--decode-tokens={args.generate}",
                f"--depth={','.join(depths)}", *counts]
    model = {"llama_cpp": gguf, "transformers": folder,
             "ctranslate2": args.models / f"llama-{shape}-ct2"}[contender.engine]
    return [sys.executable, HERE / "peers.py", contender.engine, model,
            "--weights", contender.weights, "--cache", contender.cache,
            "--prompt", str(args.prompt), "--generate", str(args.generate),
            "--depths", ",".join(depths), *counts]


def measure(contender, shape, args, depths):
    """One turn of a contender: its rates by discipline, and for ng its shares of the machine."""
    run = subprocess.run([str(part) for part in command(contender, shape, args, depths)],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        error = (run.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{contender}: exit {run.returncode}: {error}", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    if contender.engine != "ng":
        return {"prefill": lines[0]["prefill_tok_s"], **lines[0]["decode_tok_s"]}
    rates = {"prefill": lines[0]["prefill_tok_s"], "peak": lines[0]["share_of_peak"],
             "read_gb_s": lines[0]["read_gb_s"], "peak_gop_s": lines[0]["peak_gop_s"]}
    for line in lines:
        rates[str(line["depth"])] = line["decode_tok_s"]
        rates[f"bandwidth at {line['depth']}"] = line["share_of_bandwidth"]
    return rates


def run_rounds(shape, rows, args):
    """All contenders in turn, round after round: {contender: {discipline: [rate, ...]}}."""
    contenders = list(dict.fromkeys(side for row in rows for side in (row.ng, row.peer)))
    depths = {side: sorted({row.what for row in rows if row.what != "prefill"
                            and side in (row.ng, row.peer)}, key=int) for side in contenders}
    results = {side: {} for side in contenders}
    for number in range(args.rounds):
        for side in list(contenders):
            print(f"{shape}, round {number + 1} of {args.rounds}: {side}", file=sys.stderr)
            rates = measure(side, shape, args, depths[side])
            if rates is None:
                contenders.remove(side)
                continue
            for what, rate in rates.items():
                results[side].setdefault(what, []).append(rate)
    return results


def print_ratios(shape, rows, results):
    """The table of ratios as markdown."""
    print(f"\n### {shape}: ng / peer\n")
    print("| | ng weights, cache | peer | ng, tok/s | peer, tok/s | ratio | goal |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        rates = [results[side].get(row.what) for side in (row.ng, row.peer)]
        what = "prefill" if row.what == "prefill" else f"decode at depth {row.what}"
        peer = row.peer.engine
        if peer == "llama_cpp":
            peer = f"llama.cpp {GGUF_TYPE.get(row.peer.weights, 'same file')}"
        shown = [f"{statistics.median(rate):.1f}" if rate else "-" for rate in rates]
        ratio = "-"
        if all(rates):
            ratio = f"{statistics.median(rates[0]) / statistics.median(rates[1]):.2f}"
        print(f"| {what} | {row.ng.weights}, {row.ng.cache} | {peer} | {shown[0]} | {shown[1]} "
              f"| {ratio} | {row.goal(shape)} |")


def print_shares(shape, results):
    """What ng made of the machine, from the same rounds."""
    print(f"\n### {shape}: ng against the machine\n")
    print("| weights, cache | | share | of | goal |")
    print("|---|---|---|---|---|")
    for side, rates in results.items():
        if side.engine != "ng" or not rates:
            continue
        median = {what: statistics.median(values) for what, values in rates.items()}
        label = f"{side.weights}, {side.cache}"
        print(f"| {label} | prefill, all of it | {median['peak']:.0%} "
              f"| {median['peak_gop_s']:.0f} GOP/s | |")
        for what, share in median.items():
            if what.startswith("bandwidth at "):
                depth = what.removeprefix("bandwidth at ")
                share_goal = BANDWIDTH_GOALS.get(side.weights)
                goal = f"{share_goal:.0%}" if share_goal and depth == "0" else ""
                print(f"| {label} | decode at depth {depth} | {share:.0%} "
                      f"| {median['read_gb_s']:.1f} GB/s | {goal} |")


def names_of(allowed):
    """An option's type: names with commas between them."""
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r}, must be of {', '.join(allowed)}")
        return names
    return parse


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shapes = sorted(path.stem for path in (HERE / "shapes").glob("*.json"))
    parser.add_argument("models", type=pathlib.Path, help="make_models.py's folder")
    parser.add_argument("--bench", default=HERE.parents[1] / "build/bin/ng-bench")
    parser.add_argument("--shapes", type=names_of(shapes), default=["135m"],
                        help=", ".join(shapes))
    parser.add_argument("--weights", type=names_of([*GGUF_TYPE, *GGUF_FILES]),
                        default=list(GGUF_TYPE), help=f"of {', '.join(GGUF_TYPE)}, and "
                        f"{', '.join(GGUF_FILES)}: both read the same file")
    parser.add_argument("--peers", type=names_of(PEERS), default=list(PEERS),
                        help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--no-deep", action="store_true", help=f"leave out depth {DEEP}")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    """Measures every shape and prints its tables."""
    args = parse_arguments()
    rows = comparisons(args.weights, args.peers, not args.no_deep)
    for shape in args.shapes:
        results = run_rounds(shape, rows, args)
        print_ratios(shape, rows, results)
        print_shares(shape, results)


if __name__ == "__main__":
    main()
