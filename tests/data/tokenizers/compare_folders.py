"""Runs ng-run on folders made as published models are, and compares ids with transformers.

    [LLAMA_CPP=DIR] OMP_NUM_THREADS=1 python3 compare_folders.py --ng ../../../build/bin/ng-run --folder /tmp/folders

For each model of MODELS: a tiny one of its architecture with random weights, a tokenizer trained in its layout, and
tokenizer_config.json, generation_config.json and chat_template.jinja with the keys that its files have. The templates
are written for this script: each uses what the model's own uses. ng-run's ids must be those of transformers for

  plain       the prompt of `-p TEXT`: AutoTokenizer's ids
  chat        the prompt of `ng-run FOLDER TEXT`: apply_chat_template's ids
  turns       a conversation with a system's message and an answer, through --prompts
  greedy      what is generated behind the chat's prompt: generate()'s ids, without sampling
  gguf ...    the same from a GGUF file that llama.cpp's converter (its sources are in DIR) makes of the folder

Needs torch, transformers and what compare_references.py needs.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

LLAMA_CPP = os.environ.get("LLAMA_CPP", "")
if LLAMA_CPP:
    sys.path[:0] = [LLAMA_CPP, os.path.join(LLAMA_CPP, "gguf-py")]
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import AddedToken, Tokenizer, models, processors  # noqa: E402
from transformers.tokenization_utils_base import generate_merges  # noqa: E402

import compare_references as made  # noqa: E402

TEXTS = ["Hello", " Who art thou? It's 12345 o'clock.\n\n", "caf\u00e9 \u4f60\u597d \U0001f600\u200d x == 1;\n\treturn;", "<s>[INST] not a mark</s>"]
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "max_position_embeddings": 512}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
               "rope_theta": 500000.0}

HEADER = """{{ bos_token }}
{%- set date = date_string if date_string is defined else "26 Jul 2024" %}
{%- if messages[0].role == "system" %}{% set system = messages[0].content | trim %}{% set messages = messages[1:] %}{% else %}{% set system = "" %}{% endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date + "\\n\\n" + system + "<|eot_id|>" }}
{%- for message in messages %}
{{- "<|start_header_id|>" + message["role"] + "<|end_header_id|>\\n\\n" + message["content"] | trim + "<|eot_id|>" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{% endif %}"""
CHATML = """{%- for message in messages %}
{{- "<|im_start|>" + message.role + "\\n" + message.content + "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- "<think>\\n\\n</think>\\n\\n" }}{% endif %}
{%- endif %}"""
SMOLLM3 = """{%- set ns = namespace(system="You are a helpful assistant.") %}
{%- if messages[0]["role"] == "system" %}{% set ns.system = messages[0]["content"].rstrip() %}{% endif %}
{{- "<|im_start|>system\\n## Metadata\\n\\nReasoning Mode: /think\\n\\n" ~ ns.system ~ "<|im_end|>\\n" }}
{%- for message in messages if message["role"] != "system" %}
{%- generation %}{{- "<|im_start|>" ~ message["role"] ~ "\\n" ~ message["content"] ~ "<|im_end|>\\n" }}{% endgeneration %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\\n" }}{% endif %}"""
GEMMA = """{{ bos_token }}
{%- set first = "" %}
{%- if messages[0]["role"] == "system" %}{% set first = messages[0]["content"] + "\\n\\n" %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}
{%- for message in loop_messages %}
{%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}{{ raise_exception("roles must alternate") }}{% endif %}
{%- set role = "model" if message["role"] == "assistant" else message["role"] %}
{{- "<start_of_turn>" + role + "\\n" + (first if loop.first else "") }}{{ message["content"] | trim }}{{ "<end_of_turn>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<start_of_turn>model\\n" }}{% endif %}"""
MISTRAL = """{%- if messages[0].role == "system" %}{% set system = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{{- bos_token }}
{%- for message in rest %}
{%- if message.role == "user" %}{{- "[INST] " + (system + "\\n\\n" if loop.last and system is defined else "") + message.content + "SPACE[/INST]" }}
{%- else %}{{- " " + message.content + eos_token }}{% endif %}
{%- endfor %}"""
PHI4 = """{% for message in messages %}{{ "<|" + message.role + "|>" + message.content + "<|end|>" }}{% endfor %}{% if add_generation_prompt %}{{ "<|assistant|>" }}{% else %}{{ eos_token }}{% endif %}"""
HARMONY = """{%- macro system() %}{{- "You are a model.\\nReasoning: " + (reasoning_effort | default("medium")) + "\\n" }}{% endmacro %}
{{- "<|start|>system<|message|>" }}{{- system() }}{{- "<|end|>" }}
{%- for message in messages %}
{%- if message.role == "system" %}{{- "<|start|>developer<|message|># Instructions\\n\\n" + message.content + "<|end|>" }}
{%- elif message.role == "assistant" %}{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
{%- else %}{{- "<|start|>" + message.role + "<|message|>" + message.content + "<|end|>" }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""
DEEPSEEK = """{% set ns = namespace(system="") %}{%- for m in messages %}{%- if m["role"] == "system" %}{% set ns.system = m["content"] %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}
{%- for m in messages %}{%- if m["role"] == "user" %}{{ "<\uff5cUser\uff5c>" + m["content"] }}{%- elif m["role"] == "assistant" %}{{ "<\uff5cAssistant\uff5c>" + m["content"].split("</think>")[-1] + "<\uff5cend\u2581of\u2581sentence\uff5c>" }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ "<\uff5cAssistant\uff5c><think>\\n" }}{% endif %}"""
GRANITE = """{%- for message in messages %}{{- "<|start_of_role|>" + message.role + "<|end_of_role|>" + message.content + "<|end_of_text|>\\n" }}{% endfor %}{%- if add_generation_prompt %}{{- "<|start_of_role|>assistant<|end_of_role|>" }}{% endif %}"""
LFM2 = "{{- bos_token -}}" + CHATML.split("    {%- if enable")[0] + "{%- endif %}"

QWEN = dict(bos=None, eos="<|im_end|>", special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], plain=["<think>", "</think>"])
# The tokenizer's layout and name in GGUF files; the model and what of it is not as in SIZES; tokens; template; the class that the file names.
MODELS = {
    "Llama 3.2": dict(layout="llama3", pre="llama-bpe", model="llama", sizes={"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}, bos="<|begin_of_text|>", eos="<|eot_id|>",
                      special=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], template=HEADER, adds_bos=True),
    "Qwen3": dict(QWEN, layout="qwen2", pre="qwen2", model="qwen3", sizes={"tie_word_embeddings": True}, template=CHATML, kind="Qwen2Tokenizer"),
    "Qwen3.5": dict(QWEN, layout="qwen35", pre="qwen35", model="qwen3_5_text", template=CHATML, kind="Qwen2Tokenizer", sizes={
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "head_dim": 16}),
    "Gemma 3": dict(layout="gemma", model="gemma3_text", sizes={"sliding_window": 32, "query_pre_attn_scalar": 16}, bos="<bos>", eos="<eos>", kind="GemmaTokenizer",
                    special=["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"], template=GEMMA, adds_bos=True),
    "Gemma 4": dict(layout="gemma", model="gemma4_text", bos="<bos>", eos="<eos>", kind="GemmaTokenizer", adds_bos=True,
                    special=["<pad>", "<eos>", "<bos>", "<mask>", "<start_of_turn>", "<end_of_turn>"], template=GEMMA, sizes={
                        "sliding_window": 32, "global_head_dim": 32, "num_global_key_value_heads": None, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 16, "final_logit_softcapping": 30.0,
                        "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "Mistral v0.2": dict(layout="llama2_prepend", model="mistral", sizes={"sliding_window": None}, bos="<s>", eos="</s>", special=[], template=MISTRAL.replace("SPACE", " "),
                         adds_bos=True, kind="LlamaTokenizer"),
    "Mistral v0.3": dict(layout="mistral_first", model="mistral", sizes={"sliding_window": None}, bos="<s>", eos="</s>", special=["[INST]", "[/INST]"],
                         template=MISTRAL.replace("SPACE", ""), adds_bos=True, kind="LlamaTokenizer"),
    "Mistral Nemo": dict(layout="tekken_nemo", pre="tekken", model="mistral", sizes={"sliding_window": None, "head_dim": 32}, bos="<s>", eos="</s>", special=["<s>", "</s>", "[INST]", "[/INST]"],
                         template=MISTRAL.replace("[INST] ", "[INST]").replace("SPACE", ""), adds_bos=True),
    "Phi-4-mini": dict(layout="o200k_removed_phi4_mini", pre="gpt-4o", model="phi3", sizes={"tie_word_embeddings": True, "partial_rotary_factor": 0.75, "pad_token_id": 0}, bos="<|endoftext|>",
                       eos="<|endoftext|>", special=["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"], template=PHI4, kind="GPT2Tokenizer"),
    "SmolLM3": dict(layout="smollm3", pre="smaug-bpe", model="smollm3", sizes={"pad_token_id": 0, "tie_word_embeddings": True}, bos=None, eos="<|im_end|>",
                    special=["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"], plain=["<think>", "</think>"], template=SMOLLM3),
    "gpt-oss": dict(layout="o200k_gpt_oss", pre="gpt-4o", model="gpt_oss", sizes={"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 32, "head_dim": 32}, bos="<|startoftext|>", eos="<|return|>",
                    special=["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"], template=HARMONY),
    "DeepSeek-R1-Distill-Qwen": dict(layout="qwen2", pre="deepseek-r1-qwen", model="qwen2", sizes={}, bos="<\uff5cbegin\u2581of\u2581sentence\uff5c>", eos="<\uff5cend\u2581of\u2581sentence\uff5c>",
                                     special=["<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>"], plain=["<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<think>", "</think>"],
                                     template=DEEPSEEK, adds_bos=True, kind="LlamaTokenizerFast"),
    "Granite 4": dict(layout="cl100k_granite4", pre="dbrx", model="granitemoehybrid", bos="<|end_of_text|>", eos="<|end_of_text|>",
                      special=["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"], template=GRANITE, kind="GPT2Tokenizer", sizes={
                          "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 64, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_expand": 2,
                          "mamba_n_groups": 1, "layer_types": ["mamba", "mamba", "attention", "mamba"], "position_embedding_type": "nope"}),
    "LFM2": dict(layout="lfm2", pre="lfm2", model="lfm2", bos="<|startoftext|>", eos="<|im_end|>", special=["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                 template=LFM2, adds_bos=True, sizes={"layer_types": ["conv", "conv", "full_attention", "conv"], "block_ff_dim": 96, "block_auto_adjust_ff_dim": False}),
}


def of_sentencepiece(of, folder):
    """The tokenizer.json that is made from a tokenizer.model, which stands beside it."""
    name = "spm_gemma" if of["layout"] == "gemma" else "spm_llama"
    model = made.train_sentencepiece(name, made.SENTENCEPIECE[name])
    shutil.copy(model, folder)
    processor = made.sentencepiece.SentencePieceProcessor(model_file=model)
    vocabulary = {processor.id_to_piece(i): i for i in range(processor.vocab_size())}
    tokenizer = Tokenizer(models.BPE(vocabulary, generate_merges(vocabulary), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.parts(tokenizer, made.FALLBACK[of["layout"]])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in ["<unk>", "<s>", "</s>"]])
    if name == "spm_gemma":
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in made.SENTENCEPIECE[name]["user_defined_symbols"] if text not in of["special"]])
    return json.loads(tokenizer.to_str())


def trained(of):
    path = os.path.join(made.FOLDER, of["layout"], "tokenizer.json")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made.train_bytes(made.BYTE_LEVEL[of["layout"]]).save(path)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    found["added_tokens"] = found["added_tokens"][:3]
    return found


def tokenizer_of(of, folder):
    """One trained in the layout, with the model's own special tokens and what begins a text."""
    parts = of_sentencepiece(of, folder) if of["layout"] in made.FALLBACK else trained(of)
    parts["post_processor"] = None
    # No published tokenizer makes its special tokens by merges; ng refuses one that does.
    own = {*of["special"], *of.get("plain", [])}
    parts["model"]["merges"] = [merge for merge in parts["model"]["merges"] if "".join(merge) not in own]
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in of["special"]])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in of.get("plain", [])])
    if of.get("adds_bos"):
        tokenizer.post_processor = processors.TemplateProcessing(single=of["bos"] + " $A", pair=of["bos"] + " $A $B", special_tokens=[(of["bos"], tokenizer.token_to_id(of["bos"]))])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return tokenizer


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")


