"""Which keys of a config.json change what transformers computes: writes config_cases.tsv and config_bases.json beside this file.

Every key of config_keys.txt, and of EXTRA below, is set to several values in the config.json of a tiny model of each family that ng reads.
The model is loaded from the folder, and its logits are compared with those of the untouched folder. A row of the table is a key, its value
and a letter for each of the models in config_bases.json: s (the same logits), m (they move, or the file does not have the weights asked for),
f (an error), - (not tried). `--ng build/bin/ng-run` reads the table instead, runs ng on every folder but the failing ones, and prints where
it is at fault: it must move equally or refuse where the reference moves, and run equally where it does not.

Made with transformers 5.23.0, torch 2.15.0.
"""
import argparse, copy, functools, json, os, shutil, tempfile, warnings
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="critical")
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
from running import PROMPT, equal, judge, ng

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
             head_dim=8, max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2)
GPT2 = dict(vocab_size=64, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
# name: model_type, what the class is made with, what is changed in the file
BASES = {
    "llama": ("llama", SHAPE, {}),
    "llama_4": ("llama", SHAPE, {"rope_parameters": None, "rope_theta": 10000.0, "rope_scaling": None}),
    "llama_linear": ("llama", SHAPE | dict(rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=4.0)), {}),
    "llama_llama3": ("llama", SHAPE | dict(rope_parameters=LLAMA3), {}),
    "mistral": ("mistral", SHAPE, {}),
    "qwen2": ("qwen2", {k: v for k, v in SHAPE.items() if k != "head_dim"}, {}),
    "qwen3": ("qwen3", SHAPE, {}),
    "gpt2": ("gpt2", GPT2, {}),
}
ROPE = {"rope_type": ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "axial", "su", "mrope"], "type": ["default", "linear", "yarn", "llama3", "mrope"],
        "rope_theta": [500.0], "partial_rotary_factor": [0.5, 1.0], "factor": [0.5, 2.0], "original_max_position_embeddings": [8, 32],
        "attention_factor": [0.5], "beta_fast": [16], "beta_slow": [2], "short_factor": [[1.0, 2.0, 3.0, 4.0]],
        "long_factor": [[1.0, 2.0, 3.0, 4.0]], "low_freq_factor": [0.5], "high_freq_factor": [2.0], "mscale": [0.5], "mscale_all_dim": [0.5],
        "truncate": [False, True], "mrope_section": [[1, 1, 2]], "alpha": [2.0], "finetuned": [True], "rope_interleaved": [True], "mrope_interleaved": [True]}
QUANT = [{"quant_method": m} for m in ("gptq", "awq", "bitnet", "bitsandbytes", "fp8", "compressed-tensors", "eetq", "unknown")]
QUANT += [{"quant_method": "gptq", "bits": 4, "group_size": 128}, {"quant_method": "bitsandbytes", "load_in_4bit": True}, {"load_in_8bit": True},
          {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}]
