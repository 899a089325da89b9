#!/usr/bin/env python3
"""64 clients for ng-serve, with tools and without, in turns.

    python3 tests/serve/tools_load.py build/bin/ng-serve build/bin/serve_load [--seconds 30] [--slice 3] [--rounds 5]

Each client asks for one streamed answer after another, with the tools of a coding agent that the model may call, or
without. A round is --seconds of each, in turns of --slice seconds, so that a machine whose speed drifts gives both the
same. Prints each round's tokens a second and the server's CPU time a token, the medians of the rounds' ratios, and the
server's memory. By hand; with --seconds 30 --rounds 20 it takes 20 minutes. Exits 1 where an answer differs from an
earlier one or is not whole.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from held_calls import FORMATS, TEMPLATE
from server import served

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "grammar" / "agent_tools.json"


def memory(process):
    """MiB that the server has in memory."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def cpu_seconds(process):
    """CPU seconds that the server has used."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Side:
    """What one round gave with tools, or without."""

    def __init__(self, tools):
        self.tools, self.tokens, self.rate, self.cpu, self.turns, self.wrong = tools, 0, 0.0, 0.0, 0, 0

    def take_turn(self, given, url, process):
        before = cpu_seconds(process)
        done = subprocess.run([given.load, url.rsplit(":", 1)[1], "demo", str(given.clients), str(given.slice), "0",
                               self.tools], stdout=subprocess.PIPE, text=True, check=False)
        self.cpu += cpu_seconds(process) - before
        self.wrong += done.returncode != 0
        self.tokens += int(re.search(r"(\d+) tokens", done.stdout).group(1))
        self.rate += float(re.search(r"([\d.]+) tok/s", done.stdout).group(1))
        self.turns += 1

    def tokens_a_second(self):
        return self.rate / self.turns

    def cpu_a_token(self):
        return self.cpu / self.tokens * 1e6  # us


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("program", help="ng-serve")
    options.add_argument("load", help="serve_load, a target that is not built by itself")
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--seconds", type=int, default=30)
    options.add_argument("--slice", type=int, default=3)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    ratios, cpu_ratios, wrong = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "calls.jinja"
        template.write_text(TEMPLATE.format(FORMATS["tags"]), encoding="utf-8")
        with served(given.program, f"--tokenizer.chat_template={template}") as (url, process):
            for _ in range(given.rounds):
                with_tools, without = Side(str(TOOLS)), Side("none")
                for number in range(max(1, given.seconds // given.slice)):
                    for side in (with_tools, without) if number % 2 else (without, with_tools):
                        side.take_turn(given, url, process)
                wrong += with_tools.wrong + without.wrong
                ratios.append(with_tools.tokens_a_second() / without.tokens_a_second())
                cpu_ratios.append(with_tools.cpu_a_token() / without.cpu_a_token())
                print(f"with {with_tools.tokens_a_second():.0f}, without {without.tokens_a_second():.0f} tok/s: "
                      f"{ratios[-1]:.3f}; CPU {with_tools.cpu_a_token():.1f}, {without.cpu_a_token():.1f} us a token; "
                      f"{memory(process):.1f} MiB", flush=True)
    print(f"with tools / without: median {statistics.median(ratios):.3f}, of CPU a token "
          f"{statistics.median(cpu_ratios):.3f}, of {len(ratios)} rounds; {wrong} turns with wrong answers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
