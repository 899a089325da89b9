"""Compares ng-tokenize with the programs that tokenizers are made for, on strings made from a seed.

    OMP_NUM_THREADS=1 python3 compare_references.py --ng ../../../build/bin/ng-tokenize --folder /tmp/tokenizers

For each published layout a tokenizer is trained, on the repository's own files and on strings of the kinds below.
The ids, and the texts that they decode to, must be those of

  tokenizers      for a tokenizer.json,
  sentencepiece   for a tokenizer.model,
  llama.cpp       for a GGUF file, for each name of a split pattern (`tokenizer.ggml.pre`) that ng knows.

llama.cpp writes some patterns in another way than the tokenizer that they come from. So a string whose ids differ
from llama.cpp's is also given to that tokenizer; it counts as a difference only if ng is not equal to that one
either. The number of those that only llama.cpp cuts otherwise stands beside.

A row of the table is a tokenizer: how many strings differ in ids, in decoded text, and how many lists of random ids
decode otherwise. --runs adds 1 MB of one character or of a hostile text, with the longest time; --speed adds the time
for 1 MB of English, code and Chinese. --only NAME, --strings N and --seed N do what they say; a tokenizer that is
already in the folder is not trained again.

Needs tokenizers, sentencepiece, gguf, numpy and llama-cpp-python (LLAMA_CPP_LIB_PATH says where libllama is).
"""
import argparse
import ctypes
import glob
import json
import os
import random
import resource
import subprocess
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import gguf  # noqa: E402
import sentencepiece  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,  # noqa: E402
                        processors, trainers)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
N, P, D = normalizers, pre_tokenizers, decoders


# Strings.

CLASSES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
           "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"]
SPACES = ["\t", "\n", "\x0b", "\x0c", "\r", "\x1c", "\x85", " ", "\xa0", "\u1680", "\u2000", "\u2003", "\u2009", "\u200b", "\u2028", "\u2029",
          "\u202f", "\u205f", "\u3000", "\ufeff", "\u2581"]
EMOJI = ["\U0001f600", "\u2764\ufe0f", "\u2764", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea", "\U0001f1fa\U0001f1f8\U0001f1eb",
         "1\ufe0f\u20e3", "#\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "\U0001f9d1\U0001f3ff\u200d\U0001f4bb", "\U0001f3f3\ufe0f\u200d\U0001f308", "\u200d", "\ufe0f",
         "\U0001fae8", "\u263a", "\u2122\ufe0f", "\U0001f3fb"]
ENDINGS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'\u017f", "\u2019s", "''", "'x"]
NUMBERS = ["0", "12", "123", "1234", "1,234,567.89", "3.14e-10", "0xFF", "\u0663\u0664\u0665\u0666", "\u0967\u0968\u0969\u096a", "\u00bd", "\u00b2\u00b3", "\u2167", "\u4e09", "\U0001d7d8\U0001d7d9",
           "2026-11-23", "18:05:47", "1\u00a0000", "+49 (30) 123", "1/2", "12th"]
LITERALS = ["<s>", "</s>", "<unk>", "<|end|>", "<|im_start|>", "<|end", "|end|>", "<s", "<0x41>", "<0xFF>", "[INST]", "<|pad|>", "##", "</w>"]
# Characters of Unicode 15 and 16, which older libraries do not know.
NEWER = ["\U0001fa75", "\U0001fae8", "\U0001fac6", "\U0001f6dc", "\u31ef", "\u2ffc", "\ua7cb", "\ua7da", "\U00031350", "\U0002ebf0", "\U00011f04", "\U0001e4d0", "\U00010d40",
         "\U00010d4a", "\U0001e5f1", "\u0897", "\U00011f00", "\U00011f43", "\U0001ccf0", "\U00010d6e", "\U00010d8e", "\u1b7f", "\U00010d50", "\U00010d70", "\U00011380"]
COMMON_HAN = "".join(chr(0x4e00 + 7 * i % 3500) for i in range(600))
SCRIPTS = [0xc0, 0x100, 0x370, 0x400, 0x530, 0x590, 0x600, 0x700, 0x900, 0x980, 0xb80, 0xe00, 0xf00, 0x1000, 0x10a0, 0x1100, 0x1200, 0x13a0, 0x1780,
           0x1e00, 0x1f00, 0x2070, 0x2100, 0x2150, 0x2c00, 0x2e80, 0x3000, 0x3040, 0x3100, 0x31c0, 0x3400, 0x4e00, 0xa000, 0xa640, 0xa720, 0xac00, 0xf900,
           0xfb00, 0xfe30, 0xff00, 0x10300, 0x10400, 0x10900, 0x11000, 0x12000, 0x16a40, 0x1d100, 0x1d400, 0x1e900, 0x1f300, 0x1fa70, 0x20000, 0xe0000]


