#!/usr/bin/env python3
"""64 clients for ng-serve, with tools and without, in turns.

    python3 tests/serve/tools_load.py build/bin/ng-serve build/bin/serve_load [--seconds 30] [--rounds 5]

Each client asks for one streamed answer after another, with the tools of a coding agent that the model may call, or
without. Prints the tokens a second of each turn, the median of the pairs' ratios, and the server's memory. By hand;
with --seconds 30 --rounds 20 it takes 20 minutes. Exits 1 where an answer differs from an earlier one or is not whole.
"""
import argparse
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


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("program", help="ng-serve")
    options.add_argument("load", help="serve_load, a target that is not built by itself")
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--seconds", type=int, default=30)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    ratios, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "calls.jinja"
        template.write_text(TEMPLATE.format(FORMATS["tags"]), encoding="utf-8")
        with served(given.program, f"--tokenizer.chat_template={template}") as (url, process):
            for number in range(given.rounds):
                rates = {}
                turns = ["with", "without"] if number % 2 else ["without", "with"]
                for turn in turns:
                    done = subprocess.run(
                        [given.load, url.rsplit(":", 1)[1], "demo", str(given.clients), str(given.seconds), "0",
                         str(TOOLS) if turn == "with" else "none"], stdout=subprocess.PIPE, text=True, check=False)
                    wrong += done.returncode != 0
                    rates[turn] = float(re.search(r"([\d.]+) tok/s", done.stdout).group(1))
                    print(f"{turn:8} {done.stdout.strip()}; {memory(process):.1f} MiB", flush=True)
                ratios.append(rates["with"] / rates["without"])
    print(f"with tools / without: median {statistics.median(ratios):.3f} of {len(ratios)} pairs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
