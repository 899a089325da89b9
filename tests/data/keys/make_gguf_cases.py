"""Which keys of a GGUF file change what llama.cpp computes, and what ng makes of them: make_gguf_cases.py --ng build/bin/ng-run --write

Every key of gguf_keys.txt, and of EXTRA below, is set to several values in a tiny file of each architecture of BASES, and in files with RoPE
scaled as TOGETHER says. ng must move equally or refuse where llama.cpp moves, and run equally where it does not. `--write` writes
gguf_cases.tsv and gguf_bases.json beside this file. A row of the table is a key, its value and a letter for each file in gguf_bases.json:
s (llama.cpp computes the same logits), m (others), f (it does not load the file, or ends), r (the same, and ng refuses on purpose or has a window).

Made with llama-cpp-python 0.3.36, built without GGML_GELU_FP16 (its table of GELU is 4e-4 off), and gguf 0.19.0.
"""
import argparse, json, os, resource, tempfile
import gguf, llama_cpp, numpy
from running import PROMPT, equal, judge, ng

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, WIDTH, FFN, LAYERS, HEADS, KV, HEAD = 64, 16, 24, 2, 2, 1, 8
RMS, LAYER = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
HEAD_KEYS = {"attention.key_length": HEAD, "attention.value_length": HEAD}
EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": FFN}
# architecture: its keys beside those of `keys_of`, and the tensors of a layer beside attn_norm, attn_output, ffn_norm and ffn_down
Q_K_V = {"attn_q": (HEADS * HEAD, WIDTH), "attn_k": (KV * HEAD, WIDTH), "attn_v": (KV * HEAD, WIDTH)}
Q_K_NORM = {"attn_q_norm": (HEAD,), "attn_k_norm": (HEAD,)}
GATE_UP = {"ffn_gate": (FFN, WIDTH), "ffn_up": (FFN, WIDTH)}
AROUND = {"post_attention_norm": (WIDTH,), "post_ffw_norm": (WIDTH,)}
OF_EXPERTS = {"ffn_gate_inp": (4, WIDTH), "ffn_gate_exps": (4, FFN, WIDTH), "ffn_up_exps": (4, FFN, WIDTH), "ffn_down_exps": (4, WIDTH, FFN)}
SHARED_EXPERT = {"ffn_gate_shexp": (FFN, WIDTH), "ffn_up_shexp": (FFN, WIDTH), "ffn_down_shexp": (WIDTH, FFN)}
ALL_HEADS = {"attn_q": (HEADS * HEAD, WIDTH), "attn_k": (HEADS * HEAD, WIDTH), "attn_v": (HEADS * HEAD, WIDTH)}
FUSED, UP = {"attn_qkv": (3 * WIDTH, WIDTH)}, {"ffn_up": (FFN, WIDTH)}
QKV_BIASES = {"attn_q.bias": (HEADS * HEAD,), "attn_k.bias": (KV * HEAD,), "attn_v.bias": (KV * HEAD,)}
BIASES = {"attn_output.bias": (WIDTH,), "ffn_up.bias": (FFN,), "ffn_down.bias": (WIDTH,)}
NORM_BIASES = {"attn_norm.bias": (WIDTH,), "ffn_norm.bias": (WIDTH,)}
WIDE_NORMS, UNNORMED = {"attn_q_norm": (HEADS * HEAD,), "attn_k_norm": (KV * HEAD,)}, {"attn_norm": None, "ffn_norm": None}
SELECTION = {"exp_probs_b.bias": (4,)}
TURNING, ONE_SHARED = {"rope.dimension_count": HEAD}, {"leading_dense_block_count": 0, "expert_shared_count": 1}
SCALED = {"logit_scale": 2.0, "embedding_scale": 3.0, "residual_scale": 0.5, "attention.scale": 0.3}
BASES = {
    "llama": (TURNING, Q_K_V | GATE_UP),
    "qwen2": ({}, Q_K_V | GATE_UP | QKV_BIASES),
    "qwen3": (HEAD_KEYS, Q_K_V | GATE_UP | Q_K_NORM),
    "gpt2": ({}, {"attn_qkv": (3 * WIDTH, WIDTH), "ffn_up": (FFN, WIDTH)}),
    "gemma2": (HEAD_KEYS | {"attention.sliding_window": 4, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, Q_K_V | GATE_UP | AROUND),
    "gemma3": (HEAD_KEYS | {"attention.sliding_window": 4, "rope.freq_base": 1000.0}, Q_K_V | GATE_UP | AROUND | Q_K_NORM),
    "phi3": ({"rope.dimension_count": HEAD, "rope.scaling.original_context_length": 64}, {"attn_qkv": (WIDTH + 2 * KV * HEAD, WIDTH), "ffn_up": (2 * FFN, WIDTH)}),
    "qwen3moe": (HEAD_KEYS | EXPERTS, Q_K_V | Q_K_NORM | OF_EXPERTS),
    "gemma4": (HEAD_KEYS | {"attention.key_length_swa": HEAD, "attention.value_length_swa": HEAD, "attention.sliding_window": 4, "attention.sliding_window_pattern": [True, False], "rope.freq_base": 1000.0,
                            "rope.dimension_count": HEAD, "rope.dimension_count_swa": HEAD, "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0, "final_logit_softcapping": 3.0},
               Q_K_V | GATE_UP | AROUND | Q_K_NORM | {"layer_output_scale": (1,)}),
    "mistral3": (HEAD_KEYS | TURNING, Q_K_V | GATE_UP),
    "cohere2": (HEAD_KEYS | {"rope.dimension_count": HEAD, "attention.sliding_window": 4, "logit_scale": 0.5}, Q_K_V | GATE_UP | {"ffn_norm": None}),
    "gpt-oss": (HEAD_KEYS | EXPERTS | {"attention.sliding_window": 4, "rope.freq_base": 1000.0},
                Q_K_V | OF_EXPERTS | {"ffn_norm": None, "post_attention_norm": (WIDTH,), "attn_sinks": (HEADS,)} | QKV_BIASES | {
                                      "attn_output.bias": (WIDTH,), "ffn_gate_inp.bias": (4,), "ffn_gate_exps.bias": (4, FFN), "ffn_up_exps.bias": (4, FFN), "ffn_down_exps.bias": (4, WIDTH)}),
    "deepseek2": (EXPERTS | {"attention.key_length": 12, "attention.value_length": 8, "attention.q_lora_rank": 8, "attention.kv_lora_rank": 8, "attention.head_count_kv": HEADS, "rope.dimension_count": 4,
                             "leading_dense_block_count": 0, "expert_shared_count": 1, "expert_weights_scale": 1.5, "expert_gating_func": 1},
                  OF_EXPERTS | {"attn_q_a": (8, WIDTH), "attn_q_a_norm": (8,), "attn_q_b": (HEADS * 12, 8), "attn_kv_a_mqa": (12, WIDTH), "attn_kv_a_norm": (8,), "attn_kv_b": (HEADS * 16, 8)}
                  | SHARED_EXPERT),
    "llama4": (HEAD_KEYS | EXPERTS | TURNING | {"interleave_moe_layer_step": 1, "block_count": 4}, Q_K_V | OF_EXPERTS | SHARED_EXPERT),
    "bitnet": (TURNING, Q_K_V | GATE_UP | {"attn_sub_norm": (WIDTH,), "ffn_sub_norm": (FFN,)}),
    # Those that are decoders of parts that others have, too.
    "granite": (TURNING | SCALED, Q_K_V | GATE_UP),
    "granitemoe": (TURNING | EXPERTS | SCALED, Q_K_V | OF_EXPERTS),
    "phi2": ({"rope.dimension_count": 4}, Q_K_V | QKV_BIASES | UP | BIASES | {"ffn_norm": None, "attn_norm.bias": (WIDTH,)}),
    "olmo": (TURNING, Q_K_V | GATE_UP | UNNORMED),
    "olmo2": (TURNING, Q_K_V | GATE_UP | UNNORMED | WIDE_NORMS | AROUND),
    "olmoe": (TURNING | {"expert_count": 4, "expert_used_count": 2, "attention.head_count_kv": HEADS}, ALL_HEADS | {"attn_q_norm": (WIDTH,), "attn_k_norm": (WIDTH,)} | OF_EXPERTS),
    "smollm3": (TURNING, Q_K_V | GATE_UP),
    "qwen2moe": (EXPERTS | {"expert_shared_feed_forward_length": FFN}, Q_K_V | QKV_BIASES | OF_EXPERTS | SHARED_EXPERT | {"ffn_gate_inp_shexp": (WIDTH,)}),
    "starcoder": ({"attention.head_count_kv": KV}, {"attn_qkv": (WIDTH + 2 * KV * HEAD, WIDTH), "attn_qkv.bias": (WIDTH + 2 * KV * HEAD,)} | UP | NORM_BIASES | BIASES),
    "starcoder2": (TURNING, Q_K_V | QKV_BIASES | UP | NORM_BIASES | BIASES),
    "stablelm": ({"rope.dimension_count": 4}, Q_K_V | GATE_UP | NORM_BIASES),
    "command-r": (TURNING | {"logit_scale": 0.5}, Q_K_V | GATE_UP | {"ffn_norm": None}),
    "falcon": (TURNING, {"attn_qkv": (WIDTH + 2 * KV * HEAD, WIDTH)} | UP | {"ffn_norm": None, "attn_norm.bias": (WIDTH,)}),
    "bloom": ({"attention.head_count_kv": HEADS}, FUSED | {"attn_qkv.bias": (3 * WIDTH,)} | UP | NORM_BIASES | BIASES),
    "mpt": ({"attention.head_count_kv": HEADS, "attention.max_alibi_bias": 8.0}, FUSED | UP),
    "gptneox": ({"attention.head_count_kv": HEADS, "rope.dimension_count": 4, "use_parallel_residual": True}, FUSED | {"attn_qkv.bias": (3 * WIDTH,)} | UP | NORM_BIASES | BIASES),
    "seed_oss": (HEAD_KEYS, Q_K_V | QKV_BIASES | GATE_UP | {"ffn_norm": None, "post_attention_norm": (WIDTH,)}),
    "nemotron": ({"rope.dimension_count": 4}, Q_K_V | UP | NORM_BIASES),
    "arcee": (TURNING, Q_K_V | UP),
    "apertus": (TURNING | {"xielu.alpha_n": [0.5, 0.6], "xielu.alpha_p": [0.7, 0.8], "xielu.beta": [0.5, 0.5], "xielu.eps": [-1e-6, -1e-6]}, Q_K_V | UP | Q_K_NORM),
    "glm4": ({"rope.dimension_count": 4}, Q_K_V | QKV_BIASES | {"ffn_up": (2 * FFN, WIDTH)} | AROUND),
    "glm4moe": (HEAD_KEYS | EXPERTS | ONE_SHARED | {"rope.dimension_count": 4, "expert_gating_func": 2}, Q_K_V | QKV_BIASES | OF_EXPERTS | SHARED_EXPERT | SELECTION | {"ffn_norm": None, "post_attention_norm": (WIDTH,)}),
    "chatglm": ({"rope.dimension_count": 4}, Q_K_V | QKV_BIASES | {"ffn_up": (2 * FFN, WIDTH)}),
    "dots1": (HEAD_KEYS | EXPERTS | ONE_SHARED | {"attention.head_count_kv": HEADS, "expert_gating_func": 2, "expert_weights_scale": 1.5, "expert_weights_norm": True}, ALL_HEADS | Q_K_NORM | OF_EXPERTS | SHARED_EXPERT | SELECTION),
    "exaone4": (TURNING, Q_K_V | Q_K_NORM | GATE_UP | UNNORMED | AROUND),
    "exaone-moe": (HEAD_KEYS | EXPERTS | ONE_SHARED | TURNING | {"expert_shared_feed_forward_length": FFN, "expert_gating_func": 2, "attention.sliding_window": 4, "block_count": 4}, Q_K_V | Q_K_NORM | OF_EXPERTS | SHARED_EXPERT | SELECTION),
    "ernie4_5": (HEAD_KEYS, Q_K_V | GATE_UP),
    "ernie4_5-moe": (HEAD_KEYS | EXPERTS | ONE_SHARED | {"interleave_moe_layer_step": 1, "expert_shared_feed_forward_length": FFN}, Q_K_V | OF_EXPERTS | SHARED_EXPERT | SELECTION),
    "hunyuan-dense": (HEAD_KEYS, Q_K_V | Q_K_NORM | GATE_UP),
    "hunyuan-moe": (HEAD_KEYS | EXPERTS | {"expert_shared_feed_forward_length": FFN}, Q_K_V | Q_K_NORM | OF_EXPERTS | SHARED_EXPERT),
    "minicpm": (TURNING | {"embedding_scale": 3.0, "residual_scale": 0.5, "logit_scale": 0.5}, Q_K_V | GATE_UP),
    "gemma": (HEAD_KEYS, Q_K_V | GATE_UP),
    "internlm2": (TURNING, Q_K_V | GATE_UP),
    "afmoe": (HEAD_KEYS | EXPERTS | ONE_SHARED | {"attention.sliding_window": 4, "expert_gating_func": 2, "block_count": 4}, Q_K_V | Q_K_NORM | OF_EXPERTS | SHARED_EXPERT | SELECTION | AROUND | {"attn_gate": (HEADS * HEAD, WIDTH)}),
    "minimax-m2": (HEAD_KEYS | EXPERTS | {"rope.dimension_count": 4, "expert_gating_func": 2}, Q_K_V | WIDE_NORMS | OF_EXPERTS | SELECTION),
    "jais2": ({}, Q_K_V | QKV_BIASES | UP | NORM_BIASES | BIASES),
    "bailingmoe": (TURNING | EXPERTS | ONE_SHARED | {"expert_weights_scale": 1.0}, Q_K_V | OF_EXPERTS | SHARED_EXPERT),
}
LAYER_NORMED = ("gpt2", "cohere2", "phi2", "olmo", "starcoder", "starcoder2", "stablelm", "command-r", "falcon", "bloom", "mpt", "gptneox", "nemotron", "jais2")
TIED = ("gemma", "gemma2", "gemma3", "gemma4", "cohere2", "command-r", "bitnet")
# llama.cpp computes their GELU by a tanh, ng by erf as their makers do.
NEARLY = ("falcon", "mpt", "gptneox")
# Tensors beside those of the layers.
NORM_BIASED = {"output_norm.bias": (WIDTH,)}
BESIDE = {arch: NORM_BIASED for arch in ("phi2", "starcoder", "starcoder2", "stablelm", "falcon", "bloom", "gptneox", "nemotron", "jais2")}
BESIDE["phi2"] = NORM_BIASED | {"output.bias": (ROWS,)}
BESIDE["bloom"] = NORM_BIASED | {"token_embd_norm": (WIDTH,), "token_embd_norm.bias": (WIDTH,)}
BESIDE["starcoder"] = NORM_BIASED | {"position_embd": (64, WIDTH)}
BESIDE["gemma4"] = {"rope_freqs": (HEAD // 2,)}
BESIDE["olmo"] = {"output_norm": None}
OF_FILES = ("general", "split", "quantize", "adapter", "imatrix")  # keys begin so that are not the architecture's
ONE_OF_A_KIND = [3, 0.5, True, "x", [1, 1]]
EXTRA = {
    "attention.causal": [False], "attention.head_count": [1, 2, 4, [2, 2], [2, 1]], "attention.head_count_kv": [1, 2, 0, [1, 1], [1, 2]],
    "attention.key_length": [4, 8, 16], "attention.value_length": [4, 8, 16], RMS: [1e-5, 0.5], LAYER: [1e-5, 0.5], "block_count": [1, 2],
    "context_length": [8, 32, 128], "embedding_length": [16, 32], "expert_count": [0, 2, 4, 8], "expert_used_count": [0, 1, 4, 5], "expert_group_count": [0, 1, 2],
    "expert_group_used_count": [0, 1, 2], "expert_gating_func": [0, 1, 2], "expert_weights_scale": [0.0, 2.0], "expert_weights_norm": [False], "expert_shared_count": [0, 1],
    "feed_forward_length": [24, 32, [24, 24], [24, 32]], "expert_feed_forward_length": [24, 32, 0], "nextn_predict_layers": [0, 1, 2], "leading_dense_block_count": [0, 1, 2],
    "rope.dimension_count": [0, 4, 8, 16], "rope.freq_base": [500.0, 10000.0], "rope.freq_base_swa": [500.0, 10000.0], "rope.scale_linear": [2.0, 1.0, 0.0],
    "rope.scaling.type": ["none", "linear", "yarn", "longrope", "su", "dynamic"], "rope.scaling.factor": [2.0, 1.0, 0.0], "rope.scaling.attn_factor": [0.5, 1.0],
    "rope.scaling.original_context_length": [8, 32, 64, 0], "rope.scaling.finetuned": [False], "rope.scaling.yarn_ext_factor": [1.0, 0.0, -1.0],
    "rope.scaling.yarn_attn_factor": [1.0], "rope.scaling.yarn_beta_fast": [16.0], "rope.scaling.yarn_beta_slow": [2.0], "rope.scaling.yarn_log_multiplier": [0.1],
    "rope.dimension_sections": [[1, 1, 2, 0], [0, 0, 0, 0]], "attention.sliding_window": [0, 2, 5, 64], "attention.sliding_window_pattern": [0, 1, 2, [True, True], [False, True], [False, False]],
    "attn_logit_softcapping": [2.0, 0.0], "final_logit_softcapping": [3.0, 0.0], "attention.scale": [0.0], "attention.clamp_kqv": [0.1, 0.0], "attention.max_alibi_bias": [8.0, 0.0],
    "logit_scale": [2.0, 0.0], "embedding_scale": [2.0], "residual_scale": [2.0], "use_parallel_residual": [False], "vocab_size": [32, 64, 128], "pooling_type": [0, 1, 2],
    "attention.key_length_swa": [4, 8, 16], "attention.value_length_swa": [4, 8, 16], "rope.dimension_count_swa": [0, 4, 8, 16], "attention.shared_kv_layers": [0, 1, 2],
    "embedding_length_per_layer_input": [0, 4], "attention.temperature_length": [4], "attention.temperature_scale": [0.1], "interleave_moe_layer_step": [1, 2], "moe_every_n_layers": [2], "swiglu_clamp_exp": [[1.0, 1.0]],
    "general.type": ["model", "adapter"], "general.file_type": [0, 1], "general.quantization_version": [1, 2], "split.count": [0, 1, 2], "split.no": [0], "quantize.imatrix.file": ["x"],
    "general.name": ["x"], "general.sampling.temp": [0.5], "adapter.type": ["lora"], "imatrix.chunk_count": [3],
}
# A key of the file beside another.
TOGETHER = {
    "linear": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    "yarn": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16},
}


def keys_of(base):
    arch, _, with_more = base.partition("+")
    own = {"vocab_size": ROWS, "context_length": 64, "embedding_length": WIDTH, "feed_forward_length": FFN, "block_count": LAYERS, "attention.head_count": HEADS,
           LAYER if arch in LAYER_NORMED else RMS: 1e-5}
    if arch != "gpt2": own["attention.head_count_kv"] = KV
    own |= BASES[arch][0] | TOGETHER.get(with_more, {})
    return {"general.architecture": arch} | {k if k.startswith("xielu") else f"{arch}.{k}": v for k, v in own.items()} | {"tokenizer.ggml.model": "no_vocab"}


def tensors_of(arch):
    layer = {"attn_norm": (WIDTH,), "attn_output": (WIDTH, HEADS * HEAD), "ffn_norm": (WIDTH,)} | BASES[arch][1]
    layer = {name: shape for name, shape in layer.items() if shape}
    if "ffn_down_exps" not in layer: layer["ffn_down"] = (WIDTH, FFN)
    shapes = {"token_embd": (ROWS, WIDTH), "output_norm": (WIDTH,)} | {f"blk.{i}.{k}": v for i in range(BASES[arch][0].get("block_count", LAYERS)) for k, v in layer.items()}
    if arch not in TIED: shapes["output"] = (ROWS, WIDTH)
    shapes = {name: shape for name, shape in (shapes | BESIDE.get(arch, {})).items() if shape}
    shapes = {k if k.endswith(".bias") else k + ".weight": v for k, v in shapes.items()}
    if arch == "gpt2":
        shapes |= {k[:-6] + "bias": v[:1] for k, v in shapes.items() if k.startswith(("blk", "output_norm"))} | {"position_embd.weight": (64, WIDTH)}
    random = numpy.random.default_rng(1)
    return {k: (random.normal(size=v) * (1.4 / v[-1] ** 0.5 if len(v) > 1 else 0.2) + (len(v) == 1 and not k.endswith("bias"))).astype("float32") for k, v in shapes.items()}


def add(writer, key, value):
    if isinstance(value, bool): writer.add_bool(key, value)
    elif isinstance(value, int): writer.add_uint32(key, value) if value >= 0 else writer.add_int32(key, value)
    elif isinstance(value, float): writer.add_float32(key, value)
    elif isinstance(value, str): writer.add_string(key, value)
    else: writer.add_array(key, value)


def write(path, keys, tensors):
    writer = gguf.GGUFWriter(path, keys["general.architecture"])
    for key, value in keys.items():
        if key != "general.architecture": add(writer, key, value)
    for name, tensor in tensors.items(): writer.add_tensor(name, tensor)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()


def logits(path):
    params = llama_cpp.llama_model_default_params()
    params.use_mmap, params.n_gpu_layers = False, 0
    model = llama_cpp.llama_model_load_from_file(path.encode(), params)
    if not model: return None
    of_run = llama_cpp.llama_context_default_params()
    of_run.n_ctx = of_run.n_batch = of_run.n_ubatch = 64
    of_run.n_threads = of_run.n_threads_batch = 1
    of_run.type_k = of_run.type_v = llama_cpp.GGML_TYPE_F32
    of_run.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    run = llama_cpp.llama_init_from_model(model, of_run)
    if not run: return None
    batch = llama_cpp.llama_batch_init(len(PROMPT), 0, 1)
    batch.n_tokens = len(PROMPT)
    for i, token in enumerate(PROMPT):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if llama_cpp.llama_decode(run, batch) != 0: return None
    rows = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    return numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(run), shape=(len(PROMPT), rows)).copy()


def reference(path):
    """In a process of its own, which a file may end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
            null = os.open("/dev/null", os.O_WRONLY)
            os.dup2(null, 1), os.dup2(null, 2)
            found = logits(path)
            if found is not None: os.write(writer, found.astype("float32").tobytes())
        finally: os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as f: found = numpy.frombuffer(f.read(), dtype="float32")
    os.waitpid(child, 0)
    return found.reshape(len(PROMPT), -1) if found.size else None


def cases_of(base):
    """(name, value, key): of the keys of EXTRA; of the others, which no architecture here is known to read."""
    arch = base.partition("+")[0]
    # Norms behind RoPE take its factor away again: ng's model is another one, its logits are the same.
    untold = [("rope.scaling.attn_factor", 0.5)] if arch.startswith("hunyuan") else []
    with open(f"{HERE}/gguf_keys.txt") as f: names = {line.strip()[3:] for line in f if line.startswith("%s.")}
    key = lambda name: name if name.split(".")[0] in OF_FILES else f"{arch}.{name}"
    known = [(name, value, key(name)) for name, values in sorted(EXTRA.items()) for value in values + ["x"] if (name, value) not in untold and ("+" not in base or name.startswith(("rope", "context", "attention.scale")))]
    other = [(name, value, key(name)) for value in ONE_OF_A_KIND for name in sorted(names - set(EXTRA)) if "+" not in base]
    return known, other


class File:
    def __init__(self, base, path, program):
        self.base, self.path, self.program = base, path, program
        self.keys, self.tensors, self.letters, self.counts = keys_of(base), tensors_of(base.partition("+")[0]), {}, {}
        self.within = 2e-3 if base in NEARLY else 1e-4
        write(path, self.keys, self.tensors)
        self.still = reference(path)
        if self.still is None: raise SystemExit(f"llama.cpp does not run {base}")
        if program: judge(program, path, (base, "as it is", "0"), "s", self.still, self.within)

    def count(self, case, moved, ran):
        self.letters[case] = "r" if ran in ("stricter", "window") else moved
        self.counts[moved, ran] = self.counts.get((moved, ran), 0) + 1

    def outcome(self, cases):
        write(self.path, self.keys | {key: value for _, value, key in cases}, self.tensors)
        wanted = reference(self.path)
        return "f" if wanted is None else "s" if equal(wanted, self.still) else "m", wanted

    def one(self, name, value, key):
        moved, wanted = self.outcome([(name, value, key)])
        case = (name, json.dumps(value))
        self.count(case, moved, judge(self.program, self.path, (self.base, *case), moved, wanted, self.within) if self.program and moved != "f" else "")

    def together(self, cases):
        if len(cases) == 1: return self.one(*cases[0])
        if self.outcome(cases)[0] == "s":
            mine = ng(self.program, self.path)[0] if self.program else self.still
            if not isinstance(mine, int) and equal(mine, self.still, self.within):
                for name, value, _ in cases: self.count((name, json.dumps(value)), "s", "equal")
                return
        half = len(cases) // 2
        self.together(cases[:half]), self.together(cases[half:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", action="append"), parser.add_argument("--key", action="append"), parser.add_argument("--ng"), parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    bases = list(BASES) + [f"{arch}+{more}" for arch in ("llama", "gemma3", "phi3") for more in TOGETHER]
    table, path = {}, tempfile.mkdtemp() + "/model.gguf"
    for place, base in enumerate(bases):
        if args.base and base not in args.base: continue
        file = File(base, path, args.ng)
        known, other = cases_of(base)
        for case in known + (other if args.key else []):
            if not args.key or case[0] in args.key: file.one(*case)
        for i in range(0, 0 if args.key else len(other), 24): file.together(other[i:i + 24])
        for (name, value), letter in file.letters.items():
            case = (name if name.split(".")[0] in OF_FILES else "%s." + name, value)
            letters = table.setdefault(case, "-" * len(bases))
            table[case] = letters[:place] + letter + letters[place + 1:]
        print(base, ", ".join(f"{moved} {ran} {n}" for (moved, ran), n in sorted(file.counts.items())), f"in all {sum(file.counts.values())}", flush=True)
    if not args.write: return
    with open(f"{HERE}/gguf_cases.tsv", "w") as f: f.write("".join("\t".join((*case, letters)) + "\n" for case, letters in sorted(table.items())))
    with open(f"{HERE}/gguf_bases.json", "w") as f: f.write("{" + ",\n".join(json.dumps(base) + ": " + json.dumps(keys_of(base)) for base in bases) + "}\n")


if __name__ == "__main__": main()
