#!/usr/bin/env python3
"""Times ng from its start to the first token against reading the model's file once and copying it
into fresh memory, in turn, and prints the ratio of the medians: of weights that are read before the
prompt, and with it (model.load).

    python first_token.py MODEL.gguf [--ng-run PATH] [--threads N] [--rounds N]
                                     [--prompt-tokens N] [--cold]

Needs numpy. The file is read once before the first round, so that all find it in the page cache.
With --cold it is thrown out of the page cache before each of them.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
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


def forget(path):
    """Throws the file out of the page cache."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)  # what is not on the disk yet stays
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def first_token(command):
    """Seconds from a run's start to the first byte of its output, the text of its first token."""
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
    parser.add_argument("--prompt-tokens", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    path, n_threads = arguments.model.resolve(), arguments.threads
    read_and_copy(path, n_threads)
    ids = ",".join(str(i * 37 % 1000 + 1) for i in range(arguments.prompt_tokens))
    command = [arguments.ng_run, f"--model.path={path}", "--prompt-ids", ids,
               "--run.max_new_tokens=1", f"--run.threads={n_threads}"]
    ways = {"read and copied": lambda: read_and_copy(path, n_threads)}
    for load in ("before_prompt", "with_prompt"):
        ways[load] = lambda load=load: first_token([*command, f"--model.load={load}"])
    seconds = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, run in ways.items():
            if arguments.cold:
                forget(path)
            seconds[way].append(run())
        print(", ".join(f"{way} {times[-1]:.3f} s" for way, times in seconds.items()), flush=True)
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    copy = medians["read and copied"]
    print("medians: " + ", ".join(f"{way} {median:.3f} s ({median / copy:.2f})"
                                  for way, median in medians.items()))


main()