def make(of, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tokenizer = tokenizer_of(of, folder)
    id_of = lambda text: None if text is None else tokenizer.token_to_id(text)
    kind = transformers.models.auto.configuration_auto.CONFIG_MAPPING[of["model"]]
    known = set(kind().to_dict()) | set(getattr(kind, "attribute_map", {}))
    sizes = {key: value for key, value in {**SIZES, **of["sizes"]}.items() if key in known or key in of["sizes"]}
    # Rows without a token, as many models have them; the converter gives those of SentencePiece's layout none.
    more = 0 if of["layout"] in made.FALLBACK else 5
    n_rows = max(tokenizer.get_vocab().values()) + 1 + more
    if "vocab_size_per_layer_input" in known:
        sizes["vocab_size_per_layer_input"] = n_rows
    config = kind(vocab_size=n_rows, bos_token_id=id_of(of["bos"]), eos_token_id=id_of(of["eos"]), **sizes)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.6 if parameter.shape[0] == config.vocab_size else 1.4 / parameter.shape[-1] ** 0.5)
    model.tie_weights()
    model.save_pretrained(folder)
    decoder = {str(i): {"content": token.content, "lstrip": token.lstrip, "normalized": token.normalized, "rstrip": token.rstrip, "single_word": token.single_word, "special": token.special}
               for i, token in tokenizer.get_added_tokens_decoder().items()}
    settings = {"added_tokens_decoder": decoder, "bos_token": of["bos"], "eos_token": of["eos"], "pad_token": of["eos"], "clean_up_tokenization_spaces": False,
                "model_max_length": 512, "tokenizer_class": of.get("kind", "PreTrainedTokenizerFast")}
    if of["layout"] in made.FALLBACK:
        settings.update(unk_token="<unk>", add_bos_token=True, add_eos_token=False, legacy=False, sp_model_kwargs={})
    write(folder, "tokenizer_config.json", settings)
    write(folder, "chat_template.jinja", of["template"])
    write(folder, "generation_config.json", {"bos_token_id": id_of(of["bos"]), "eos_token_id": [id_of(of["eos"])], "do_sample": True, "temperature": 0.6, "top_p": 0.95})


