"""The words of other libraries: what they set, and what is said of those that ng does not have."""

import json
import unittest

import numpy as np

import ng
from support import DEMO, PROMPT, Test


class Words(Test):
    def plain(self, **arguments):
        engine = ng.Engine(DEMO, {"run.max_new_tokens": 12, "run.stop_ids": ""}, **arguments)
        self.addCleanup(engine.close)
        return engine

    def test_are_settings(self):
        engine = self.plain()
        chain = {"sampler.chain": "temperature,top_k,top_p,min_p", "sampler.temperature.value": 0.9,
                 "sampler.top_k.k": 20, "sampler.top_p.p": 0.9, "sampler.min_p.p": 0.01,
                 "sampler.seed": 3}
        by_keys = engine.generate(PROMPT, settings=chain)
        by_words = engine.generate(PROMPT, temperature=0.9, top_k=20, top_p=0.9, min_p=0.01,
                                   seed=np.int64(3))
        self.assertEqual(by_words.ids, by_keys.ids)
        greedy = engine.generate(PROMPT, settings={"sampler.chain": "greedy"})
        self.assertEqual(engine.generate(PROMPT, temperature=0).ids, greedy.ids)
        self.assertEqual(engine.chat(PROMPT, temperature=0, max_tokens=3).answer_ids,
                         engine.chat(PROMPT, max_new_tokens=3, settings={"sampler.chain": "greedy"}).answer_ids)
        steps = list(engine.generate_steps(PROMPT, 3, temperature=0))
        self.assertEqual([step.token for step in steps], greedy.answer_ids[:3])

    def test_stop_bias_and_form(self):
        engine = self.plain()
        text = engine.generate(PROMPT, 60, temperature=0).text
        for stop in (" ", ["nowhere", " "], [text[4:7]]):
            done = engine.generate(PROMPT, 60, temperature=0, stop=stop)
            word = stop if isinstance(stop, str) else stop[-1]
            self.assertEqual((done.text, done.stop_reason), (text[:text.index(word)], "stop_text"))
        self.assertEqual(engine.generate(PROMPT, 3, temperature=0, logit_bias={77: 1000}).answer_ids,
                         [77] * 3)
        schema = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}
        done = engine.generate(PROMPT, 60, temperature=0, json_schema=schema)
        self.assertIsInstance(json.loads(done.text)[0], int)
        self.assertEqual(engine.generate(PROMPT, grammar='root ::= "yes"', max_tokens=9).text, "yes")

    def test_n_answers_are_those_of_so_many_prompts(self):
        engine = self.plain()
        several = [done.ids for done in engine.generate([PROMPT] * 3, temperature=1.5)]
        self.assertEqual([done.ids for done in engine.generate(PROMPT, n=3, temperature=1.5)], several)
        self.assertEqual(len({tuple(ids) for ids in several}), 3)
        many = engine.generate([PROMPT, "My lord"], 4, n=2)
        self.assertEqual([[done.prompt_len for done in each] for each in many],
                         [[len(engine.encode(text))] * 2 for text in (PROMPT, "My lord")])
        stream = engine.generate_steps(PROMPT, 4, n=2)
        self.assertEqual(len(list(stream)), 8)
        self.assertEqual(len(stream.completion), 2)

    def test_settings_of_each_prompt(self):
        engine = self.plain()
        own = [{"sampler.chain": "greedy"}, {"sampler.seed": 5}]
        many = engine.generate([PROMPT, PROMPT], settings=own)
        self.assertEqual(many[0].ids, engine.generate(PROMPT, settings=own[0]).ids)
        words = [{"temperature": 0, "logit_bias": {77: 1000}}, {"seed": 5, "stop": ["\n", "a"]}]
        many = engine.generate([PROMPT, PROMPT], 3, settings=words)
        self.assertEqual(many[0].answer_ids, [77] * 3)
        self.assertEqual(many[1].ids, engine.generate([PROMPT, PROMPT], 3, **words[1])[1].ids)
        with self.raises(ng.UsageError, "settings are 2, one for each prompt, of which there are 1"):
            engine.generate(PROMPT, settings=own)

    def test_that_mean_something_else_are_refused(self):
        engine = self.plain()
        for word, here in (("output_attentions", "attention_map"), ("max_length", "max_new_tokens"),
                           ("num_return_sequences", "probably n"), ("nothing", "'nothing'$")):
            with self.raises(TypeError, "unexpected keyword argument", here):
                engine.generate(PROMPT, **{word: 1})
        for bad in ({"n": 0}, {"temperature": -1}, {"top_p": "x"}, {"top_k": 1.5}):
            with self.assertRaises(ng.UsageError):
                engine.generate(PROMPT, **bad)
        with self.raises(TypeError, "the same"):
            engine.generate(PROMPT, 3, max_tokens=3)


if __name__ == "__main__":
    unittest.main()
