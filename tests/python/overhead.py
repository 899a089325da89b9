"""What Python adds to a run: generate and generate_steps beside ng-run, interleaved.

  PYTHONPATH=build/python python3 tests/python/overhead.py build/bin [CONFIG.json] [TOKENS] [ROUNDS]

CONFIG.json: a model's config.json, run with made-up weights; by default the shape of a model of 135
million parameters. Prints the medians of the time of a decode step, in ms.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import ng

SHAPE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 576,
         "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "hidden_act": "silu", "torch_dtype": "bfloat16"}


def main(folder, config=None, tokens="64", rounds="7"):
    n, rounds = int(tokens), int(rounds)
    with tempfile.TemporaryDirectory() as temp:
        if config is None:
            config = os.path.join(temp, "config.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump(SHAPE, file)
        keys = {"sampler.chain": "greedy", "run.stop_ids": "", "model.weights": "int8"}
        prompt = list(range(100, 116))
        bench = [os.path.join(folder, "ng-bench"), "--random-weights", config, "--prompt-tokens",
                 "16", "--decode-tokens", str(n - 1), "--repeat", "1", "--output", "jsonl",
                 "--model.weights=int8"]
        engine = ng.Engine(None, keys, random_weights=config, max_tokens=16 + n)
        engine.generate(prompt, n)
        times = {"C++ loop": [], "generate": [], "generate_steps": [], "records": []}
        for _ in range(rounds):
            line = subprocess.run(bench, capture_output=True, check=True).stdout.splitlines()[-1]
            times["C++ loop"].append(1e3 / json.loads(line)["decode_tok_s"])
            done = engine.generate(prompt, n)
            whole = time.perf_counter()
            done = engine.generate(prompt, n)
            whole = time.perf_counter() - whole
            decode = done.timings["decode_s"] / done.timings["decode_tokens"]
            outside = (whole - done.timings["decode_s"] - done.timings["prefill_s"]) / n
            times["generate"].append(1e3 * (decode + outside))
            for name, records in (("generate_steps", False), ("records", True)):
                steps = engine.generate_steps(prompt, n, records=records)
                next(steps)
                begin = time.perf_counter()
                left = sum(1 for _ in steps)
                times[name].append(1e3 * (time.perf_counter() - begin) / left)
        for name, values in times.items():
            print(f"{name:16} {statistics.median(values):8.3f} ms a token, lowest {min(values):8.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
