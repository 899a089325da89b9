"""What Python adds to a run: generate and generate_steps beside ng-bench, interleaved.

  PYTHONPATH=build/python python3 tests/python/overhead.py build/bin [TOKENS] [ROUNDS]

The time of a decode step, in ms: medians, with made-up weights. First of a model that is so small that
the step is nearly nothing, so that what Python adds can be seen; then of the shape of a model of 135
million parameters, of whose step it is a share. Then what a stage and a hook take that do nothing, and a
stage that asks for the logits, also of a small model with as many tokens as the large one has.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import ng

LARGE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 576,
         "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "hidden_act": "silu", "torch_dtype": "bfloat16"}
SMALL = {**LARGE, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
         "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 256}
PROMPT = list(range(100, 116))


def decode_ms(engine, n):
    """ms a token of generate."""
    whole = time.perf_counter()
    done = engine.generate(PROMPT, n)
    whole = time.perf_counter() - whole
    return 1e3 * (whole - done.timings["prefill_s"]) / (n - 1)


def medians(folder, config, n, rounds):
    """Of each way to run it: ms a token."""
    keys = {"sampler.chain": "greedy", "run.stop_ids": "", "model.weights": "int8"}
    bench = [os.path.join(folder, "ng-bench"), "--random-weights", config, "--prompt-tokens", "16",
             "--decode-tokens", str(n - 1), "--repeat", "1", "--output", "jsonl", "--model.weights=int8"]
    engine = ng.Engine(None, keys, random_weights=config, max_tokens=16 + n)
    engine.generate(PROMPT, n)
    staged = ng.Engine(None, keys, random_weights=config, max_tokens=16 + n,
                       stages=[ng.Stage("nothing", lambda candidates: None)])
    staged.generate(PROMPT, n)
    asking = ng.Engine(None, keys, random_weights=config, max_tokens=16 + n,
                       stages=[ng.Stage("asks", lambda candidates: candidates.logits)])
    asking.generate(PROMPT, n)
    times = {"C++ loop": [], "generate": [], "generate_steps": [], "records": [], "stage": [],
             "stage, logits": [], "hook": []}
    for _ in range(rounds):
        line = subprocess.run(bench, capture_output=True, check=True).stdout.splitlines()[-1]
        times["C++ loop"].append(1e3 / json.loads(line)["decode_tok_s"])
        times["generate"].append(decode_ms(engine, n))
        times["stage"].append(decode_ms(staged, n))
        times["stage, logits"].append(decode_ms(asking, n))
        with engine.hook("layer0.out", lambda values: None):
            times["hook"].append(decode_ms(engine, n))
        for name, records in (("generate_steps", False), ("records", True)):
            steps = engine.generate_steps(PROMPT, n, records=records)
            next(steps)
            begin = time.perf_counter()
            left = sum(1 for _ in steps)
            times[name].append(1e3 * (time.perf_counter() - begin) / left)
    for name, values in times.items():
        print(f"  {name:16} {statistics.median(values):8.4f} ms a token, lowest {min(values):8.4f}")
    return {name: statistics.median(values) for name, values in times.items()}


def main(folder, tokens="64", rounds="7"):
    n, results = int(tokens), []
    with tempfile.TemporaryDirectory() as temp:
        for name, shape, n_tokens in (("small", SMALL, n * 16), ("135m", LARGE, n),
                                      ("small, many tokens", {**SMALL, "vocab_size": 49152}, n * 16)):
            config = os.path.join(temp, f"{name}.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump(shape, file)
            print(name)
            results.append(medians(folder, config, n_tokens, int(rounds)))
    small, large, many = results
    for name, beside in (("generate", "C++ loop"), ("generate_steps", "C++ loop"), ("stage", "generate"),
                         ("stage, logits", "generate"), ("hook", "generate")):
        added, of_many = small[name] - small[beside], many[name] - many[beside]
        print(f"{name} adds {1e3 * added:.1f} us to a step: {added / large['C++ loop']:.3%} of 135m's; "
              f"with many tokens {1e3 * of_many:.1f} us")


if __name__ == "__main__":
    main(*sys.argv[1:])