EXTRA = {f"{outer}.{k}": v for outer in ("rope_parameters", "rope_scaling") for k, v in ROPE.items()} | {
    "quantization_config": QUANT, "quantization": [{"group_size": 64, "bits": 4}], "is_causal": [False, True], "use_bidirectional_attention": [True],
    "is_decoder": [True], "original_max_position_embeddings": [8, 32], "per_layer_config": [{"0": {"num_key_value_heads": 2}}, {"0": {"hidden_act": "relu"}}, {"0": {"rms_norm_eps": 0.5, "layer_norm_epsilon": 0.5}}],
    "rope_scaling": [{"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0}, {"factor": 2.0}, {"rope_type": "default"}, {"type": "dynamic", "factor": 2.0},
                     {"type": "yarn", "factor": 2.0}, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
                     {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}, {"type": "mrope", "mrope_section": [1, 1, 2]}],
    "layer_types": [["full_attention", "full_attention"], ["full_attention", "sliding_attention"], ["sliding_attention", "sliding_attention"], ["attention", "attention"],
                    ["linear_attention", "full_attention"], ["chunked_attention", "full_attention"]],
    "hidden_act": ["silu", "swish", "gelu", "relu", "gelu_new", "gelu_pytorch_tanh"], "hidden_activation": ["gelu", "gelu_pytorch_tanh"],
    "activation_function": ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "quick_gelu", "gelu_python"],
    "sliding_window": [5, 4096, None], "max_window_layers": [0, 1], "use_sliding_window": [True, False], "tie_word_embeddings": [True, False], "eos_token_id": [-1, [2, 3], 1, None],
    "scale_attn_weights": [False], "scale_attn_by_inverse_layer_idx": [True], "reorder_and_upcast_attn": [True], "add_cross_attention": [True],
    "tie_encoder_decoder": [True], "attn_implementation": ["eager", "sdpa"], "_attn_implementation": ["sdpa"], "_attn_implementation_autoset": [True], "experts_implementation": ["eager"],
    "_attn_implementation_internal": ["sdpa"], "auto_map": [{"AutoModelForCausalLM": "modeling_x.X"}], "dtype": ["float16", "bfloat16"], "torch_dtype": ["float16", "bfloat16"], "pruned_heads": [{"0": [0]}, {}],
    "num_labels": [3], "id2label": [{"0": "a"}], "head_dim": [8, 4], "rms_norm_eps": [0.5, None], "layer_norm_epsilon": [0.5, None], "layer_norm_eps": [0.5], "norm_eps": [0.5], "mlp_bias": [True, False], "attention_bias": [True, False],
    "num_key_value_heads": [1, 2, None], "n_inner": [64, 24, None], "activation": ["relu"], "hidden_dropout": [0.1], "rotary_pct": [0.5], "partial_rotary_factor": [0.5, 1.0], "rope_theta": [500.0],
    "rope_local_base_freq": [500.0], "base": [500.0], "rotary_emb_base": [500.0], "logit_scale": [0.5], "attention_multiplier": [0.5], "residual_multiplier": [0.5],
    "embedding_multiplier": [2.0], "logits_scaling": [2.0], "final_logit_softcapping": [1.0], "attn_logit_softcapping": [1.0], "query_pre_attn_scalar": [4],
    "num_experts": [2], "num_local_experts": [2], "no_rope_layers": [[0, 1]], "use_qk_norm": [True], "qk_norm": [True], "qk_layernorm": [True], "clip_qkv": [0.1], "alibi": [True],
    "parallel_attn": [True], "use_parallel_residual": [True], "attention_chunk_size": [4], "n_ctx": [64, 8], "task_specific_params": [{"text-generation": {"do_sample": True, "max_length": 50}}],
    "return_dict": [False, True], "use_return_dict": [False], "output_hidden_states": [True], "output_attentions": [True], "torchscript": [True], "is_encoder_decoder": [True], "cross_attention_hidden_size": [16],
    "chunk_size_feed_forward": [0, 4], "use_mrope": [True, False], "max_sequence_length": [2048], "unsloth_version": ["2024.9"], "unsloth_fixed": [True], "unsloth_tied": [True], "is_llama_config": [True], "rope_interleaved": [False, True],
    "transformers.js_config": [{"dtype": "q4"}], "pretraining_tp": [1, 2], "tokenizer_class": ["LlamaTokenizer"], "initializer_range": [0.5], "use_cache": [False, True], "architectures": [["LlamaForCausalLM"], ["X"]], "_name_or_path": ["a/b"],
    "mrope_section": [[1, 1, 2]], "seq_length": [16], "max_length": [8], "n_embd": [16, 32], "n_layer": [1], "n_head": [4], "n_positions": [64], "hidden_size": [16, 32], "num_hidden_layers": [1, 2, 3], "num_attention_heads": [2, 4], "max_position_embeddings": [64, 128, 16],
    "vocab_size": [64, 128], "intermediate_size": [24, 32], "encoder_no_repeat_ngram_size": [3], "repetition_penalty": [1.3], "temperature": [0.5], "top_k": [5],
}
GENERIC = [True, 3, "relu", {"a": 1}]
SKIP = {"model_type"}
NESTED = ("rope_parameters", "rope_scaling")
transformers.logging.set_verbosity(transformers.logging.CRITICAL)
transformers.utils.logging.disable_progress_bar()


def keys_and_values(base, asked):
    """Key -> values: those of EXTRA; of what the reference asks its config for, one of each kind and the defaults of the classes that have it; else one.
    A second base of one type gets the keys of EXTRA alone."""
    values = {}
    with open(f"{HERE}/config_keys.txt") as lines:
        for line in lines:
            key = line.split("\t")[0].strip()
            if not line.startswith("#"): values[key] = list(GENERIC) if key in asked else [3]
    for fields in class_defaults():
        for key, value in fields.items():
            text = json.dumps(value, default=str)
            if key in values and key in asked and value is not None and len(text) < 60 and json.loads(text) not in values[key] and len(values[key]) < 7: values[key].append(json.loads(text))
    for key in sorted(asked - set(values)): values[key] = list(GENERIC)
    for key, own in EXTRA.items(): values[key] = list(own) + [v for v in (3, {"a": 1}) if not any(type(v) is type(o) and v == o for o in own)]
    return {k: v for k, v in sorted(values.items()) if k not in SKIP and ("_" not in base or k in EXTRA)}


