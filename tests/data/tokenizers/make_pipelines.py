"""Makes pipeline/: what each step of a tokenizer.json does, according to the tokenizers library.

    python3 make_pipelines.py

steps.jsonl has a line for each normalizer, pre-tokenizer and decoder: its JSON, and what becomes of
some texts. models.jsonl has a line for each of some small tokenizers: its JSON and rows {"text",
"ids", "decoded"}. Needs tokenizers and sentencepiece; the latter only for its map of characters.
"""
import io
import json
import os

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pipeline")
N, P, D = normalizers, pre_tokenizers, decoders

TEXTS = ["", " ", " It's 12345\u00bd, \u0130stanbul;\r\n\n x+y=z ", "caf\u00e9 cafe\u0301 \ufb01ne \u1e9b\u0323 HTTPServer /to//",
         "\u4f60\u597d  world\u3002 a\u2581b\u2581 c\t\x01\x85\u200b\ufeff", "\U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea \u0915\u094d\u0937 \ud55c\u00b2x\u0663\u2160_",
         "'S 's 'LL\u017f",
         # Of Unicode 15 and 16; with another category since Unicode 8; shared by scripts.
         "a\U0001fae8\U0001fa75\u31ef \U00031350x\U0001e4d01\U00011f00 a\u166da\u1734a\u1885a\ua9bda\U000111c9 \u3001\u30ab\u4f60\u3001a"]
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def charsmap():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 9), model_writer=model, vocab_size=7, model_type="unigram",
        user_defined_symbols=[], normalization_rule_tsv=os.path.join(FOLDER, "map.tsv"), minloglevel=2,
        hard_vocab_limit=False)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def as_json(step):
    return json.loads(step.__getstate__())


def steps():
    with open(os.path.join(FOLDER, "map.tsv"), "w", encoding="ascii") as file:
        file.write("FB01\t66 69\n301\t\n1F1E9\t44\n3002\t2E\n9\t20\n65 301\tE9\n")
    normal = [N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.StripAccents(), N.Strip(True, False),
              N.Strip(False, True), N.Nmt(), N.Prepend("\u2581"), N.Replace(" ", "\u2581"),
              N.Replace(Regex(r"\s{2,}|\p{Lu}"), "_"), N.Precompiled(charsmap()), N.BertNormalizer(),
              N.BertNormalizer(False, False, True, False),
              N.Sequence([N.NFD(), N.Sequence([N.StripAccents(), N.Lowercase()])])]
    split = [P.ByteLevel(add_prefix_space=True), P.ByteLevel(False, use_regex=False), P.Digits(False), P.Digits(True),
             P.Whitespace(), P.WhitespaceSplit(), P.BertPreTokenizer(), P.CharDelimiterSplit("x"),
             P.Split(Regex(TEKKEN), "isolated"), P.Split(Regex(CL100K), "removed", True),
             P.Split(Regex(r"\p{Han}+|[^\p{Han}\p{L}]?\p{Katakana}+|\p{^Han}"), "isolated"), P.Split(Regex(r"[\p{P}\p{S}]+"), "isolated"),
             P.Split(Regex(r"\b|^x$|\d"), "isolated"), P.Split(" ", "merged_with_previous"),
             P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(False), P.Digits(False),
                         P.Split(Regex("[0-9][0-9][0-9]"), "isolated")])]
    split += [P.Punctuation(behavior) for behavior in BEHAVIORS]
    split += [P.Split(Regex(r"\w|\s+"), behavior, invert) for behavior in BEHAVIORS for invert in (False, True)]
    split += [P.Metaspace("\u2581", scheme, splits) for scheme in ("first", "always", "never") for splits in (False, True)]
    split += [P.Sequence([P.Split("l", "isolated"), P.Metaspace("\u2581", "first")])]
    tokens = [["\u2581He", "llo", "\u2581\u2581", "w</w>", "<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>", "<0x41>", "<s>"], ["\u2581\u2581a"],
              ["\u0120It", "\u00c3\u00a9", "\u00e4\u00bd", "\u4f60", "\u0120"], [" a ", "  ", "b  "], ["x</w>", "y</w>"]]
    decode = [D.ByteLevel(), D.ByteFallback(), D.Fuse(), D.Replace("\u2581", " "), D.Replace(Regex("l+|[a-e]"), "L"),
              D.Strip(" ", 1, 0), D.Metaspace("\u2581", "always"), D.Metaspace("\u2581", "never"),
              D.BPEDecoder("</w>"),
              D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])]
    for step in normal:
        yield {"normalizer": as_json(step), "cases": [[text, step.normalize_str(text)] for text in TEXTS]}
    for step in split:
        yield {"pre_tokenizer": as_json(step),
               "cases": [[text, [piece for piece, _ in step.pre_tokenize_str(text)]] for text in TEXTS]}
    for step in decode:
        # A strip of a token that is shorter is no case: the library fails.
        yield {"decoder": as_json(step), "cases": [[case, step.decode(case)] for case in tokens]}