class Strings:
    """Strings of many kinds, the same for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.of_class = {name: [] for name in CLASSES}
        for code in range(0x110000):
            name = unicodedata.category(chr(code))
            if name in self.of_class:
                self.of_class[name].append(code)
        self.lines = [line for path in files("*.md") for line in open(path, encoding="utf-8")]
        self.code = "".join(open(path, encoding="utf-8").read() for path in files("*.cc", "*.h", "*.py"))
        self.words = sorted({word for line in self.lines for word in line.split()})
        self.kinds = [self.one_class, self.any_code_point, self.one_script, self.emoji, self.source, self.english, self.numbers,
                      self.spaces, self.latin1, self.bytes, self.marks, self.literals, self.han, self.cases, self.newer, self.mixture]

    def make(self, count):
        return [""] + [self.kinds[i % len(self.kinds)]() for i in range(1, count)]

    def every_code_point(self):
        codes = [code for code in range(0x110000) if not 0xd800 <= code < 0xe000]
        return ["a" + "".join(chr(code) + "a" for code in codes[i:i + 64]) for i in range(0, len(codes), 64)]

    def some(self, choices, most):
        return "".join(self.random.choice(choices) for _ in range(self.random.randint(1, most)))

    def one_class(self):
        codes = self.of_class[self.random.choice(CLASSES)]
        text = "".join(chr(self.random.choice(codes)) for _ in range(self.random.randint(1, 12)))
        return self.random.choice(["", " ", "a", "1", "\n", "."]) + text + self.random.choice(["", " ", "a", "1", "\n", "x y"])

    def any_code_point(self):
        codes = [self.random.randrange(0x110000) for _ in range(self.random.randint(1, 16))]
        return "".join(chr(code) for code in codes if not 0xd800 <= code < 0xe000)

    def one_script(self):
        first = self.random.choice(SCRIPTS)
        return "".join(self.random.choice([chr(first + self.random.randrange(96))] * 5 + [" ", "-"]) for _ in range(self.random.randint(1, 40)))

    def emoji(self):
        return self.some(EMOJI + [" ", "a", ", "], 12)

    def source(self):
        at = self.random.randrange(len(self.code) - 300)
        text = self.code[at:at + self.random.randint(1, 300)]
        return text.replace("\n", "\r\n") if self.random.random() < 0.1 else text.replace("  ", "\t") if self.random.random() < 0.1 else text

    def english(self):
        words = [self.random.choice(self.words) + (self.random.choice(ENDINGS) if self.random.random() < 0.1 else "")
                 for _ in range(self.random.randint(1, 30))]
        return self.random.choice(["", " ", "  "]) + " ".join(words) + self.random.choice(["", " ", "\n", "?!\n\n"])

    def numbers(self):
        return self.some(NUMBERS + [" ", ", ", "a", "7" * self.random.randint(1, 30)], 10)

    def spaces(self):
        return self.some(SPACES + [" ", "  ", "\n", "\r\n", "a", ".", "/", "    " * self.random.randint(1, 9)], 16)

    def latin1(self):
        return "".join(chr(self.random.randrange(256)) for _ in range(self.random.randint(1, 30)))

    def bytes(self):
        return self.random.randbytes(self.random.randint(1, 40)).decode("utf-8", "replace")

    def marks(self):
        marks = self.of_class["Mn"][:900]
        text = "".join(self.random.choice("aeoAE\u05d0\u0915\u0e01\u1100\uac00\u00e9\u1e69") + "".join(chr(self.random.choice(marks)) for _ in range(self.random.randint(0, 5)))
                       for _ in range(self.random.randint(1, 8)))
        return text + self.some(["\u1100\u1161\u11a8", "\ufb01", "\u2126", "\u212b", "\u0344", "\u0f73", "\u1e9b\u0323", " ", "\u3099\u304b", "\u304b\u3099"], 4)

    def literals(self):
        return self.some(LITERALS + [" ", "a", "\n", "Hello"], 9)

    def han(self):
        return self.some([self.random.choice(COMMON_HAN) + self.random.choice(COMMON_HAN) for _ in range(40)] + ["\u3002", "\uff0c", "\u3001", " ", "\u30ab\u30bf", "\u3072\u3089", "\ud55c\uad6d", "a"], 40)

    def cases(self):
        return self.some(["HTTP", "Server", "iPhone", "\u0130", "\u0131", "\u00df", "\u1e9e", "\u01c5", "\u01c4", "McDonald", "_x", "camelCase", "ABC", "abc", "\u0391\u03a3", "\u03c2", " ", "-", "'s"], 10)

    def newer(self):
        return self.some(NEWER + [" ", "a", "1", "\u4e00", ".", "\n", "\u0301"], 12)

    def mixture(self):
        parts = [self.kinds[self.random.randrange(15)]() for _ in range(self.random.randint(2, 4))]
        return "".join(part[:60] for part in parts)


def files(*patterns):
    found = [path for pattern in patterns for path in glob.glob(os.path.join(ROOT, "**", pattern), recursive=True)]
    return sorted(path for path in found if "/build" not in path)


def corpus():
    strings = Strings(7)
    return strings.lines * 2 + strings.code[:1_500_000].split("\n") + strings.make(6000) + [strings.han() for _ in range(3000)]


# Layouts of tokenizer.json: name -> what it is made of.

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
UPPER, LOWER, ENDING = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = O200K.replace(ENDING, "").replace("{1,3}", "")
ASCII_MARKS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
DEEPSEEK3 = (ASCII_MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
CASED = r"\s?[\p{Lu}\p{Ll}\p{Lt}]+"
GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
THREE_FROM_RIGHT = r"\d{1,3}(?=(?:\d{3})*\b)"
BYTES = P.ByteLevel(False, use_regex=False)


def isolated(*patterns):
    return [P.Split(Regex(pattern), "isolated") for pattern in patterns]


def bytes_of(*steps, **rest):
    return {"pre_tokenizer": P.Sequence([*steps, BYTES]), "decoder": D.ByteLevel(), **rest}


DIGITS_GPT2 = P.Sequence([P.Digits(True), P.ByteLevel(False)])
BYTE_LEVEL = {
    "gpt2": {"pre_tokenizer": P.ByteLevel(False), "decoder": D.ByteLevel()},
    "gpt2_prefix": {"pre_tokenizer": P.ByteLevel(True), "decoder": D.ByteLevel()},
    "neox_nfc": {"normalizer": N.NFC(), "pre_tokenizer": P.ByteLevel(False), "decoder": D.ByteLevel()},
    "stripped": {"normalizer": N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase(), N.Nmt()]), "pre_tokenizer": P.ByteLevel(False), "decoder": D.ByteLevel()},
    "llama3": bytes_of(*isolated(LLAMA3), ignore_merges=True, begin=True),
    "smollm3": bytes_of(*isolated(LLAMA3), ignore_merges=True),
    "lfm2": bytes_of(*isolated(LLAMA3), ignore_merges=True, begin=True),
    "qwen2": bytes_of(*isolated(QWEN2), normalizer=N.NFC()),
    "qwen35": bytes_of(*isolated(QWEN35), normalizer=N.NFC()),
    "cl100k_granite4": bytes_of(*isolated(LLAMA3)),
    "cl100k_removed_phi4": bytes_of(P.Split(Regex(CL100K), "removed", True)),
    "o200k_gpt_oss": bytes_of(*isolated(O200K), ignore_merges=True),
    "o200k_removed_phi4_mini": bytes_of(P.Split(Regex(O200K), "removed", True)),
    "tekken_nemo": bytes_of(*isolated(TEKKEN), ignore_merges=True, begin=True),
    "deepseek_v3": bytes_of(*isolated(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3), begin=True),
    "deepseek_coder": bytes_of(*isolated("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), P.Digits(True)),
    "deepseek_llm": bytes_of(*isolated("[\r\n]", CASED, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
                                       "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), P.Digits(True)),
    "falcon": {"pre_tokenizer": P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(False), P.Digits(False), *isolated("[0-9][0-9][0-9]")]),
               "decoder": D.ByteLevel()},
    "granite3_starcoder": {"pre_tokenizer": DIGITS_GPT2, "decoder": D.ByteLevel()},
    "command_r": {"normalizer": N.NFC(), "pre_tokenizer": DIGITS_GPT2, "decoder": D.ByteLevel()},
    "bloom": bytes_of(*isolated(BLOOM)),
    "cohere_tiny_aya": bytes_of(*isolated(THREE_FROM_RIGHT, O200K), normalizer=N.NFC()),
    "trinity": bytes_of(*isolated(THREE_FROM_RIGHT, "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3)),
}
TO_SPACE = N.Replace(" ", "\u2581")
FALLBACK_DECODER = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
GEMMA_DECODER = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()])
FALLBACK = {
    "llama2_prepend": {"normalizer": N.Sequence([N.Prepend("\u2581"), TO_SPACE]), "decoder": FALLBACK_DECODER},
    "mistral_first": {"pre_tokenizer": P.Metaspace("\u2581", "first", False), "decoder": FALLBACK_DECODER},
    "mistral_always": {"pre_tokenizer": P.Metaspace("\u2581", "always", False), "decoder": FALLBACK_DECODER},
    "gemma": {"normalizer": TO_SPACE, "pre_tokenizer": P.Split(" ", "merged_with_previous"), "decoder": GEMMA_DECODER},
    "gemma1_no_split": {"normalizer": TO_SPACE, "decoder": GEMMA_DECODER},
}
UNIGRAM = {
    "unigram_metaspace": {"pre_tokenizer": P.Metaspace(), "decoder": D.Metaspace()},
    "unigram_nfkc": {"normalizer": N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), "pre_tokenizer": P.Metaspace(), "decoder": D.Metaspace()},
    "unigram_t5": {"pre_tokenizer": P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), "decoder": D.Metaspace()},
    "unigram_fallback": {"pre_tokenizer": P.Metaspace("\u2581", "first", False), "decoder": FALLBACK_DECODER, "byte_fallback": True},
    "unigram_precompiled": {"precompiled": True, "pre_tokenizer": P.Metaspace(), "decoder": D.Metaspace()},
}
WORD_ENDS = {"openai_gpt": {"normalizer": N.BertNormalizer(True, True, None, True), "pre_tokenizer": P.BertPreTokenizer(), "decoder": D.BPEDecoder("</w>")}}

SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>", "<|im_start|>", "<|pad|>"]
# Tokens that are found in a text although they are not special; with and without the spaces around.
ADDED = [AddedToken("<tool>", normalized=False), AddedToken("Hello", normalized=True, single_word=True),
         AddedToken("[INST]", normalized=False, rstrip=True), AddedToken("<x>", normalized=True, lstrip=True), AddedToken("\n\n\n", normalized=False)]


def parts(tokenizer, made_of):
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        if name in made_of:
            setattr(tokenizer, name, made_of[name])
    return tokenizer


def finished(tokenizer, made_of):
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True, rstrip=text == "<|im_start|>") for text in SPECIAL])
    tokenizer.add_tokens(ADDED)
    if made_of.get("begin"):
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])])
    return tokenizer


def changed(tokenizer, **settings):
    """With settings of the model that a trainer does not take."""
    file = json.loads(tokenizer.to_str())
    file["model"].update(settings)
    return Tokenizer.from_str(json.dumps(file))


def train_bytes(made_of):
    tokenizer = parts(Tokenizer(models.BPE()), made_of)
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=4000, show_progress=False, special_tokens=SPECIAL[:3],
                                                                initial_alphabet=P.ByteLevel.alphabet()))
    return finished(changed(tokenizer, ignore_merges=made_of.get("ignore_merges", False)), made_of)


def train_fallback(made_of):
    named = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = parts(Tokenizer(models.BPE(unk_token="<unk>")), made_of)
    tokenizer.train_from_iterator((line[:200] for line in corpus()), trainers.BpeTrainer(
        vocab_size=3000, show_progress=False, special_tokens=SPECIAL[:3] + named, limit_alphabet=900, max_token_length=16))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    file["model"].update(byte_fallback=True, fuse_unk=True)
    return finished(Tokenizer.from_str(json.dumps(file)), dict(made_of, begin=True))


def train_unigram(made_of):
    made_of = dict(made_of)
    if made_of.pop("precompiled", False):
        made_of["normalizer"] = N.Precompiled(charsmap())
    tokenizer = parts(Tokenizer(models.Unigram()), made_of)
    named = [f"<0x{byte:02X}>" for byte in range(256)] if made_of.get("byte_fallback") else []
    tokenizer.train_from_iterator(corpus()[::4], trainers.UnigramTrainer(vocab_size=2500, show_progress=False, unk_token="<unk>",
                                                                         special_tokens=["<unk>", "<s>", "</s>"] + named, max_piece_length=12))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    file["model"]["byte_fallback"] = bool(named)
    return finished(Tokenizer.from_str(json.dumps(file)), made_of)


def train_word_ends(made_of):
    tokenizer = parts(Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")), made_of)
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=["<unk>"],
                                                                end_of_word_suffix="</w>", limit_alphabet=600))
    return finished(tokenizer, made_of)


def charsmap():
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    with open(train_sentencepiece("charsmap", {"model_type": "unigram", "vocab_size": 1500}), "rb") as file:
        proto.ParseFromString(file.read())
    return proto.normalizer_spec.precompiled_charsmap


# Layouts of tokenizer.model.

LLAMA = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True,
         "allow_whitespace_only_pieces": True}
SENTENCEPIECE = {
    "spm_llama": LLAMA,
    "spm_gemma": dict(LLAMA, add_dummy_prefix=False, user_defined_symbols=["<start_of_turn>", "\n\n", "\u2581\u2581", "<b>"]),
    "spm_bpe_nfkc": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "spm_bpe_casefold": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc_cf", "byte_fallback": True},
    "spm_unigram": {"model_type": "unigram"},
    "spm_unigram_bytes": dict(LLAMA, model_type="unigram", split_digits=False),
    "spm_unigram_suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True},
    "spm_unigram_symbols": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "  ", "[INST]"], "byte_fallback": True, "normalization_rule_name": "nfkc"},
}


def train_sentencepiece(name, settings):
    path = os.path.join(FOLDER, name)
    os.makedirs(path, exist_ok=True)
    model = os.path.join(path, "tokenizer.model")
    if not os.path.exists(model):
        lines = [line[:400].replace("\n", " ").replace("\0", "") for line in corpus()[::2]]
        sentencepiece.SentencePieceTrainer.train(**{
            "sentence_iterator": iter(lines), "model_prefix": os.path.join(path, "tokenizer"), "vocab_size": 3000, "hard_vocab_limit": False,
            "character_coverage": 0.98, "minloglevel": 2, "num_threads": 1, **settings})
    return model


# What is compared.

class Ng:
    def __init__(self, path):
        self.path = path

    def lines(self, rows, *options):
        given = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run([NG, "--tokenizer", self.path, *options], input=given, capture_output=True, text=True, check=False)
        found = [json.loads(line) for line in done.stdout.split("\n") if line]
        if len(found) != len(rows):
            raise RuntimeError(f"{self.path}: {len(found)} of {len(rows)} lines: {done.stderr.strip()[:400]}")
        return found

    def encode(self, texts, special):
        rows = self.lines([{"text": text, "parse_special": special, "add_special": not self.path.endswith(".model")} for text in texts], "--jsonl")
        return [row["ids"] for row in rows], [row["decoded"] for row in rows]

    def decode(self, lists):
        return [row["text"] for row in self.lines([{"ids": ids} for ids in lists], "--decode")]

    def time(self, text, repeats=1):
        """Seconds of the processor for a text, the fewest of some runs, and an error."""
        best = 1e9
        for _ in range(repeats):
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([NG, "--tokenizer", self.path], input=text.encode(), capture_output=True, check=False)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
        return best, done.stderr.decode().strip()[:300]


class TokenizersReference:
    def __init__(self, path):
        self.tokenizer = Tokenizer.from_file(path)
        self.size = self.tokenizer.get_vocab_size()

    def encode(self, texts, special):
        self.tokenizer.encode_special_tokens = not special
        return [found.ids for found in self.tokenizer.encode_batch(texts)]

    def decode(self, lists):
        return [self.tokenizer.decode(ids, skip_special_tokens=False) for ids in lists]


class SentencePieceReference:
    def __init__(self, path):
        self.processor = sentencepiece.SentencePieceProcessor(model_file=path)
        self.size = self.processor.vocab_size()

    def encode(self, texts, special):
        return self.processor.encode(texts)

    def decode(self, lists):
        return [self.processor.decode(ids) for ids in lists]


class LlamaCppReference:
    def __init__(self, path, scored=False, prefix=False):
        self.scored, self.prefix = scored, prefix
        try:
            import llama_cpp
        except ImportError as error:
            raise RuntimeError(f"not compared: {error}") from None
        self.library = llama_cpp
        silent = llama_cpp.llama_log_callback(lambda *_: None)
        self.keep = silent
        llama_cpp.llama_log_set(silent, None)
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocabulary)

    def encode(self, texts, special):
        found = []
        for text in texts:
            data = text.encode()
            ids = (ctypes.c_int32 * (len(data) + 16))()
            count = self.library.llama_tokenize(self.vocabulary, data, len(data), ids, len(ids), True, special)
            found.append(list(ids[:count]))
        return found

    def decode(self, lists):
        pieces = {}
        room = ctypes.create_string_buffer(1024)
        for i in {i for ids in lists for i in ids}:
            count = self.library.llama_token_to_piece(self.vocabulary, i, room, 1024, 0, not self.scored)
            pieces[i] = room.raw[:count]
        texts = [b"".join(pieces[i] for i in ids).decode("utf-8", "replace") for ids in lists]
        return [text[1:] if self.scored and self.prefix and text.startswith(" ") else text for text in texts]

    def close(self):
        self.library.llama_model_free(self.model)


class Compared:
    """How many of the strings differ."""

    def __init__(self, name, ng, reference, original=None):
        self.name, self.ng, self.reference, self.original = name, ng, reference, original
        self.ids = self.texts = self.lists = self.only_llama = 0
        self.shown = 0

    def show(self, kind, text, found, wanted):
        self.shown += 1
        if self.shown <= SHOW:
            print(f"  {self.name}: {kind} of {json.dumps(text)}\n    ng        {json.dumps(found)}\n    reference {json.dumps(wanted)}")

    def has_unknown(self, ids):
        """Whether the ids have SentencePiece's unknown token, which llama.cpp has no text for."""
        return isinstance(self.reference, LlamaCppReference) and self.reference.scored and 0 in ids

    def run(self, texts, lists):
        # Unigram of the tokenizers library finds special tokens even where it is told not to. ng never does.
        for special in (True,) if self.name.startswith("unigram") else (True, False):
            some = texts if special else [text for text in texts if "<" in text or "[" in text]
            found, decoded = self.ng.encode(some, special)
            wanted = self.reference.encode(some, special)
            differ = [i for i in range(len(some)) if found[i] != wanted[i]]
            if self.original and differ:
                theirs = self.original.encode([some[i] for i in differ], special)
                as_original = {i for i, ids in zip(differ, theirs) if ids == found[i]}
                self.only_llama += len(as_original)
                differ = [i for i in differ if i not in as_original]
            self.ids += len(differ)
            for i in differ:
                self.show("ids", some[i], found[i], wanted[i])
            theirs = self.reference.decode(found)
            for i in range(len(some)):
                if decoded[i] != theirs[i] and not self.has_unknown(found[i]):
                    self.texts += 1
                    self.show("decoded text", found[i], decoded[i], theirs[i])
        theirs = self.reference.decode(lists)
        for ids, found, wanted in zip(lists, self.ng.decode(lists), theirs):
            if found != wanted:
                self.lists += 1
                self.show("decoded text", ids, found, wanted)
        only = f", {self.only_llama} cut otherwise by llama.cpp alone" if self.original else ""
        print(f"{self.name}: of {len(texts)} strings {self.ids} differ in ids, {self.texts} in text; of {len(lists)} lists {self.lists}{only}", flush=True)


