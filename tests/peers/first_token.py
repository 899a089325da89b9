#!/usr/bin/env python3
"""Times ng from its start to the first token against reading the model's file once and copying it
into fresh memory, in turn, and prints the ratio of the medians.

    python first_token.py MODEL.gguf [--ng-run PATH] [--threads N] [--rounds N]

Needs numpy. The file is read once before the first round, so that both find it in the page cache.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[2]
PIECE = 1 << 20  # bytes that a thread reads before it copies them


def read_and_copy(path, n_threads):
    """Seconds to read the file piece by piece and copy each piece into memory never used before."""
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    start = time.perf_counter()
    fresh = np.empty(size, np.uint8)

    def work(begin, end):
        piece = np.empty(PIECE, np.uint8)
        while begin < end:
            n = os.preadv(file, [piece[:min(PIECE, end - begin)]], begin)
            if n <= 0:
                raise RuntimeError(f"{path}: cannot read at {begin}")
            fresh[begin:begin + n] = piece[:n]
            begin += n

    bounds = [size * i // n_threads for i in range(n_threads + 1)]
    threads = [threading.Thread(target=work, args=pair) for pair in zip(bounds, bounds[1:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    os.close(file)
    return seconds


def first_token(ng_run, config, n_threads):
    """Seconds from a run's start to the first byte of its output, the text of its first token."""
    command = [ng_run, "--config", config, "--prompt-ids", "1", "--run.max_new_tokens=1",
               f"--run.threads={n_threads}"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        first = run.stdout.read(1)
        seconds = time.perf_counter() - start
        run.stdout.read()
    if run.returncode != 0 or not first:
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--ng-run", default=str(REPO / "build/bin/ng-run"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    path, n_threads = arguments.model.resolve(), arguments.threads
    read_and_copy(path, n_threads)
    copies, runs = [], []
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write(f'[model]\npath = "{path}"\n')
        config.flush()
        for _ in range(arguments.rounds):
            copies.append(read_and_copy(path, n_threads))
            runs.append(first_token(arguments.ng_run, config.name, n_threads))
            print(f"read and copied in {copies[-1]:.3f} s, first token in {runs[-1]:.3f} s",
                  flush=True)
    copy, run = statistics.median(copies), statistics.median(runs)
    print(f"medians: {copy:.3f} s, {run:.3f} s; ratio {run / copy:.2f}")


main()