class Reference:
    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()

    def plain(self, text):
        return self.tokenizer(text).input_ids

    def chat(self, messages):
        return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def greedy(self, ids, count):
        with torch.no_grad():
            found = self.model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False, max_new_tokens=count, top_p=None, temperature=None)
        return found[0].tolist()


def conversations():
    for text in TEXTS[:3]:
        yield [{"role": "user", "content": text}]
    yield [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello there."}, {"role": "user", "content": TEXTS[2]}]


class Ng:
    def __init__(self, path):
        self.path = path
        self.error = ""

    def run(self, *arguments):
        done = subprocess.run([NG, *arguments, "--output", "jsonl", "--run.threads=1", "--sampler.chain=greedy"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            self.error = done.stderr.strip().split("\n")[-1]
            return {}
        return json.loads(done.stdout.strip().split("\n")[-1])

    def turns(self, messages):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps({"messages": messages}) + "\n")
            file.flush()
            return self.run("-m", self.path, "--prompts", file.name, "-n", "1").get("prompt_ids")


def compare(path, reference, count):
    """The kinds of runs that differ, each with its first case."""
    ng, differ = Ng(path), {}

    def equal(kind, case, found, wanted):
        if found != wanted:
            differ.setdefault(kind, f"{case!r}: ng {ng.error or found}, transformers {wanted}")

    for text in TEXTS[:3]:
        equal("plain", text, ng.run("-m", path, "-p", text, "-n", "1").get("prompt_ids"), reference.plain(text))
        wanted = reference.chat([{"role": "user", "content": text}])
        found = ng.run(path, text, "-n", str(count))
        equal("chat", text, found.get("prompt_ids"), wanted)
        if found.get("prompt_ids") == wanted:
            equal("greedy", text, found["ids"], reference.greedy(wanted, count))
    for messages in conversations():
        equal("turns", messages, ng.turns(messages), reference.chat(messages))
    return differ


def convert(of, folder, path):
    """By llama.cpp's converter, told the name of the split pattern that it would find by the published file's hash."""
    from pathlib import Path
    import gguf
    from conversion import get_model_class
    from conversion.base import TextModel
    TextModel.get_vocab_base_pre = lambda self, tokenizer: of.get("pre", "default")
    # With the names that the converter knows from the published config.json.
    published = folder + "_published"
    shutil.copytree(folder, published, dirs_exist_ok=True)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if of["model"] == "granitemoehybrid":
        config["layer_types"] = of["sizes"]["layer_types"]
    if of["model"] == "qwen3_5_text":
        config["rope_parameters"]["mrope_section"] = [1, 1, 0]
    write(published, "config.json", config)
    kind = get_model_class(config["architectures"][0])
    kind = type(kind.__name__, (kind,), {"model_arch": kind.model_arch, "no_mtp": True})
    with torch.inference_mode():
        kind(Path(published), gguf.LlamaFileType.ALL_F32, Path(path)).write()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ng", required=True)
    options.add_argument("--folder", required=True)
    options.add_argument("--only", default="")
    options.add_argument("--tokens", type=int, default=8)
    given = options.parse_args()
    global NG
    NG, made.FOLDER = given.ng, given.folder
    transformers.utils.logging.disable_progress_bar()
    for name, of in MODELS.items():
        if given.only not in name:
            continue
        folder = os.path.join(given.folder, "models", name.replace(" ", "_"))
        make(of, folder)
        reference = Reference(folder)
        ways = [("folder", folder)]
        if LLAMA_CPP:
            try:
                convert(of, folder, folder + ".gguf")
                ways.append(("gguf", folder + ".gguf"))
            except Exception as error:  # pylint: disable=broad-except
                print(f"{name}: the converter: {type(error).__name__}: {str(error)[:200]} {traceback.extract_tb(error.__traceback__)[-1]}")
        for way, path in ways:
            differ = compare(path, reference, given.tokens)
            print(f"{name}, {way}: {'plain, chat, turns, greedy equal' if not differ else 'differ: ' + ', '.join(differ)}", flush=True)
            for kind, case in differ.items():
                print(f"  {kind}: {case[:700]}")


if __name__ == "__main__":
    main()
