"""Forward as transformers shapes it, and hooks: functions that see and change what steps make."""

import gc
import os
import unittest
import weakref

import numpy as np

import ng
from support import DEMO, GREEDY, PROMPT, Test


class Forward(Test):
    def test_has_the_bits_of_generate_and_the_shapes_of_transformers(self):
        engine = self.engine()
        ids = [engine.encode(PROMPT), engine.encode(PROMPT)[::-1]]
        made = engine.forward(ids, output_hidden_states=True, output_attentions=True)
        layers, heads, n = engine.model["n_layers"], engine.model["n_heads"], len(ids[0])
        width = {point.name: point.width for point in engine.points}["embed"]
        self.assertEqual(made.logits.shape, (2, n, engine.model["vocab_size"]))
        self.assertEqual([rows.shape for rows in made.hidden_states], [(2, n, width)] * (layers + 1))
        self.assertEqual([rows.shape for rows in made.attentions], [(2, heads, n, n)] * layers)
        for row, prompt in enumerate(ids):
            done = engine.generate(prompt, 1, logits=True, attention_map=True,
                                   points=["embed", "layer*.out", "norm"])
            np.testing.assert_array_equal(made.logits[row], done.logits)
            names = ["embed", *(f"layer{i}.out" for i in range(layers - 1)), "norm"]
            for rows, name in zip(made.hidden_states, names):
                np.testing.assert_array_equal(rows[row], done.points[name][:n])
            for layer, maps in enumerate(made.attentions):
                np.testing.assert_array_equal(maps[row], done.attention[layer][:, :n, :n])

    def test_gathers_each_in_one_array(self):
        made = self.engine().forward(PROMPT, output_hidden_states=True, output_attentions=True)
        for several in (made.hidden_states, made.attentions):
            whole = several[0].base
            self.assertTrue(all(part.base is whole for part in several))
            self.assertTrue(whole.flags.owndata)
            self.assertEqual(sum(part.nbytes for part in several), whole.nbytes)
        self.assertTrue(made.logits.base.flags.owndata)
        self.assertEqual(made.logits.base.nbytes, made.logits.nbytes)
        kept = weakref.ref(made.hidden_states[0].base)
        del whole, several, made
        gc.collect()
        self.assertIsNone(kept())

    def test_takes_what_it_is_given(self):
        engine = self.engine()
        ids = engine.encode(PROMPT)
        want = engine.forward(ids).logits
        for given in (PROMPT, [ids], np.array([ids]), np.array(ids)):
            np.testing.assert_array_equal(engine.forward(given).logits, want)
        none = engine.forward(ids, logits=False, output_attentions=True)
        self.assertEqual((none.logits.shape, none.hidden_states), ((1, len(ids), 0), ()))
        with self.raises(ng.UsageError, "one length, these have 2 and 3 tokens"):
            engine.forward([[5, 6], [5, 6, 7]])
        with self.raises(ng.UsageError, "no prompts"):
            engine.forward([])

    def test_goes_on_beside_open_sequences(self):
        engine = self.engine(prompt_logits=True, max_sequences=2)
        with engine.open() as sequence:
            row = sequence.prefill([5, 6, 7])
            made = engine.forward([[5, 6, 7]] * 3)
            np.testing.assert_array_equal(made.logits[:, -1], [row] * 3)
            sequence.decode_step(8)