WORDS = ["\u2581", "H", "e", "l", "o", "\u2581H", "el", "lo", "\u2581Hel", "\u2581Hello", "w", "\u2581w", "\u4f60", "\u2581\u2581", "\n", "1", "2"]
MERGES = [("\u2581", "H"), ("e", "l"), ("l", "o"), ("\u2581H", "el"), ("\u2581Hel", "lo"), ("\u2581", "w"), ("\u2581", "\u2581")]
MODEL_TEXTS = ["", "Hello", " Hello Hello  w", "Hello<s>Hello", "<s>Hello \n\n", "\u4f60\u597d\U0001f600x", "xyz\u597d", "HelloHel lol12",
               "<t>Hel\u2581lo", "w\u00e9 w"]
SPACES = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()])
STRIPPED = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])


def finished(tokenizer, decoder, normalizer=None, splitter=None):
    if normalizer:
        tokenizer.normalizer = normalizer
    if splitter:
        tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False)])
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("<t>", normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def bpe(n_bytes, **options):
    named = [f"<0x{byte:02X}>" for byte in range(256)][-n_bytes:] if n_bytes else []
    vocabulary = {token: i for i, token in enumerate(["<unk>", "<s>"] + named + WORDS)}
    return Tokenizer(models.BPE(vocabulary, MERGES, byte_fallback=n_bytes > 0, **options))


def unigram(n_bytes):
    named = [(f"<0x{byte:02X}>", -9.0) for byte in range(256)][-n_bytes:] if n_bytes else []
    pieces = [("<unk>", 0.0), ("<s>", 0.0)] + named + [(word, -1.5 - i / 8) for i, word in enumerate(WORDS)]
    return Tokenizer(models.Unigram(pieces, 0, n_bytes > 0))


def word_ends():
    vocabulary = {token: i for i, token in enumerate(["<unk>", "h", "e", "l", "o", "o</w>", "lo</w>", "el", "w</w>"])}
    return Tokenizer(models.BPE(vocabulary, [("l", "o</w>"), ("e", "l")], unk_token="<unk>", end_of_word_suffix="</w>"))


def small_models():
    replace = N.Replace(" ", "\u2581")
    yield finished(bpe(256, unk_token="<unk>", fuse_unk=True), SPACES, replace, P.Split(" ", "merged_with_previous"))
    yield finished(bpe(256, unk_token="<unk>"), STRIPPED, N.Sequence([N.Prepend("\u2581"), replace]))
    yield finished(bpe(256, unk_token="<unk>"), STRIPPED, None, P.Metaspace("\u2581", "first", False))
    yield finished(bpe(64, unk_token="<unk>", fuse_unk=True), SPACES, replace)
    yield finished(bpe(0, unk_token="<unk>", fuse_unk=True), SPACES, replace)
    yield finished(bpe(0, unk_token="<unk>", ignore_merges=True), D.Metaspace(), None, P.Metaspace())
    yield finished(unigram(0), D.Metaspace(), None, P.Metaspace())
    yield finished(unigram(256), STRIPPED, None, P.Metaspace("\u2581", "first", False))
    yield finished(word_ends(), D.BPEDecoder("</w>"), N.BertNormalizer(), P.BertPreTokenizer())


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "steps.jsonl"), "w", encoding="ascii") as file:
        for row in steps():
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    os.remove(os.path.join(FOLDER, "map.tsv"))
    with open(os.path.join(FOLDER, "models.jsonl"), "w", encoding="ascii") as file:
        for tokenizer in small_models():
            # As a file gives it, which finds added tokens in another way than one that is being made.
            tokenizer = Tokenizer.from_str(tokenizer.to_str())
            rows = []
            for text in MODEL_TEXTS:
                ids = tokenizer.encode(text).ids
                rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
            file.write(json.dumps({"tokenizer": json.loads(tokenizer.to_str()), "rows": rows}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
