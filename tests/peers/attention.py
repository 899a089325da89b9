#!/usr/bin/env python3
"""ng's attention against torch's scaled_dot_product_attention, in turn: attention.py.

The shapes are those of tests/benchmark/attention_benchmark.cc. Every round measures one shape first
with build/bin/benchmark_attention, then with torch; the ratios are of the medians.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = {  # heads, kv heads, tokens or keys, head_dim
    "prefill": ((12, 12, 512, 64), (12, 12, 2048, 64), (32, 8, 2048, 64), (32, 8, 2048, 128)),
    "decode": ((12, 12, 1024, 64), (12, 12, 8192, 64), (9, 3, 4096, 64), (32, 8, 4096, 128),
               (32, 8, 16384, 128)),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
US = {"ns": 1e-3, "us": 1.0, "ms": 1e3}


def ng_us(args, op, codec, shape):
    """Microseconds of one call in ng."""
    name = "/".join([op, codec, *map(str, shape)])
    run = subprocess.run(
        [args.bench, f"--benchmark_filter=^{name}/threads:{args.threads}/",
         "--benchmark_format=json"], capture_output=True, text=True, check=True)
    row = json.loads(run.stdout)["benchmarks"][0]
    return row["real_time"] * US[row["time_unit"]]


def torch_us(op, codec, shape, seconds=0.5):
    """Microseconds of one call in torch, on average over `seconds` or one call."""
    heads, kv_heads, length, head_dim = shape
    q = torch.randn(1, heads, length if op == "prefill" else 1, head_dim).to(DTYPES[codec])
    # As in ng, several caches in turn, so that decode reads from memory.
    bytes_each = 2 * kv_heads * length * head_dim * q.element_size()
    n_caches = 1 if op == "prefill" else 1 + (256 << 20) // bytes_each
    caches = [torch.randn(2, 1, kv_heads, length, head_dim).to(DTYPES[codec])
              for _ in range(n_caches)]

    def call(i):
        k, v = caches[i % n_caches]
        scaled_dot_product_attention(q, k, v, is_causal=op == "prefill",
                                     enable_gqa=heads != kv_heads)

    call(0)  # warms up
    start, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < seconds:
        calls += 1
        call(calls)
    return 1e6 * (time.perf_counter() - start) / calls


def main():
    """Prints a table: times, rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default=HERE.parents[1] / "build/bin/benchmark_attention")
    parser.add_argument("--threads", type=int, default=2, choices=(1, 2))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(args.threads)
    print("| | heads / kv heads, length, head_dim | type | ng, us | torch, us | torch / ng |")
    print("|---|---|---|---|---|---|")
    for op, shapes in SHAPES.items():
        for shape in shapes:
            for codec in DTYPES:
                rounds = [(ng_us(args, op, codec, shape), torch_us(op, codec, shape))
                          for _ in range(args.rounds)]
                ng, peer = (statistics.median(times) for times in zip(*rounds))
                heads, kv_heads, length, head_dim = shape
                print(f"| {op} | {heads} / {kv_heads}, {length}, {head_dim} | {codec} "
                      f"| {ng:.0f} | {peer:.0f} | {peer / ng:.2f} |", flush=True)


if __name__ == "__main__":
    main()
