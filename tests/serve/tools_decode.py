#!/usr/bin/env python3
"""Decode speed of one answer with tools that the model may call, and without, in turns.

    python3 tests/serve/tools_decode.py build/bin/ng-serve MODEL [--rounds 15]

MODEL is a published model: with a tiny one the reading of a request is all that is measured. The chat template shows no
tools, so both prompts are the same; what differs is the grammar that waits for a call and the reader of the answer.
Prints each pair's tokens a second from the first token on, and the median of the ratios. By hand.
"""
import argparse
import json
import pathlib
import statistics
import tempfile
import time
import urllib.request

from held_calls import FORMATS, TEMPLATE
from server import served

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "grammar" / "agent_tools.json"
N_TOKENS = 200


def model_of(url):
    """The name of the server's model."""
    with urllib.request.urlopen(url + "/v1/models") as reply:
        return json.load(reply)["data"][0]["id"]


def rate(url, tools):
    """Tokens a second behind the first one."""
    body = {"model": model_of(url),
            "messages": [{"role": "user", "content": "Tell me of a king and his three sons, in many words."}],
            "stream": True, "temperature": 0, "max_tokens": N_TOKENS, "ignore_eos": True}
    if tools:
        body["tools"] = tools
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode())
    times = []
    with urllib.request.urlopen(request) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            delta = json.loads(line[6:])["choices"][0]["delta"]
            if any(delta.get(part) for part in ("content", "tool_calls", "reasoning_content")):
                times.append(time.perf_counter())
    # A token may end within a character: then the next one's piece holds it, too.
    return (N_TOKENS - 1) / (times[-1] - times[0])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("program", help="ng-serve")
    options.add_argument("model")
    options.add_argument("--rounds", type=int, default=15)
    given = options.parse_args()
    tools = json.loads(TOOLS.read_text(encoding="utf-8"))
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "calls.jinja"
        template.write_text(TEMPLATE.format(FORMATS["tags"]), encoding="utf-8")
        with served(given.program, f"--model.path={given.model}", f"--tokenizer.chat_template={template}") as (url, _):
            rate(url, tools)  # compiles the grammar
            for number in range(given.rounds):
                rates = {shown: rate(url, tools if shown else None) for shown in (number % 2 == 0, number % 2 == 1)}
                ratios.append(rates[True] / rates[False])
                print(f"with {rates[True]:.1f}, without {rates[False]:.1f} tok/s", flush=True)
    print(f"with tools / without: median {statistics.median(ratios):.3f} of {len(ratios)} pairs")


if __name__ == "__main__":
    main()
