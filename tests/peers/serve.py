#!/usr/bin/env python3
"""ng-serve under a load of clients, against ng-run --prompts on the same work and llama-server on the same file.

    python3 tests/peers/serve.py MODEL.gguf --llama-server PATH

MODEL: a q8_0 file of make_models.py. serve_load (its target is not built by itself) asks both servers for
the same mixed prompts, streamed; 16 are answered at a time. Its own CPU time is in the figures, because it
takes it from the server. Prints a line for each run and the ratios.
"""
import argparse
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

AT_A_TIME = 16
TOKENS = 1024  # of a prompt and its answer
N_REQUESTS = 256  # as serve_load numbers them


def prompt_of(number):
    """As serve_load asks: its RequestOf."""
    return {"prompt": "Once upon a time" + f", and then, number {number}" * (number % 7),
            "max_new_tokens": 16 + number % 48}


def ng_options(arguments):
    return ["--config", arguments.config, "--cache.name=paged", f"--cache.max_sequences={AT_A_TIME}",
            f"--cache.max_tokens={TOKENS}", f"--run.threads={arguments.threads}"]


@contextlib.contextmanager
def started(command, url, **more):
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, **more) as server:
        try:
            for _ in range(600):
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(url + "/health").close()
                    break
                time.sleep(0.1)
            else:
                raise SystemExit(f"{command[0]} does not start")
            yield
        finally:
            server.terminate()


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def load(arguments, port):
    """Figures of serve_load, which exits 1 where two answers to the same request differ."""
    done = subprocess.run([arguments.build / "bin/serve_load", str(port), "m", str(arguments.clients),
                           str(arguments.seconds)], capture_output=True, text=True, check=False)
    found = re.search(r"([\d.]+) tok/s; first token p50 ([\d.]+) s, p99 ([\d.]+) s", done.stdout)
    if found is None:
        raise SystemExit(f"serve_load: {done.stdout} {done.stderr}")
    rate, p50, p99 = map(float, found.groups())
    print(f"  {done.stdout.strip()}", flush=True)
    return {"tok_s": rate, "p50": p50, "p99": p99}


def ng_serve(arguments):
    port = free_port()
    command = [arguments.build / "bin/ng-serve", *ng_options(arguments), f"--serve.port={port}", "--serve.model=m"]
    with started(command, f"http://127.0.0.1:{port}", stderr=subprocess.DEVNULL):
        return load(arguments, port)


def ng_run(arguments):
    """As many of the prompts as take about as long, in the order of their numbers."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for number in range(arguments.prompts):
            prompts.write(json.dumps(prompt_of(number % N_REQUESTS)) + "\n")
        prompts.flush()
        begin = time.perf_counter()
        done = subprocess.run([arguments.build / "bin/ng-run", *ng_options(arguments), "--prompts", prompts.name,
                               "--output=jsonl"], capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - begin
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    tokens = sum(len(line["ids"]) - len(line["prompt_ids"]) for line in lines)
    seconds -= lines[0]["timings"]["load_s"]
    print(f"  {len(lines)} answers, {tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} tok/s", flush=True)
    return {"tok_s": tokens / seconds}


def llama_server(arguments):
    if arguments.llama_server is None:
        return None
    port = free_port()
    command = [arguments.llama_server, "-m", arguments.model, "-np", str(AT_A_TIME), "-c", str(AT_A_TIME * TOKENS),
               "-t", str(arguments.threads), "-tb", str(arguments.threads), "--port", str(port)]
    with started(command, f"http://127.0.0.1:{port}", stderr=subprocess.DEVNULL):
        return load(arguments, port)


RUNS = {"ng-serve": ng_serve, "ng-run": ng_run, "llama-server": llama_server}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--llama-server", help="its program; without it there is no such run")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=2 * N_REQUESTS, help="of ng-run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=RUNS, help="one of the runs")
    arguments = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write(f'[model]\npath = "{arguments.model.resolve()}"\n')
        config.flush()
        arguments.config = config.name
        seen = {}
        for name, run in RUNS.items():
            if arguments.only in (None, name):
                print(name, flush=True)
                seen[name] = run(arguments)
    ng, alone, llama = seen.get("ng-serve"), seen.get("ng-run"), seen.get("llama-server")
    if ng and alone:
        print(f"ng-serve / ng-run: {ng['tok_s'] / alone['tok_s']:.2f}")
    if ng and llama:
        print(f"ng-serve / llama-server: {ng['tok_s'] / llama['tok_s']:.2f} tok/s; first token p50 "
              f"{ng['p50'] / llama['p50']:.2f}, p99 {ng['p99'] / llama['p99']:.2f}")


if __name__ == "__main__":
    main()
