#!/usr/bin/env python3
"""One peer's prefill and decode speed: peers.py llama_cpp|transformers|ctranslate2 MODEL.

Every measurement is made twice and the second one counts: the first warms up. The line of JSON
that comes out is {"prefill_tok_s": ..., "decode_tok_s": {depth: ...}}. Each peer is imported only
where it runs, so that no two runtimes share a process.
"""
import argparse
import json
import time


def second_rate(n_tokens, prepare, work):
    """Tokens per second of `work`, the second time; `prepare` is not timed."""
    for _ in range(2):
        prepare()
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
    return n_tokens / seconds


def measure_llama_cpp(args):
    """llama.cpp through its C interface: flash attention on, one sequence."""
    import ctypes

    import llama_cpp as llama

    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    model_params = llama.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(args.model.encode(), model_params)
    params = llama.llama_context_default_params()
    params.n_ctx = max(args.prompt, max(args.depths) + args.generate) + 64
    params.n_batch, params.n_ubatch = max(2048, args.prompt), 512
    params.n_threads = params.n_threads_batch = args.threads
    params.flash_attn_type = 1  # on
    params.type_k = params.type_v = {"f32": 0, "f16": 1, "q8_0": 8,
                                     "bf16": 30}[args.cache]
    context = llama.llama_init_from_model(model, params)
    memory = llama.llama_get_memory(context)

    def feed(ids):
        array = (llama.llama_token * len(ids))(*ids)  # must outlive the call below
        if llama.llama_decode(context, llama.llama_batch_get_one(array, len(ids))):
            raise SystemExit("llama_decode failed")
        llama.llama_synchronize(context)

    def clear(length=0):
        llama.llama_memory_seq_rm(memory, 0, length, -1)

    prefill = second_rate(args.prompt, clear,
                          lambda: feed([300 + i % 1000 for i in range(args.prompt)]))
    decode = {}
    for depth in args.depths:
        clear()
        held = max(depth, 1)
        for begin in range(0, held, 512):
            feed([300 + i % 1000 for i in range(begin, min(begin + 512, held))])
        decode[depth] = second_rate(args.generate, lambda: clear(held),
                                    lambda: [feed([300 + i]) for i in range(args.generate)])
    return prefill, decode


def measure_transformers(args):
    """transformers with torch's scaled_dot_product_attention; its cache has the weights' type."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[args.weights],
        attn_implementation="sdpa").eval()
    cache = None

    def feed(ids):
        nonlocal cache
        cache = model(torch.tensor([ids]), past_key_values=cache, use_cache=True,
                      logits_to_keep=1).past_key_values

    def hold(length):
        nonlocal cache
        cache = None
        if length:
            feed([300 + i % 1000 for i in range(length)])

    prefill = second_rate(args.prompt, lambda: hold(0),
                          lambda: feed([300 + i % 1000 for i in range(args.prompt)]))
    decode = {
        depth: second_rate(args.generate, lambda: hold(max(depth, 1)),
                           lambda: [feed([300 + i]) for i in range(args.generate)])
        for depth in args.depths
    }
    return prefill, decode


def measure_ctranslate2(args):
    """CTranslate2's greedy generation; decode is what the tokens after the first one take."""
    import ctranslate2

    generator = ctranslate2.Generator(args.model, device="cpu", compute_type=args.weights,
                                      inter_threads=1, intra_threads=args.threads)

    def generate(prompt_length, n_new):
        prompt = [f"t{300 + i % 1000}" for i in range(prompt_length)]
        start = time.perf_counter()
        generator.generate_batch([prompt], max_length=n_new, min_length=n_new, sampling_topk=1,
                                 include_prompt_in_result=False)
        return time.perf_counter() - start

    def second(prompt_length, n_new):
        generate(prompt_length, n_new)
        return generate(prompt_length, n_new)

    prefill = args.prompt / second(args.prompt, 1)
    decode = {}
    for depth in args.depths:
        one = second(max(depth, 1), 1)
        decode[depth] = args.generate / (second(max(depth, 1), args.generate + 1) - one)
    return prefill, decode


PEERS = {
    "llama_cpp": measure_llama_cpp,
    "transformers": measure_transformers,
    "ctranslate2": measure_ctranslate2,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("model", help="a GGUF file, a Hugging Face or a CTranslate2 folder")
    parser.add_argument("--weights", default="f32", help="type to compute with; GGUF: the file's")
    parser.add_argument("--cache", default="f16", choices=("f32", "f16", "bf16", "q8_0"),
                        help="llama.cpp's cache")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--depths", type=lambda text: [int(part) for part in text.split(",")],
                        default=[0])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    prefill_rate, decode_rates = PEERS[arguments.peer](arguments)
    print(json.dumps({"prefill_tok_s": prefill_rate, "decode_tok_s": decode_rates}))