@functools.cache
def class_defaults():
    found = []
    for kind in CAUSAL:
        try: found.append(CONFIG_MAPPING[kind]().to_dict())
        except Exception: pass
    return found


def asked_for(kind, folder):
    """The names that the reference looks for in its config, there or not, from loading to the logits."""
    names, cls = set(), CONFIG_MAPPING[kind]
    plain = cls.__getattribute__
    cls.__getattribute__ = lambda self, name: (names.add(name), plain(self, name))[1]
    try: reference(folder)
    finally: del cls.__getattribute__
    return {n for n in names if not n.startswith("__") and not callable(getattr(cls, n, None)) and not isinstance(getattr(cls, n, None), (dict, set))}


def with_key(config, key, value):
    config = copy.deepcopy(config)
    outer, _, inner = key.partition(".")
    if not inner or key in ("transformers.js_config",): config[key] = value
    else:
        if not isinstance(config.get(outer), dict): config[outer] = {}
        return config | {outer: with_key(config[outer], inner, value)}
    return config


def make(folder, base):
    kind, over, edit = BASES[base]
    config = CONFIG_MAPPING[kind](**over)
    model = getattr(transformers, CAUSAL[kind])._from_config(config, attn_implementation="eager").eval().float()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((p if p.dim() <= 1 else 0) + torch.randn(p.shape, generator=generator) * (0.2 if p.dim() <= 1 else 1.4 / p.shape[-1] ** 0.5))
    model.tie_weights()
    model.save_pretrained(folder)
    if os.path.exists(folder + "/generation_config.json"): os.unlink(folder + "/generation_config.json")
    with open(folder + "/config.json") as f: config = json.load(f) | edit
    return {k: v for k, v in config.items() if v is not None or k not in edit}


def reference(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    if info["missing_keys"] or info["mismatched_keys"]: return "other weights"
    with torch.no_grad(): out = model.eval()(input_ids=torch.tensor([PROMPT]), use_cache=False)
    return (out[0] if isinstance(out, tuple) else out.logits)[0].float().numpy()


def outcome(folder, still):
    """What the reference does there, and its logits."""
    try: got = reference(folder)
    except Exception: return "f", None
    if isinstance(got, str): return "m", None
    return ("s" if equal(got, still) else "m"), got


def main():
    parser = argparse.ArgumentParser()
    for name in ("--base", "--key"): parser.add_argument(name, action="append")
    parser.add_argument("--ng"), parser.add_argument("--table", default=f"{HERE}/config_cases.tsv"), parser.add_argument("--bases", default=f"{HERE}/config_bases.json")
    args = parser.parse_args()
    table, counts, configs = {}, {}, {}
    if args.ng:
        with open(args.table) as f: table = {tuple(row[:2]): row[2] for row in (line.rstrip("\n").split("\t") for line in f)}
    for base in args.base or BASES:
        folder = tempfile.mkdtemp()
        config = configs[base] = make(folder, base)
        def write(value):
            with open(folder + "/config.json", "w") as f: json.dump(value, f)
        write(config)
        still, place = reference(folder), list(BASES).index(base)
        for key, values in keys_and_values(base, asked_for(BASES[base][0], folder)).items():
            if args.key and key not in args.key: continue
            for value in values:
                case = (key, json.dumps(value))
                write(with_key(config, key, value))
                letters = table.setdefault(case, "-" * len(BASES))
                moved = letters[place] if args.ng else None
                wanted = still
                if moved in (None, "m", "-"): moved, wanted = outcome(folder, still)
                if args.key: print(base, *case, moved)
                table[case] = letters[:place] + moved + letters[place + 1:]
                ran = judge(args.ng, folder, (base, *case), moved, wanted) if args.ng and moved != "f" else ""
                counts[base, moved, ran] = counts.get((base, moved, ran), 0) + 1
        shutil.rmtree(folder)
    for what, n in sorted(counts.items()): print(*what, n, flush=True)
    if args.ng: return
    with open(args.table, "w") as f: f.write("".join("\t".join((*case, letters)) + "\n" for case, letters in sorted(table.items())))
    with open(args.bases, "w") as f: f.write("{" + ",\n".join(json.dumps(base) + ": " + json.dumps(config) for base, config in configs.items()) + "}\n")


if __name__ == "__main__": main()