class Hooks(Test):
    def test_change_every_step_of_a_run_and_of_a_sequence(self):
        def edit(values):
            values += 0.5

        engine = self.engine()
        before = engine.generate(PROMPT, 6, logits=True)
        probed = self.engine(probes=[ng.Probe("edit", "layer1.out", lambda rows: edit(rows.values),
                                              edits=True)])
        with engine.hook("layer1.out", edit):
            during = engine.generate(PROMPT, 6, logits=True)
            stepped = [step.token for step in engine.generate_steps(PROMPT, 6)]
            with engine.open() as sequence:
                last = sequence.prefill(engine.encode(PROMPT))
        want = probed.generate(PROMPT, 6, logits=True)
        self.assertEqual(during.ids, want.ids)
        self.assertEqual(stepped, want.answer_ids)
        np.testing.assert_array_equal(during.logits, want.logits)
        np.testing.assert_array_equal(last, want.logits[-1])
        self.assertFalse(np.array_equal(during.logits, before.logits))
        np.testing.assert_array_equal(engine.generate(PROMPT, 6, logits=True).logits, before.logits)

    def test_replace_what_they_return(self):
        engine = self.engine()
        for call in (lambda values: np.zeros_like(values), lambda values: values * 0):
            with engine.hook("layer*.attn_out", call):
                made = engine.forward(PROMPT, output_hidden_states=True).hidden_states
        with engine.hook("layer*.attn_out", lambda values: values.fill(0)):
            np.testing.assert_array_equal(
                engine.forward(PROMPT, output_hidden_states=True).hidden_states[2], made[2])
        with engine.hook("layer0.out", lambda values: values[:, 1:]):
            with self.raises(ng.UsageError, "hook 'layer0.out' returned an array of shape", "must be"):
                engine.generate(PROMPT, 1)

    def test_of_a_head_ablate_it_alone(self):
        engine = self.engine()
        seen = {}

        def ablate(values):
            values[:, 1] = 0

        with engine.hook("layer2.attn_head", ablate), engine.hook(
                "layer2.attn_head", lambda values: seen.setdefault("heads", values), edits=False):
            engine.generate(PROMPT, 1)
        self.assertFalse(seen["heads"][:, 1].any())
        self.assertTrue(seen["heads"][:, 0].all() and seen["heads"][:, 2].all())

    def test_get_the_rows_where_they_have_two_parameters_and_may_keep_what_they_get(self):
        engine = self.engine()
        kept = []
        with engine.hook("layer3.out", lambda values, rows: kept.append((values, rows)), edits=False):
            done = engine.generate(PROMPT, 4, points="layer3.out")
        np.testing.assert_array_equal(np.concatenate([values for values, _ in kept]),
                                      done.points["layer3.out"])
        self.assertEqual([int(p) for _, rows in kept for p in rows.positions],
                         list(range(len(done.ids) - 1)))
        self.assertEqual(kept[0][1].tokens.tolist(), engine.encode(PROMPT))

    def test_that_only_look_cannot_change(self):
        engine = self.engine()

        def edit(values):
            values += 1

        with engine.hook("layer0.out", edit, edits=False):
            with self.raises(ValueError, "read-only"):
                engine.generate(PROMPT, 1)

    def test_that_raise_end_the_step_with_their_own_exception(self):
        class Mine(Exception):
            pass

        def fail(values):
            raise Mine(len(values))

        engine = self.engine(prompt_logits=True)
        with engine.open() as sequence:
            with engine.hook("layer2.out", fail):
                for call in (lambda: engine.generate(PROMPT, 2), lambda: engine.forward(PROMPT),
                             lambda: list(engine.generate_steps(PROMPT, 2)),
                             lambda: sequence.extend([5, 6])):
                    self.assertRaises(Mine, call)
            sequence.truncate(0)
            sequence.extend([5, 6])

    def test_end_with_their_block_also_within_a_stream(self):
        engine = self.engine()
        want = engine.generate(PROMPT, 6).answer_ids
        calls = []
        with engine.hook("layer0.out", calls.append, edits=False):
            stream = engine.generate_steps(PROMPT, 6)
            first = next(stream).token
            with self.raises(ng.UsageError, "generate_steps is open"):
                engine.hook("layer1.out", print)
        n = len(calls)
        self.assertGreater(n, 0)
        self.assertEqual([first, *(step.token for step in stream)], want)
        self.assertEqual(len(calls), n)
        hook = engine.hook("layer0.out", calls.append)
        hook.remove()
        hook.remove()
        engine.generate(PROMPT, 2)
        self.assertEqual(len(calls), n)

    def test_names_that_there_are_not_are_refused_with_those_near_them(self):
        engine = self.engine()
        with self.raises(ng.UsageError, "layer1.ouut", "layer1.out"):
            engine.hook("layer1.ouut", print)
        with self.raises(ng.UsageError, "layer99"):
            engine.hook("layer99.out", print)

    def test_that_edit_leave_nothing_for_others_and_no_snapshot(self):
        engine = self.engine({"cache.name": "paged"}, snapshots=True, max_tokens=200, max_sequences=4)
        path = os.path.join(self.folder, "a.ngcache")
        long = PROMPT * 20
        want = engine.generate([long, long], 4)
        self.assertGreater(want[1].timings["shared_tokens"], 0)
        with engine.open(100) as edited, engine.open(100) as plain:
            plain.prefill([5, 6])
            with engine.hook("layer0.out", lambda values: values * 1.5):
                other = engine.generate([long, long], 4)
                edited.prefill([5, 6])
                with self.raises(ng.UsageError, "a hook edited"):
                    engine.generate(PROMPT, 1, save_cache=path)
                plain.save(path)
            self.assertEqual([done.timings["shared_tokens"] for done in other], [0, 0])
            with self.raises(ng.UsageError, "a hook edited"):
                edited.save(path)
            with edited.fork() as fork, self.raises(ng.UsageError, "a hook edited"):
                fork.save(path)
            edited.truncate(0)
            edited.prefill([5, 6])
            edited.save(path)
        self.assertEqual([done.ids for done in engine.generate([long, long], 4)],
                         [done.ids for done in want])

    def test_count_in_an_evaluation(self):
        engine = self.engine()
        plain = engine.eval(PROMPT)
        with engine.hook("layer1.mlp_out", lambda values: values * 0):
            self.assertNotEqual(engine.eval(PROMPT).perplexity, plain.perplexity)
        self.assertEqual(engine.eval(PROMPT).perplexity, plain.perplexity)

    def test_that_hold_their_engine_are_freed_with_it(self):
        class Study:
            def __init__(self):
                self.engine = ng.Engine(DEMO, GREEDY)
                self.hook = self.engine.hook("layer0.out", self.see)

            def see(self, values):
                del values

        gone = []
        for _ in range(3):
            study = Study()
            study.engine.generate(PROMPT, 1)
            weakref.finalize(study.engine, gone.append, 1)
            del study
        gc.collect()
        self.assertEqual(len(gone), 3)

    def test_of_a_closed_engine_may_be_removed(self):
        engine = self.engine()
        with engine.hook("layer0.out", print):
            engine.close()
        with self.raises(ng.UsageError, "closed"):
            engine.hook("layer0.out", print)