def random_lists(size, count, most=12):
    chance = random.Random(size)
    return [[chance.randrange(size) for _ in range(chance.randint(1, most))] for _ in range(count)]


# 1 MB of one character, and of texts that patterns go through again and again.

MEGABYTE = 1 << 20
RUNS = ["a", "A", " ", "\n", "\r\n", "\t", "1", "!", "'", "/", "_", "\u00e9", "\u0301", "\u4f60", "\ud55c", "\U0001f600", "\u200d", "\u00a0", "\u2581", "\u0663", "\u00b2", "\u0000",
        "a ", " a", " \n", "\n ", "1a", "a1", "'s", "A'", "Ab", "aB", "e\u0301", ".\n", "!a", "12 ", "\u4f60a", "<", "<s", "<s>", "\u0130"]


def hostile(part):
    repeated = part * (MEGABYTE // len(part.encode()))
    return [repeated, repeated + "x", "x" + repeated + "\n", repeated + "\u4f60"]


def runs(name, ng, reference):
    longest, slowest = 0, ""
    for part in RUNS:
        for text in hostile(part)[: 4 if part in " 1\na" else 1]:
            seconds, error = ng.time(text)
            if error or seconds > 2:
                print(f"  {name}: 1 MB of {json.dumps(part)}: {seconds:.2f} s {error}", flush=True)
            if seconds > longest:
                longest, slowest = seconds, part
            short = text[:4000] + text[-20:]
            if reference and not error and ng.encode([short], True)[0] != reference.encode([short], True):
                print(f"  {name}: 4,000 of {json.dumps(part)} differ")
    print(f"{name}: 1 MB of one part: at most {longest:.2f} s, for {json.dumps(slowest)}", flush=True)


def speed_texts():
    strings = Strings(5)
    english = "".join(strings.lines)
    han = "".join(strings.han() for _ in range(12000))
    fill = lambda text: (text * (MEGABYTE // len(text.encode()) + 1)).encode()[:MEGABYTE].decode("utf-8", "ignore")
    return {"English": fill(english), "code": fill(strings.code), "Chinese": fill(han)}


def speed(name, ng, reference):
    figures = []
    for language, text in speed_texts().items():
        theirs = 1e9
        for _ in range(3):
            begin = time.process_time()
            reference.encode([text], True)
            theirs = min(theirs, time.process_time() - begin)
        ours = ng.time(text, 5)[0] - ng.time("", 5)[0]
        figures.append(f"{language} {ours:.3f} s, {theirs / ours:.1f} times as fast")
    print(f"{name}: 1 MB of {'; '.join(figures)}", flush=True)


# GGUF files: the vocabulary alone.

def write_gguf(path, model, pre, tokens, **arrays):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    for name, values in arrays.items():
        {"scores": writer.add_token_scores, "types": writer.add_token_types, "merges": writer.add_token_merges, "bos": writer.add_bos_token_id,
         "eos": writer.add_eos_token_id, "unk": writer.add_unk_token_id, "prefix": writer.add_add_space_prefix, "adds": writer.add_add_bos_token}[name](values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# For each layout above: the names that GGUF files give its split pattern.
NAMES = {
    "gpt2": ["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"],
    "llama3": ["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
    "cl100k_granite4": ["dbrx", "smaug-bpe", "chatglm-bpe"],
    "glm4": ["glm4", "glm5"],
    "tekken_nemo": ["tekken"],
    "qwen2_plain": ["qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
    "qwen35_plain": ["qwen35"],
    "o200k": ["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
    "granite3_starcoder": ["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
    "deepseek_v3": ["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
    "deepseek_coder": ["deepseek-coder"],
    "deepseek_llm": ["deepseek-llm"],
    "falcon": ["falcon"],
    "bloom": ["bloom", "poro-chat", "gpt3-finnish"],
    "cohere_tiny_aya_plain": ["tiny_aya", "cohere2moe"],
    "afmoe": ["afmoe"],
    "kimi_k2": ["kimi-k2"],
    "default": ["default"],
    "spark": ["spark2_5"],
    "youtu": ["youtu"],
    "bailing": ["bailingmoe", "bailingmoe2", "llada-moe"],
    "seed_coder": ["seed-coder"],
    "exaone_moe": ["exaone-moe"],
    "jais2": ["jais-2"],
    "minicpm5": ["minicpm5"],
    "ufakzeka": ["ufakzeka"],
    "laguna": ["laguna"],
    "viking": ["viking"],
    "superbpe": ["superbpe"],
    "chameleon": ["chameleon"],
}

# Where llama.cpp may cut otherwise than the tokenizer that a name comes from: that tokenizer.
HAN_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
YOUTU_FIRST = ("[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + HAN_KANA)
KIMI_K2 = (r"[\p{Han}]+|" + O200K).replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*")
AFMOE_SCRIPTS = ("[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f"
                 "\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")
JAIS2 = LLAMA3.replace(r"\s+(?!\S)|\s+", "|".join(rf"\s{{{n}}}(?!\S)" for n in [512, 256, 128, 64, 32, 16, 8, 4, "1,2"]) + r"|\s{1}")
ORIGINALS = {
    **{name: BYTE_LEVEL[name] for name in ["gpt2", "llama3", "cl100k_granite4", "tekken_nemo", "granite3_starcoder", "deepseek_v3", "deepseek_coder",
                                          "deepseek_llm", "falcon", "bloom"]},
    "glm4": bytes_of(*isolated(LLAMA3), ignore_merges=True),
    "qwen2_plain": bytes_of(*isolated(QWEN2)),
    "qwen35_plain": bytes_of(*isolated(QWEN35)),
    "o200k": bytes_of(*isolated(O200K)),
    "cohere_tiny_aya_plain": bytes_of(*isolated(THREE_FROM_RIGHT, O200K)),
    "youtu": bytes_of(*isolated(YOUTU_FIRST, O200K.replace("{1,3}", "")), ignore_merges=True),
    "bailing": bytes_of(*isolated(CL100K.replace("{1,3}", ""))),
    "exaone_moe": bytes_of(*isolated(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+")),
    "jais2": bytes_of(*isolated(JAIS2)),
    "seed_coder": bytes_of(*isolated(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")),
    "minicpm5": bytes_of(*isolated(r"\p{N}{1,3}", QWEN2.replace(r"\p{N}|", r"\p{N}+|")), ignore_merges=True),
    "laguna": bytes_of(*isolated(r"[^\n]+|[\n]+", QWEN2)),
    "spark": bytes_of(*isolated(r"\p{N}{1,3}", HAN_KANA, DEEPSEEK3.replace(r"[\r\n]*|\s*[\r\n]+", r"|[\r\n]"), r"\p{N}")),
    "viking": bytes_of(*isolated(BLOOM, r"\p{N}")),
    "superbpe": bytes_of(*isolated(r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    "afmoe": bytes_of(*isolated(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE_SCRIPTS, DEEPSEEK3)),
    "kimi_k2": bytes_of(*isolated(KIMI_K2)),
}
CONTROL, USER_DEFINED, UNKNOWN, NORMAL = 3, 4, 2, 1


def loose():
    """A vocabulary with tokens across every border that a pattern may cut at; a few tokens no merge makes."""
    path = os.path.join(FOLDER, "loose", "tokenizer.json")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = P.Sequence([*isolated(r".{1,30}|[\r\n]+"), BYTES])
        tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=6000, show_progress=False, max_token_length=12,
                                                                    special_tokens=SPECIAL + ["<tool>", "\n\n\n"], initial_alphabet=P.ByteLevel.alphabet()))
        tokenizer.save(path)
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    named = SPECIAL + ["<tool>"]
    merges = [merge for i, merge in enumerate(made["model"]["merges"]) if i % 20 != 7 and "".join(merge) not in named]
    return made["model"]["vocab"], merges


def gguf_of_bytes(pre, vocabulary, merges):
    path = os.path.join(FOLDER, f"gguf_{pre}.gguf")
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [CONTROL if token in SPECIAL else USER_DEFINED if token in ("<tool>", "\n\n\n") else NORMAL for token in tokens]
    write_gguf(path, "gpt2", pre, tokens, types=types, merges=[" ".join(merge) for merge in merges], bos=1, eos=2)
    return path


def original_of(made_of, vocabulary, merges, begins):
    tokenizer = parts(Tokenizer(models.BPE(dict(vocabulary), [tuple(merge) for merge in merges], ignore_merges=made_of.get("ignore_merges", False))), made_of)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("\n\n\n", normalized=False)])
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    path = os.path.join(FOLDER, "loose", "original.json")
    tokenizer.save(path)
    return TokenizersReference(path)


def compare_gguf(name, pre, texts):
    vocabulary, merges = loose()
    path = gguf_of_bytes(pre, vocabulary, merges)
    reference = LlamaCppReference(path)
    begins = reference.encode(["a"], False)[0][:1] == [1]
    original = original_of(ORIGINALS[name], vocabulary, merges, begins) if name in ORIGINALS else None
    Compared(f"gguf {pre}", Ng(path), reference, original).run(texts, random_lists(reference.size, 500))
    reference.close()
    return path


def compare_gguf_scored(texts):
    processor = sentencepiece.SentencePieceProcessor(model_file=train_sentencepiece("spm_llama", SENTENCEPIECE["spm_llama"]))
    count = processor.vocab_size()
    types = [UNKNOWN if processor.is_unknown(i) else CONTROL if processor.is_control(i) else 6 if processor.is_byte(i) else NORMAL for i in range(count)]
    for prefix in (True, False):
        path = os.path.join(FOLDER, f"gguf_llama_{prefix}.gguf")
        write_gguf(path, "llama", "", [processor.id_to_piece(i) for i in range(count)], scores=[processor.get_score(i) for i in range(count)],
                   types=types, bos=1, eos=2, unk=0, prefix=prefix)
        reference = LlamaCppReference(path, True, prefix)
        Compared(f"gguf llama, space prefix {prefix}", Ng(path), reference).run(texts, [])
        reference.close()


def layouts():
    for made, train in [(BYTE_LEVEL, train_bytes), (FALLBACK, train_fallback), (UNIGRAM, train_unigram), (WORD_ENDS, train_word_ends)]:
        for name, made_of in made.items():
            yield name, made_of, train


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ng", required=True)
    options.add_argument("--folder", required=True)
    options.add_argument("--strings", type=int, default=20000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="")
    options.add_argument("--code-points", action="store_true", help="in place of the strings: every code point between letters")
    options.add_argument("--show", type=int, default=3)
    options.add_argument("--runs", action="store_true")
    options.add_argument("--speed", action="store_true")
    given = options.parse_args()
    global NG, FOLDER, SHOW
    NG, FOLDER, SHOW = given.ng, given.folder, given.show
    strings = Strings(given.seed)
    texts = strings.every_code_point() if given.code_points else strings.make(given.strings) if given.strings else []

    def compare(name, path, reference):
        if texts:
            Compared(name, Ng(path), reference).run(texts, random_lists(reference.size, 2000))
        if given.runs:
            runs(name, Ng(path), reference)
        if given.speed:
            speed(name, Ng(path), reference)

    wanted = lambda name: given.only in name
    for name, made_of, train in layouts():
        if not wanted(name):
            continue
        path = os.path.join(FOLDER, name, "tokenizer.json")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            train(made_of).save(path)
        compare(name, path, TokenizersReference(path))
    for name, settings in SENTENCEPIECE.items():
        if wanted(name):
            path = train_sentencepiece(name, settings)
            compare(name, path, SentencePieceReference(path))
    if wanted("gguf_llama") and texts:
        compare_gguf_scored(texts)
    for name, spellings in NAMES.items():
        for pre in spellings:
            if not wanted(f"gguf_{pre}"):
                continue
            first = pre == spellings[0]
            try:
                path = compare_gguf(name, pre, texts if first else texts[:2000])
                if given.runs and first:
                    runs(f"gguf {pre}", Ng(path), None)
            except RuntimeError as error:
                print(f"gguf {pre}: {error}")


if __name__ == "__main__":
    main()
