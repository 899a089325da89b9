"""What a notebook does: each test is one of at most 15 lines, and has the ids and bits of a program."""

import json
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
            last = other.prefill(ids)
        np.testing.assert_array_equal(last, rows[-1])
        np.testing.assert_array_equal(rows, self.saved("logits")["logits.0"])
        self.assertEqual(int(last.argmax()), self.answered().ids[len(ids)])

    def test_points(self):
        engine = self.engine()
        saved = self.saved("layer*.out,layer3.q")
        self.assertLess({name[:-2] for name in saved}, {point.name for point in engine.points})
        done = engine.generate(PROMPT, points=["layer*.out", "layer3.q"])
        for name, rows in done.points.items():  # [n_fed, width]; of q [n_fed, n_heads, head_dim]
            np.testing.assert_array_equal(rows, saved[f"{name}.0"])
        lens = engine.head_logits(done.points["layer4.out"])  # the logit lens
        np.testing.assert_array_equal(lens[:done.prompt_len], self.saved("logits")["logits.0"])

    def test_points_as_they_are_made(self):
        seen = []
        done = self.engine().generate(PROMPT, points="layer1.out", on_point={"layer1.out": seen.append})
        np.testing.assert_array_equal(np.concatenate([rows.values for rows in seen]),
                                      done.points["layer1.out"])
        self.assertEqual([int(p) for rows in seen for p in rows.positions],
                         list(range(len(done.ids) - 1)))

    def test_attention_map(self):
        saved = self.saved("attn_full", "--trace-layer=1,3")
        done = self.engine().generate(PROMPT, attention_map=True, attention=True, layers=[1, 3])
        self.assertEqual(sorted(done.attention), [1, 3])
        heads = done.attention[3]  # [n_heads, query, key]
        np.testing.assert_array_equal(heads, saved["attn_full.0.layer3"])
        np.testing.assert_allclose(heads.sum(axis=-1), 1.0, atol=1e-3)
        row = done.steps[2].attention[3]  # of the query that chose token 2
        query = done.prompt_len + 1
        np.testing.assert_array_equal(row, heads[:, query, :query + 1])

    def test_when_tokens_left(self):
        keys = {"cache.name": "budget", "cache.budget.tokens": 12, "cache.budget.recent": 4,
                "cache.budget.every": 4, "cache.budget.policy": "keydiff"}
        saved = self.saved("dropped_at", *(f"--{key}={value}" for key, value in keys.items()))
        done = self.engine(keys).generate(PROMPT, dropped_at=True)
        np.testing.assert_array_equal(done.dropped_at, saved["dropped_at.0"])
        self.assertEqual(done.dropped_at.dtype, np.int32)
        self.assertTrue((done.dropped_at > 0).any())
        self.assertIsNone(self.engine().generate(PROMPT, dropped_at=True).dropped_at)

    def test_what_was_not_read(self):
        sparse = {"attention.name": "sparse", "attention.sparse.pages": 2, "run.max_new_tokens": 60}
        measured = self.engine({**sparse, "attention.sparse.measure": True})
        step = measured.generate(PROMPT, 60, records=True).steps[-1]
        self.assertGreater(step.missed["most"], step.missed["mean"])
        self.assertIn("layer", step.missed)
        self.assertIsNone(self.engine(sparse).generate(PROMPT, 4, records=True).steps[-1].missed)

    def test_steering(self):
        direction = np.random.default_rng(1).normal(size=160).astype(np.float32)

        def push(rows):
            rows.values += 4 * direction

        engine = self.engine(probes=[ng.Probe("push", "layer2.out", push, edits=True)])
        steered = engine.generate(PROMPT, logits=True)
        steer = self.steer("layer2.out", direction, 4)
        self.assertEqual(steered.ids, self.answered(*steer).ids)
        np.testing.assert_array_equal(steered.logits, self.saved("logits", *steer)["logits.0"])
        self.assertNotEqual(steered.ids, self.answered().ids)
        self.assertIn("probe push: written in Python", "\n".join(engine.reports()))

    def test_sampler_stage(self):
        def only_even(candidates):
            candidates.logits[candidates.ids % 2 == 1] = -np.inf

        engine = self.engine(stages=[ng.Stage("even", only_even)])
        self.assertEqual(engine.config["sampler.chain"], "even,greedy")
        done = engine.generate(PROMPT, stages=True)
        odd = ",".join(str(i) for i in range(1, engine.model["vocab_size"], 2))
        self.assertEqual(done.ids, self.answered("--sampler.chain=banned_tokens,greedy",
                                                 f"--sampler.banned_tokens.ids={odd}").ids)
        self.assertEqual([s["name"] for s in done.steps[0].stages], ["even", "greedy"])
        self.assertIn("sampler even: written in Python", "\n".join(engine.reports()))

    def test_sampler_stage_that_ends_an_answer(self):
        ends = ng.Stage("ends", lambda _: None, accept=lambda token, tokens: len(tokens) == 15)
        done = self.engine(stages=[ends]).generate(PROMPT)
        self.assertEqual((done.stop_reason, len(done.ids)), ("stage", 15))
        self.assertEqual(done.ids, self.answered().ids[:15])

    def test_drafter(self):
        plain = self.engine().generate(PROMPT, 40, records=True, logits_hash=True)

        def draft(tokens, most):  # right, and in the end wrong
            return (plain.ids[len(tokens):-9] + [7] * most)[:most]

        engine = self.engine({"drafter.adapt": False}, drafter=ng.Drafter("half", draft))
        done = engine.generate(PROMPT, 40, records=True, logits_hash=True)
        self.assertEqual(done.ids, self.answered("--run.max_new_tokens=40").ids)
        self.assertEqual(done.steps, plain.steps)  # log probabilities, and the logits' bits
        self.assertRegex(engine.reports()[0], "drafter half: .*45.0 % of 60 .* kept; written in Python")

    def test_diff_of_two_codecs(self):
        difference = ng.diff(DEMO, {"cache.codec": "int8"}, PROMPT, overrides=GREEDY)
        self.assertEqual(difference.first["point"], "attn_head")  # the cache is read there first
        self.assertGreater(difference.points["layer0.attn_head"]["max_abs"], 0)
        self.assertEqual(difference.points["layer0.k"]["equal_share"], 1)
        lines = run("ng-diff", "--config", DEMO, *KEYS,
                    "--prompt", PROMPT, "--against", "cache.codec=int8", "--output", "jsonl")
        verdict = json.loads(lines.splitlines()[-1])
        self.assertEqual((difference.kl_mean, difference.equal), (verdict["kl_mean"], False))
        self.assertTrue(ng.diff(DEMO, {"cache.name": "paged"}, PROMPT, overrides=GREEDY).equal)


if __name__ == "__main__":
    unittest.main()