class Stages(Test):
    def test_may_keep_what_they_are_given(self):
        kept = []
        for chain in ("see,greedy", "top_k,see,greedy"):
            with self.engine({"sampler.chain": chain}, stages=[ng.Stage("see", kept.append)]) as engine:
                done = engine.generate(PROMPT, 6, decode_logits=True)
            self.assertEqual(len(kept), 6)
            for given, row in zip(kept, done.decode_logits):
                np.testing.assert_array_equal(given.logits, row[given.ids])
            kept.clear()

    def test_make_the_arrays_that_are_asked_for(self):
        made, kept = [], []

        def looks(candidates):
            for name in ("tokens", "logits", "ids", ""):
                made.append([field for field in ("ids", "logits", "tokens") if is_made(candidates, field)])
                getattr(candidates, name, None)

        def is_made(candidates, field):
            try:
                getattr(ng.Candidates, field).__get__(candidates)
            except AttributeError:
                return False
            return True

        def fails(candidates):
            kept.append(candidates)
            raise KeyError

        plain = self.engine().generate(PROMPT, 2, decode_logits=True)
        self.assertEqual(self.engine(stages=[ng.Stage("looks", looks)]).generate(PROMPT, 1).ids,
                         plain.ids[:-1])
        self.assertEqual(made, [[], ["tokens"], ["logits", "tokens"], ["ids", "logits", "tokens"]])
        with self.assertRaises(KeyError):
            self.engine(stages=[ng.Stage("fails", fails)]).generate(PROMPT, 1)
        np.testing.assert_array_equal(kept[0].logits, plain.decode_logits[0])
        self.assertEqual(list(kept[0].tokens), plain.ids[:-2])
        del kept[0].ids
        with self.raises(ng.UsageError, "step of these candidates is over"):
            kept[0].ids
        with self.raises(AttributeError, "no 'logit'"):
            kept[0].logit

    def test_change_logits_and_not_ids(self):
        def forbid(candidates):
            candidates.logits[candidates.ids == 5] = -np.inf
            candidates.ids[0] = 1

        with self.raises(ValueError, "read-only"):
            self.engine(stages=[ng.Stage("forbid", forbid)]).generate(PROMPT, 1)

    def test_see_what_those_before_them_left(self):
        seen = []

        def halve(candidates):
            candidates.logits /= 2

        stages = [ng.Stage("halve", halve), ng.Stage("see", lambda c: seen.append(c.logits.copy()))]
        for chain in ("halve,see,greedy", "halve,top_k,see,greedy"):
            with self.engine({"sampler.chain": chain}, stages=stages) as engine:
                done = engine.generate(PROMPT, 1, decode_logits=True)
            self.assertEqual(seen[-1].max(), done.decode_logits[0].max() / 2)


if __name__ == "__main__":
    unittest.main()
