#!/usr/bin/env python3
"""Decode with the stage grammar beside decode without it.

    python3 tests/grammar/speed.py build/bin/ng-run [--vocab 150000] [--threads 2] [--rounds 15]

Makes a model of tests/peers/shapes/135m.json with random weights (bf16) and made-up tokens of bytes.
Runs with and without the stage take turns; printed are the medians of tokens per second.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import made_up_models

HERE = pathlib.Path(__file__).resolve().parent
# Each never ends within a run.
PERSON = json.loads((HERE / "grammars/person.json").read_text(encoding="utf-8"))
GRAMMARS = {"people": {"type": "array", "minItems": 1000, "items": PERSON},
            "anything": {"type": "array", "minItems": 1000}}


def decode_rate(command):
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr}")
    timings = json.loads(done.stdout)["timings"]
    return timings["decode_tokens"] / timings["decode_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="ng-run")
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        shape = json.loads((HERE.parent / "peers/shapes/135m.json").read_text(encoding="utf-8"))
        made_up_models.write_shape(model, shape, options.vocab)
        plain = [options.program, "-m", str(model), "-p", "The list:", "-n", str(options.tokens),
                 f"--run.threads={options.threads}", "--run.stop_ids=", "--output=jsonl"]
        chains = {"without": ["--sampler.chain=temperature"]} | {
            name: ["--sampler.chain=grammar,temperature", f"--sampler.grammar.json_schema={json.dumps(schema)}"]
            for name, schema in GRAMMARS.items()}
        rates = {name: [] for name in chains}
        for _ in range(options.rounds + 1):  # the first one warms up
            for name, chain in chains.items():
                rates[name].append(decode_rate(plain + chain))
    medians = {name: statistics.median(values[1:]) for name, values in rates.items()}
    for name, rate in medians.items():
        pairs = [a / b for a, b in zip(rates[name][1:], rates["without"][1:])]
        print(f"{name}: {rate:.1f} tok/s, {rate / medians['without']:.3f} of without "
              f"(median of pairs {statistics.median(pairs):.3f})")


if __name__ == "__main__":
    main()
