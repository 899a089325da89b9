"""Calls as users of transformers, vLLM and llama-cpp-python write them: each works, or its error names
the word that ng has."""

import os
import unittest

import numpy as np

import ng
from support import DEMO, GREEDY, PROMPT, Test

MODEL = os.path.join(os.path.dirname(DEMO), "demo")
IDS = [5, 6, 7]
CHAT = [{"role": "user", "content": "Who art thou?"}]


class SamplingParams:
    """vLLM's."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def opened(*arguments, **named):
    with ng.Engine(*arguments, **named) as engine:
        return engine.generate("To be", 1, temperature=0)


# (call, None if it works, else what the error must say)
OPENING = [
    (lambda e: opened(MODEL), None),                                     # LLM("folder"), Llama("file")
    (lambda e: opened(model=MODEL), None),                               # LLM(model=...)
    (lambda e: opened(model_path=MODEL), r"probably model$"),            # Llama(model_path=...)
    (lambda e: opened(MODEL, n_ctx=64), "max_tokens"),
    (lambda e: opened(MODEL, max_model_len=64), "max_tokens"),
    (lambda e: opened(MODEL, n_threads=2), "run.threads"),
    (lambda e: opened(MODEL, n_gpu_layers=-1), "CPU"),
    (lambda e: opened(MODEL, gpu_memory_utilization=0.9), "CPU"),
    (lambda e: opened(MODEL, max_num_seqs=4), "max_sequences"),
    (lambda e: opened(MODEL, dtype="float32"), "model.weights"),
    (lambda e: opened(MODEL, torch_dtype="auto"), "model.weights"),
    (lambda e: opened(MODEL, kv_cache_dtype="fp8"), "cache.codec"),
    (lambda e: opened(MODEL, logits_all=True), "prompt_logits"),
    (lambda e: opened(MODEL, seed=1), "sampler.seed"),
    (lambda e: opened(MODEL, verbose=False), "progress"),
    (lambda e: opened(MODEL, trust_remote_code=True), "no code"),
    (lambda e: ng.LLM(MODEL), "Engine"),
    (lambda e: ng.Llama(MODEL), "Engine"),
    (lambda e: ng.AutoModelForCausalLM, "Engine"),
    (lambda e: ng.Engine.from_pretrained(MODEL), r"Engine\(model="),
    (lambda e: ng.SamplingParams(temperature=0), "by name"),
]
ANSWERS = [
    (lambda e: e.generate(PROMPT, max_new_tokens=2), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, temperature=0.8, top_p=0.95, seed=1), None),
    (lambda e: e.generate([PROMPT, "Good"], max_tokens=2), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, top_k=5, min_p=0.1, repetition_penalty=1.1), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, presence_penalty=0.5, frequency_penalty=0.5), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, stop=["\n"]), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, stop="\n"), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, n=2), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, logit_bias={5: -100}), None),
    (lambda e: e.generate(PROMPT, max_tokens=2, temperature=None, top_p=None, stop=None), None),
    (lambda e: e.generate(np.array(IDS), max_new_tokens=2), None),
    (lambda e: e.generate(PROMPT, SamplingParams(max_tokens=2)), "by name"),
    (lambda e: e.generate(PROMPT, sampling_params=SamplingParams()), "by name"),
    (lambda e: e.generate(input_ids=np.array([IDS]), max_new_tokens=2), "the prompt, first"),
    (lambda e: e.generate(prompt_token_ids=IDS), "the prompt, first"),
    (lambda e: e.generate(PROMPT, max_length=20), "max_new_tokens"),
    (lambda e: e.generate(PROMPT, do_sample=False), "temperature=0"),
    (lambda e: e.generate(PROMPT, num_return_sequences=2), "probably n$"),
    (lambda e: e.generate(PROMPT, num_beams=2), "probably n,"),
    (lambda e: e.generate(PROMPT, stop_token_ids=[5]), "run.stop_ids"),
    (lambda e: e.generate(PROMPT, eos_token_id=5), "run.stop_ids"),
    (lambda e: e.generate(PROMPT, stop_strings=["x"]), "probably stop"),
    (lambda e: e.generate(PROMPT, repeat_penalty=1.1), "repetition_penalty"),
    (lambda e: e.generate(PROMPT, stream=True), "generate_steps"),
    (lambda e: e.generate(PROMPT, streamer=print), "generate_steps"),
    (lambda e: e.generate(PROMPT, output_scores=True), "decode_logits"),
    (lambda e: e.generate(PROMPT, output_attentions=True), "attention_map"),
    (lambda e: e.generate(PROMPT, output_hidden_states=True), "points"),
    (lambda e: e.generate(PROMPT, attention_mask=[1]), "not padded"),
    (lambda e: e.generate(PROMPT, response_format={"type": "json_object"}), "json_schema"),
    (lambda e: e.generate(PROMPT, logits_processor=[print]), "Stage"),
    (lambda e: e(PROMPT, max_tokens=2), r"generate\(text\)"),            # llm("text")
    (lambda e: e(np.array([IDS])), r"forward\(ids\)"),                   # model(input_ids)
    (lambda e: e.create_completion(PROMPT), r"generate\(\)"),
    (lambda e: e.create_chat_completion(CHAT), r"chat\(\)"),
    (lambda e: e.chat(CHAT, max_tokens=2, temperature=0), None),
    (lambda e: e.chat(messages=CHAT, max_tokens=2), None),
]
AROUND = [
    (lambda e: e.tokenize(b"To be"), r"encode\(\)"),
    (lambda e: e.detokenize(IDS), r"decode\(\)"),
    (lambda e: e.encode("To be", add_special_tokens=False), "tokenizer.encode"),
    (lambda e: e.encode("To be", return_tensors="pt"), "numpy"),
    (lambda e: e.decode(IDS), None),
    (lambda e: e.decode(IDS, skip_special_tokens=True), "Completion.text"),
    (lambda e: e.apply_chat_template(CHAT), r"tokenizer.apply_chat_template"),
    (lambda e: e.forward(np.array([IDS]), output_hidden_states=True, output_attentions=True), None),
    (lambda e: e.forward([IDS]).logits[:, -1].argmax(-1), None),
    (lambda e: e.register_forward_hook(print), r"hook\(\)"),
    (lambda e: e.n_ctx(), "max_positions"),
    (lambda e: e.n_vocab(), "vocab_size"),
    (lambda e: e.save_state(), r"save\(\)"),
    (lambda e: e.to("cuda"), "CPU"),
    (lambda e: e.generate(PROMPT, 2).outputs[0].text, "the completion itself"),
    (lambda e: e.generate(PROMPT, 2)["choices"][0]["text"], "text"),
    (lambda e: e.generate(PROMPT, 2).token_ids, "answer_ids"),
    (lambda e: e.generate(PROMPT, 2).finish_reason, "stop_reason"),
    (lambda e: e.generate(PROMPT, 2).text, None),
]


class Habits(Test):
    def check(self, rows):
        engine = self.engine()
        for number, (call, says) in enumerate(rows):
            with self.subTest(number=number):
                if says is None:
                    self.assertIsNotNone(call(engine))
                else:
                    with self.assertRaisesRegex((TypeError, AttributeError, ng.UsageError), says):
                        call(engine)

    def test_there_are_sixty(self):
        self.assertGreaterEqual(len(OPENING) + len(ANSWERS) + len(AROUND), 60)

    def test_of_opening(self):
        self.check(OPENING)

    def test_of_answers(self):
        self.check(ANSWERS)

    def test_of_what_is_around(self):
        self.check(AROUND)

    def test_nothing_is_made_up_of_names_that_nobody_knows(self):
        engine = self.engine()
        for call in (lambda: engine.nonsense, lambda: ng.nonsense, lambda: ng.Engine.nonsense):
            with self.assertRaisesRegex(AttributeError, "no attribute 'nonsense'$"):
                call()
        with self.assertRaisesRegex(TypeError, "'nonsense'$"):
            engine.generate(PROMPT, nonsense=None)
        self.assertFalse(hasattr(engine, "tokenize"))


if __name__ == "__main__":
    unittest.main()
