"""What a notebook does: each test is one, and short."""

import json
import os
import unittest

import numpy as np

import ng
from support import DEMO, GREEDY, KEYS, PROMPT, Test, run


class Look(Test):
    def test_logits(self):
        engine = self.engine()
        ids = engine.encode(PROMPT)
        with engine.open() as sequence, engine.open() as other:
            rows = sequence.extend(ids, rows="all")  # [n, vocab_size]
            self.assertEqual(rows.shape, (len(ids), engine.model["vocab_size"]))
            last = other.prefill(ids)
            np.testing.assert_array_equal(last, rows[-1])
            self.assertEqual(int(last.argmax()), engine.generate(ids).answer_ids[0])
            p = np.exp(last - last.max())
            self.assertAlmostEqual(float((p / p.sum()).sum()), 1.0, places=5)

    def test_points(self):
        engine = self.engine()
        names = [point.name for point in engine.points]
        self.assertIn("layer3.attn_head", names)
        seen = []
        done = engine.generate(PROMPT, points=["layer*.out", "layer3.q", "logits"], decode_logits=True,
                               on_point={"layer1.out": lambda rows: seen.append(rows)})
        n_fed = len(done.ids) - 1
        n_layers = engine.model["n_layers"]
        self.assertEqual(len(done.points), n_layers + 2)
        self.assertEqual(done.points["layer3.q"].shape[:2], (n_fed, engine.model["n_heads"]))
        np.testing.assert_array_equal(np.concatenate([rows.values for rows in seen]),
                                      done.points["layer1.out"])
        self.assertEqual([int(p) for rows in seen for p in rows.positions], list(range(n_fed)))
        lens = engine.head_logits(done.points[f"layer{n_layers - 1}.out"])
        np.testing.assert_array_equal(lens, done.points["logits"])
        np.testing.assert_array_equal(lens[done.prompt_len - 1:], done.decode_logits)

    def test_attention_map(self):
        engine = self.engine()
        done = engine.generate(PROMPT, 4, attention_map=True, attention=True, layers=[1, 3])
        n = len(done.ids)
        self.assertEqual(sorted(done.attention), [1, 3])
        heads = done.attention[3]  # [n_heads, query, key]
        self.assertEqual(heads.shape, (engine.model["n_heads"], n, n))
        np.testing.assert_allclose(heads.sum(axis=-1), 1.0, atol=1e-3)
        np.testing.assert_array_equal(heads, np.tril(heads))
        row = done.steps[2].attention[3]  # of the query that chose token 2
        query = done.prompt_len + 1
        np.testing.assert_array_equal(row, heads[:, query, :query + 1])

    def test_steering(self):
        width = 0.0
        direction = np.random.default_rng(1).normal(size=self.engine().points[0].width)

        def push(rows):
            rows.values += np.float32(width) * direction

        plain = self.engine().generate(PROMPT)
        engine = self.engine(probes=[ng.Probe("push", "layer2.out", push, edits=True)])
        self.assertEqual(engine.generate(PROMPT).ids, plain.ids)  # nothing is added
        width = 4.0
        steered = engine.generate(PROMPT)
        self.assertNotEqual(steered.ids, plain.ids)
        self.assertEqual(self.engine({"run.prefill_chunk": 2}, probes=[
            ng.Probe("push", "layer2.out", push, edits=True)]).generate(PROMPT).ids, steered.ids)
        self.assertTrue(any("probe push: written in Python" in line for line in engine.reports()))

    def test_sampler_stage(self):
        def only_even(candidates):
            candidates.logits[candidates.ids % 2 == 1] = -np.inf

        ends = ng.Stage("even", only_even, accept=lambda token, tokens: len(tokens) == 15)
        engine = self.engine(stages=[ends])
        self.assertEqual(engine.config["sampler.chain"], "even,greedy")
        done = engine.generate(PROMPT, stages=True)
        self.assertTrue(done.answer_ids and all(i % 2 == 0 for i in done.answer_ids))
        self.assertEqual((done.stop_reason, len(done.ids)), ("stage", 15))
        self.assertEqual([s["name"] for s in done.steps[0].stages], ["even", "greedy"])
        self.assertTrue(any("sampler even: written in Python" in r for r in engine.reports()))

    def test_diff_of_two_codecs(self):
        difference = ng.diff(DEMO, {"cache.codec": "int8"}, PROMPT, overrides=GREEDY)
        self.assertFalse(difference.equal)
        self.assertEqual(difference.first["point"], "attn_head")  # the cache is read there first
        self.assertGreater(difference.points["layer0.attn_head"]["max_abs"], 0)
        self.assertEqual(difference.points["layer0.k"]["equal_share"], 1)
        lines = run("ng-diff", "--config", DEMO, *KEYS,
                    "--prompt", PROMPT, "--against", "cache.codec=int8", "--output", "jsonl")
        verdict = json.loads(lines.splitlines()[-1])
        self.assertEqual(difference.kl_mean, verdict["kl_mean"])
        self.assertTrue(ng.diff(DEMO, {"cache.name": "paged"}, PROMPT, overrides=GREEDY).equal)


if __name__ == "__main__":
    unittest.main()
