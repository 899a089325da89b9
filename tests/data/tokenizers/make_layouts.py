"""Makes layouts/: SentencePiece models with the files that published models have beside them, and
the ids that transformers gives for texts and conversations.

    OMP_NUM_THREADS=1 python3 make_layouts.py

Needs transformers 5, tokenizers, sentencepiece and protobuf. Each folder has cases.jsonl: a line
{"text", "parse_special", "ids"} with the tokens that begin and end a text, or {"message", "ids"},
a user's turn through the template. A folder without a tokenizer.model has that of ../spm_bpe_llama.
"""
import json
import os
import shutil
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers  # noqa: E402
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,  # noqa: E402
                        processors)
from transformers.convert_slow_tokenizer import import_protobuf  # noqa: E402
from transformers.tokenization_utils_base import generate_merges  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "spm_bpe_llama", "tokenizer.model")
LAYOUTS = os.path.join(HERE, "layouts")

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
    "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}"
    "{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
    "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
    "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
    "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
MISTRAL3 = MISTRAL.replace("' [/INST]'", "'[/INST]'")

TEXTS = ["Hello, world!", "Hello", " Hello", "  two  spaces ", "\n", "", "a", "Caf\u00e9 \u4f60\u597d \U0001f600", "\u2581x",
         "[NOT] a mark [/NOT]", "x = 10;\n\ty = 20;\n", "The quick brown fox jumps over the lazy dog. " * 3]
PARSED = ["<s>Hello</s>", "a<s> b</s>c", "</s>\n<s>\n", "Hello</s> </s>Hello"]
MESSAGES = ["Hi", " Hi there ", "Who art thou?\nTell me.", "1 + 1 = <s> ?"]


def special(text):
    return {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}


def proto_of(path):
    proto = import_protobuf().ModelProto()
    with open(path, "rb") as file:
        proto.ParseFromString(file.read())
    return proto


def with_control_pieces(texts):
    """The model with more control pieces behind its first three, as version 3 of Mistral's has."""
    proto = proto_of(MODEL)
    wide = import_protobuf().ModelProto()
    wide.CopyFrom(proto)
    del wide.pieces[:]
    for piece in proto.pieces[:3]:
        wide.pieces.add().CopyFrom(piece)
    for text in texts:
        wide.pieces.add(piece=text, score=0.0, type=3)
    for piece in proto.pieces[3:]:
        wide.pieces.add().CopyFrom(piece)
    wide.trainer_spec.vocab_size = len(wide.pieces)
    return wide


def tokenizer_json(proto, path, metaspace, bos=True):
    """What the converters of transformers 4 write: `metaspace` is a scheme, or None for a normaliser."""
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, generate_merges(vocab), unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if metaspace is None:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme=metaspace, split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(piece.piece, normalized=False, special=True)
                                  for piece in proto.pieces if piece.type in (2, 3)])
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocab["<s>"])])
    tokenizer.save(path, pretty=False)


def config(**changes):
    base = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>",
            "unk_token": "<unk>", "clean_up_tokenization_spaces": False, "model_max_length": 10**30,
            "pad_token": None, "padding_side": "right", "sp_model_kwargs": {},
            "tokenizer_class": "LlamaTokenizer"}
    base.update(changes)
    return {key: value for key, value in base.items() if value != "absent"}


def decoder_of(texts):
    return {str(i): {**special(text), "special": True} for i, text in enumerate(texts)}


MAP = {"bos_token": special("<s>"), "eos_token": special("</s>"), "unk_token": special("<unk>")}
V3 = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]"] + [f"[control_{i}]" for i in range(8, 20)]
THREE = decoder_of(["<unk>", "<s>", "</s>"])

# name: (model_type, template's name, has "json" with a scheme, tokenizer_config.json, special_tokens_map.json)
NO_JSON = object()
CASES = {
    "llama2": ("llama", "llama2", None, config(bos_token={"__type": "AddedToken", **special("<s>")},
                                               legacy=False, chat_template=LLAMA2), MAP),
    "llama2_no_json": ("llama", "llama2", NO_JSON, config(legacy=False, chat_template=LLAMA2), MAP),
    "llama2_legacy": ("llama", "llama2", NO_JSON, config(legacy=True, chat_template=LLAMA2), MAP),
    "llama_both_ends": ("llama", "llama2", NO_JSON, config(legacy=False, add_eos_token=True,
                                                           chat_template=LLAMA2), MAP),
    "llama_no_begin": ("llama", "llama2", NO_JSON, config(legacy=False, add_bos_token=False,
                                                          chat_template=LLAMA2), MAP),
    "llama_json_counts": ("llama", "llama2", None, config(legacy=False, add_bos_token=False,
                                                          chat_template=LLAMA2), MAP),
    "tinyllama": ("llama", "zephyr", None, config(legacy=False, added_tokens_decoder=THREE, chat_template=ZEPHYR,
                                                  pad_token="</s>", use_default_system_prompt=False), MAP),
    "tinyllama_no_json": ("llama", "zephyr", NO_JSON, config(legacy=False, added_tokens_decoder=THREE,
                                                             chat_template=ZEPHYR, pad_token="</s>"), MAP),
    "mistral_v01": ("mistral", "mistral", None, config(legacy=True, added_tokens_decoder=THREE,
                                                       additional_special_tokens=[], chat_template=MISTRAL,
                                                       spaces_between_special_tokens=False), MAP),
    "mistral_v02": ("mistral", "mistral", "first", config(legacy=False, added_tokens_decoder=THREE,
                                                          add_prefix_space=True,
                                                          additional_special_tokens=[], chat_template=MISTRAL), MAP),
    "mistral_v03": ("mistral", "mistral", "first", config(legacy=False, add_prefix_space=True,
                                                          added_tokens_decoder=decoder_of(
                                                              ["<unk>", "<s>", "</s>"] + V3),
                                                          chat_template=MISTRAL3), MAP),
}


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, indent=1)
        file.write("\n")


def main():
    transformers.logging.set_verbosity_error()
    shutil.rmtree(LAYOUTS, ignore_errors=True)
    for name, (model_type, template, scheme, settings, special_map) in CASES.items():
        folder = os.path.join(LAYOUTS, name)
        os.makedirs(folder)
        proto = with_control_pieces(V3) if name == "mistral_v03" else proto_of(MODEL)
        if name == "mistral_v03":
            with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
                file.write(proto.SerializeToString())
        write(folder, "config.json", {"model_type": model_type})
        write(folder, "tokenizer_config.json", settings)
        write(folder, "special_tokens_map.json", special_map)
        if scheme is not NO_JSON:
            tokenizer_json(proto, os.path.join(folder, "tokenizer.json"), scheme)
        with tempfile.TemporaryDirectory() as whole:
            shutil.copytree(folder, whole, dirs_exist_ok=True)
            if name != "mistral_v03":
                shutil.copy(MODEL, whole)
            tokenizer = transformers.AutoTokenizer.from_pretrained(whole)
            rows = [{"text": text, "parse_special": False, "ids": tokenizer(text).input_ids} for text in TEXTS]
            rows += [{"text": text, "parse_special": True, "ids": tokenizer(text).input_ids} for text in PARSED]
            for message in MESSAGES[:3]:
                ids = tokenizer.apply_chat_template([{"role": "user", "content": message}],
                                                    add_generation_prompt=True, return_dict=False)
                rows.append({"message": message, "template": template, "ids": list(ids)})
        with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        print(name, type(tokenizer).__name__, rows[0]["ids"], rows[-3]["ids"], len(settings["chat_template"]))


if __name__ == "__main__":
    main()
