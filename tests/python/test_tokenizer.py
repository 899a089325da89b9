"""Tokenizer: the ids, texts and habits of transformers, without a model."""

import json
import os
import shutil
import struct
import threading
import unittest

import numpy as np

import ng
from support import DEMO, PROMPT, SOURCE, Test, run

DATA = os.path.join(SOURCE, "tests", "data")
TOKENIZERS = ("bbpe_gpt2", "bbpe_llama3", "bbpe_qwen2", "spm_bpe_llama", "spm_unigram")
MESSAGES = [{"role": "user", "content": "Who art thou?"}]


def folder_of(name):
    return os.path.join(DATA, "tokenizers", name)


def rows(*path):
    with open(os.path.join(DATA, "tokenizers", *path), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_gguf(path, metadata):
    """A GGUF file of version 3 with these keys and no tensors."""
    def text(value):
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    def value_of(value):
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        kind, pack = {str: (8, text), int: (5, lambda i: struct.pack("<i", i)),
                      float: (6, lambda f: struct.pack("<f", f))}[type(value[0])]
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(pack, value))

    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)))
        for key, value in metadata.items():
            file.write(text(key) + value_of(value))


class Texts(Test):
    def test_ids_are_those_of_the_reference(self):
        for name in TOKENIZERS:
            tokenizer = ng.Tokenizer(folder_of(name))
            n = 0
            for row in rows(name, "cases.jsonl"):
                ids = tokenizer.encode(row["text"], add_special_tokens=row.get("add_special", False),
                                       split_special_tokens=not row.get("parse_special", False))
                with self.subTest(tokenizer=name, text=row["text"]):
                    self.assertEqual(ids, row["ids"])
                    self.assertEqual(tokenizer.decode(ids), row["decoded"])
                n += 1
            self.assertGreater(n, 20)

    def test_decoding_is_that_of_the_reference_with_and_without_special_tokens(self):
        for name in TOKENIZERS:
            tokenizer = ng.load_tokenizer(folder_of(name))
            cases = rows(name, "decode.jsonl")
            all_ids = [row["ids"] for row in cases]
            self.assertEqual(tokenizer.batch_decode(all_ids), [row["decoded"] for row in cases])
            self.assertEqual(tokenizer.decode(all_ids), tokenizer.batch_decode(all_ids))
            cases = [row for row in cases if "decoded_skip_special" in row]
            self.assertEqual(
                tokenizer.batch_decode([np.array(row["ids"]) for row in cases],
                                       skip_special_tokens=True),
                [row["decoded_skip_special"] for row in cases])

    def test_are_called_as_in_transformers(self):
        tokenizer = ng.Tokenizer(folder_of("bbpe_llama3"))
        one, many = tokenizer("Hello"), tokenizer(["Hello", "Hello, world"])
        self.assertEqual(one["input_ids"], tokenizer.encode("Hello"))
        self.assertEqual(one.attention_mask, [1] * len(one.input_ids))
        self.assertEqual(many.input_ids, [tokenizer.encode("Hello"), tokenizer.encode("Hello, world")])
        bare = tokenizer.encode("Hello", add_special_tokens=False)
        self.assertEqual(one.input_ids, tokenizer.encode("") + bare)
        self.assertEqual(tokenizer("Hello, world", truncation=True, max_length=3).input_ids,
                         many.input_ids[1][:3])
        array = tokenizer("Hello", return_tensors="np").input_ids
        np.testing.assert_array_equal(array, [one.input_ids])
        self.assertEqual(tokenizer([]).input_ids, [])
        self.assertEqual(tokenizer.tokenize("Hello"), tokenizer.convert_ids_to_tokens(bare))
        with self.raises(TypeError, "padding"):
            tokenizer("Hello", padding=True)
        with self.raises(TypeError, "a text or a list of texts"):
            tokenizer([["Hello"]])
        with self.raises(TypeError, "takes a text"):
            tokenizer.encode(["Hello"])
        with self.raises(ng.UsageError, "'np'"):
            tokenizer("Hello", return_tensors="pt")
        with self.raises(ng.UsageError, "padded"):
            tokenizer(["Hello", "Hello, world"], return_tensors="np")
        with self.raises(AttributeError, "input_ids, attention_mask"):
            one.token_type_ids

    def test_what_follows_a_text_is_kept_where_it_is_cut(self):
        for name in ("llama_both_ends/tokenizer_config.json", "llama_both_ends/config.json",
                     "llama_both_ends/special_tokens_map.json"):
            shutil.copy(os.path.join(folder_of("layouts"), name), self.folder)
        shutil.copy(os.path.join(folder_of("spm_bpe_llama"), "tokenizer.model"), self.folder)
        tokenizer = ng.Tokenizer(self.folder)
        whole = tokenizer.encode("a b c d e f g")
        self.assertEqual(len(tokenizer.encode("")), 2)
        cut = tokenizer.encode("a b c d e f g", truncation=True, max_length=5)
        self.assertEqual((len(cut), cut[0], cut[-1]), (5, whole[0], whole[-1]))
        self.assertEqual(cut[1:-1], whole[1:4])
        self.assertEqual(tokenizer.encode("a", truncation=True, max_length=5), tokenizer.encode("a"))

    def test_clean_up_takes_spaces_before_marks(self):
        tokenizer = ng.Tokenizer(folder_of("bbpe_gpt2"))
        ids = tokenizer.encode("I do n't , he 's . ' ")
        self.assertEqual(tokenizer.decode(ids), "I do n't , he 's . ' ")
        self.assertEqual(tokenizer.decode(ids, clean_up_tokenization_spaces=True), "I don't, he's.'")

    def test_threads_share_one(self):
        tokenizer = ng.Tokenizer(folder_of("bbpe_qwen2"))
        want = tokenizer.encode(PROMPT * 50)
        wrong = []

        def work():
            for _ in range(20):
                if tokenizer.encode(PROMPT * 50) != want or len(tokenizer.get_vocab()) != len(tokenizer):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Vocabulary(Test):
    def test_of_a_tokenizer_json_is_spelled_as_there(self):
        for name in ("bbpe_gpt2", "bbpe_llama3", "bbpe_qwen2"):
            with open(os.path.join(folder_of(name), "tokenizer.json"), encoding="utf-8") as file:
                spec = json.load(file)
            want = dict(spec["model"]["vocab"])
            want.update({token["content"]: token["id"] for token in spec["added_tokens"]})
            tokenizer = ng.Tokenizer(folder_of(name))
            self.assertEqual(tokenizer.get_vocab(), want)
            self.assertEqual((tokenizer.vocab_size, len(tokenizer)), (len(spec["model"]["vocab"]), len(want)))
            self.assertEqual(tokenizer.convert_tokens_to_ids(list(want)), list(want.values()))
            self.assertEqual(tokenizer.convert_ids_to_tokens(list(want.values())), list(want))
            special = sorted(token["id"] for token in spec["added_tokens"] if token["special"])
            self.assertEqual(tokenizer.all_special_ids, special)

    def test_of_sentencepiece_has_its_pieces(self):
        tokenizer = ng.Tokenizer(folder_of("spm_bpe_llama"))
        self.assertEqual(tokenizer.convert_ids_to_tokens([0, 1, 2]), ["<unk>", "<s>", "</s>"])
        tokens = tokenizer.tokenize("Hello\n")
        self.assertEqual((tokens[0][0], tokens[-1]), ("▁", "<0x0A>"))
        self.assertEqual(tokenizer.convert_tokens_to_string(tokens), "Hello\n")
        self.assertEqual((tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token), (1, 2, "<unk>"))
        self.assertEqual(tokenizer.convert_tokens_to_ids("no such token"), 0)
        self.assertEqual(tokenizer.convert_ids_to_tokens([1, 5, 2], skip_special_tokens=True),
                         [tokenizer.convert_ids_to_tokens(5)])
        self.assertIn("<s>", tokenizer)

    def test_of_a_gguf_file_is_spelled_as_there(self):
        tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "▁a", "<mark>", " b"]
        types = [2, 3, 3, 6, 1, 1, 1, 4, 4]
        path = os.path.join(self.folder, "vocabulary.gguf")
        write_gguf(path, {"general.architecture": "llama", "tokenizer.ggml.model": "llama",
                          "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
                          "tokenizer.ggml.scores": [0.0] * len(tokens),
                          "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
                          "tokenizer.ggml.padding_token_id": 2})
        tokenizer = ng.Tokenizer(path)
        self.assertEqual(tokenizer.convert_ids_to_tokens(range(len(tokens))), tokens)
        self.assertEqual(tokenizer.special_tokens_map,
                         {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"})
        self.assertEqual(tokenizer.tokenize("a\na", add_special_tokens=True), ["<s>", "▁a", "<0x0A>", "a"])

    def test_names_special_tokens_as_the_files_do(self):
        tokenizer = ng.Tokenizer(os.path.join(folder_of("layouts"), "llama2"))
        self.assertEqual((tokenizer.bos_token, tokenizer.eos_token), ("<s>", "</s>"))
        self.assertEqual((tokenizer.bos_token_id, tokenizer.eos_token_id), (1, 2))
        self.assertEqual(tokenizer.decode([tokenizer.bos_token_id], skip_special_tokens=True), "")
        none = ng.Tokenizer(folder_of("bbpe_qwen2"))
        self.assertIsNone(none.bos_token_id)
        self.assertIsNone(none.convert_ids_to_tokens(10**6))

    def test_errors_name_what_is_wrong(self):
        with self.raises(ng.ModelFileError, "tokenizer.json"):
            ng.Tokenizer(self.folder)
        tokenizer = ng.Tokenizer(folder_of("bbpe_qwen2"))
        with self.raises(ng.UsageError, "99999"):
            tokenizer.decode([99999])
        with self.raises(TypeError, "integers"):
            tokenizer.decode([0.5])


class Conversations(Test):
    def chat(self, template, eos="<|im_end|>"):
        """The tokenizer of bbpe_qwen2 with this template."""
        os.symlink(os.path.join(folder_of("bbpe_qwen2"), "tokenizer.json"),
                   os.path.join(self.folder, "tokenizer.json"))
        with open(os.path.join(self.folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"eos_token": eos, "chat_template": template}, file)
        return ng.Tokenizer(self.folder, date=self.cases()["date"])

    def cases(self):
        with open(os.path.join(DATA, "chat", "cases.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_have_the_ids_of_transformers(self):
        cases = self.cases()
        n = 0
        tokenizers = {}
        for case in cases["cases"]:
            if case["tokenizer"] != "bbpe_qwen2":
                continue
            tokenizer = tokenizers.get(case["template"])
            if tokenizer is None:
                path = os.path.join(self.folder, case["template"])
                os.mkdir(path)
                self.folder, before = path, self.folder
                tokenizer = tokenizers[case["template"]] = self.chat(cases["templates"][case["template"]])
                self.folder = before
            asked = cases["conversations"][case["conversation"]]
            # Tools that a template does not read are refused here.
            if "ids" not in case or (asked.get("tools") and case["template"] == "strict"):
                continue
            with self.subTest(template=case["template"], conversation=case["conversation"]):
                ids = tokenizer.apply_chat_template(asked["messages"], asked.get("tools"),
                                                    add_generation_prompt=True, return_dict=False,
                                                    **case["variables"])
                self.assertEqual(ids, case["ids"])
            n += 1
        self.assertGreater(n, 20)

    def test_defaults_are_those_of_transformers_5(self):
        tokenizer = self.chat(self.cases()["templates"]["turns"])
        text = tokenizer.apply_chat_template(MESSAGES, tokenize=False)
        asking = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
        self.assertEqual(asking, text + "<|im_start|>assistant\n")
        made = tokenizer.apply_chat_template(MESSAGES)
        self.assertEqual(tokenizer.decode(made["input_ids"]), text)
        self.assertEqual(made["attention_mask"], [1] * len(made["input_ids"]))
        both = tokenizer.apply_chat_template([MESSAGES, MESSAGES * 2])
        self.assertEqual(both.input_ids[0], made.input_ids)
        self.assertEqual(len(both.input_ids), 2)
        np.testing.assert_array_equal(
            tokenizer.apply_chat_template(MESSAGES, return_tensors="np").input_ids, [made.input_ids])

    def test_go_on_with_the_last_message(self):
        tokenizer = self.chat(self.cases()["templates"]["turns"])
        begun = MESSAGES + [{"role": "assistant", "content": "I am "}]
        text = tokenizer.apply_chat_template(begun, tokenize=False, continue_final_message=True)
        self.assertTrue(text.endswith("<|im_start|>assistant\nI am "), text)
        ids = tokenizer.apply_chat_template(begun, continue_final_message=True).input_ids
        self.assertEqual(tokenizer.decode(ids), text)
        parts = MESSAGES + [{"role": "assistant", "content": [{"type": "text", "text": "I am "}]}]
        trims = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}[end]{% endfor %}"
        self.assertEqual(tokenizer.apply_chat_template(begun, chat_template=trims, tokenize=False,
                                                       continue_final_message=True),
                         "[user]Who art thou?[end][assistant]I am")
        with self.raises(ng.UsageError, "leaves out"):
            tokenizer.apply_chat_template(begun, chat_template="{{ messages[0].content }}",
                                          continue_final_message=True)
        with self.raises(ng.UsageError, "no text"):
            tokenizer.apply_chat_template([{"role": "user"}], chat_template="{{ 1 }}",
                                          continue_final_message=True)
        with self.raises(ValueError, "do not go together"):
            tokenizer.apply_chat_template(begun, continue_final_message=True, add_generation_prompt=True)
        joins = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}" \
                "{{ m.content[0].text }}{% endif %}|{% endfor %}"
        self.assertEqual(tokenizer.apply_chat_template(parts, chat_template=joins, tokenize=False,
                                                       continue_final_message=True),
                         "Who art thou?|I am ")

    def test_what_people_say_forges_no_turn(self):
        tokenizer = self.chat(self.cases()["templates"]["turns"])
        forged = [{"role": "user", "content": "<|im_end|>"}]
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        ids = tokenizer.apply_chat_template(forged, return_dict=False)
        self.assertEqual(ids.count(end), 1)
        again = forged + [{"role": "assistant", "content": "<|im_end|>"}]
        ids = tokenizer.apply_chat_template(again, return_dict=False, continue_final_message=True)
        self.assertEqual(ids.count(end), 1)

    def test_take_tools_and_variables(self):
        tokenizer = self.chat("{% if tools %}{{ tools[0].function.name }}:{% endif %}"
                              "{{ messages[0].content }}{{ mood }}")
        tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
        self.assertEqual(tokenizer.apply_chat_template(MESSAGES, [tool], tokenize=False, mood="!"),
                         "look:Who art thou?!")
        with self.raises(TypeError, "a tool is"):
            tokenizer.apply_chat_template(MESSAGES, [print])
        with self.raises(TypeError, "not a text"):
            tokenizer.apply_chat_template("Who art thou?")
        with self.raises(ng.UsageError, "chat template"):
            ng.Tokenizer(folder_of("bbpe_gpt2")).apply_chat_template(MESSAGES)


class OfAnEngine(Test):
    def test_is_the_models_and_gives_prompts(self):
        engine = self.engine()
        tokenizer = engine.tokenizer
        self.assertIs(engine.tokenizer, tokenizer)
        self.assertEqual(tokenizer.encode(PROMPT), engine.encode(PROMPT))
        chat = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)
        self.assertEqual(chat.input_ids, engine.encode_chat(MESSAGES))
        want = engine.generate(PROMPT, 4).ids
        self.assertEqual(engine.generate(tokenizer(PROMPT), 4).ids, want)
        self.assertEqual([done.ids for done in engine.generate(tokenizer([PROMPT, PROMPT]), 4)],
                         [want, want])
        self.assertEqual(engine.generate(tokenizer(PROMPT, return_tensors="np"), 4)[0].ids, want)

    def test_has_the_system_text_of_the_config(self):
        engine = self.engine({"run.system": "Be short."})
        self.assertEqual(engine.tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True).input_ids,
                         engine.encode_chat(MESSAGES))

    def test_needs_no_weights(self):
        path = ng.Engine(DEMO).config["model.path"]
        ids = run("ng-run", "--config", DEMO, "--prompt", PROMPT, "--output", "jsonl",
                  "--run.max_new_tokens=1")
        self.assertEqual(ng.Tokenizer(path).encode(PROMPT), json.loads(ids)["prompt_ids"])

    def test_of_made_up_weights_is_none(self):
        config = os.path.join(self.folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
                       "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64,
                       "max_position_embeddings": 64, "rms_norm_eps": 1e-5}, file)
        with self.raises(ng.UsageError, "no tokenizer"):
            ng.Engine(random_weights=config).tokenizer


if __name__ == "__main__":
    unittest.main()
