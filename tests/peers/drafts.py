#!/usr/bin/env python3
"""Measures what drafts gain: decode with the drafter `replay` at set rates of acceptance, in turn
with the plain run, and prints the ratios of the medians.

    python drafts.py MODEL [--ng-run PATH] [--accept 0,0.3,0.6,0.8] [--depth N] [--tokens N]
                     [--rounds N] [--section.key=VALUE ...]

Config keys go to every run. The ids of all runs must be equal.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[2]


def run(arguments, more):
    """The answer's ids, and tokens per second of the decode."""
    command = [arguments.ng_run, "-m", arguments.model, "--output", "jsonl", "--prompt-ids",
               " ".join(str(10 + i * 7 % 200) for i in range(arguments.depth)),
               f"--run.max_new_tokens={arguments.tokens}", "--run.stop_ids=",
               "--sampler.chain=greedy", *arguments.more, *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    timings = answer["timings"]
    return answer["ids"][len(answer["prompt_ids"]):], timings["decode_tokens"] / timings["decode_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--ng-run", default=str(REPO / "build/bin/ng-run"))
    parser.add_argument("--accept", default="0,0.3,0.6,0.8")
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    arguments, arguments_more = parser.parse_known_args()
    arguments.more = arguments_more
    rates = [float(rate) for rate in arguments.accept.split(",")]
    plain = []
    drafted = {rate: [] for rate in rates}
    with tempfile.TemporaryDirectory() as folder:
        answers = pathlib.Path(folder) / "answers"
        ids, _ = run(arguments, [])
        answers.write_text(" ".join(map(str, ids)) + "\n")
        for _ in range(arguments.rounds):
            plain.append(run(arguments, [])[1])
            for rate in rates:
                found, speed = run(arguments, ["--drafter.name=replay",
                                               f"--drafter.replay.file={answers}",
                                               f"--drafter.replay.error={1 - rate}"])
                if found != ids:
                    raise SystemExit(f"acceptance {rate}: the ids are not those of the plain run")
                drafted[rate].append(speed)
    print(f"plain: {statistics.median(plain):.1f} tok/s")
    for rate in rates:
        speed = statistics.median(drafted[rate])
        print(f"acceptance {rate}: {speed:.1f} tok/s, {speed / statistics.median(plain):.2f} times")


if __name__ == "__main__":
    main()
