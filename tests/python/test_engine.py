"""Engine: the ids and bits of ng-run, sequences, arrays in and out, errors."""

import array
import gc
import json
import os
import unittest

import numpy as np

import ng
from support import DEMO, GREEDY, KEYS, PROMPT, Test, run


class Answers(Test):
    def test_equal_those_of_ng_run(self):
        seed = {"sampler.chain": "temperature,top_k", "sampler.seed": 5, "run.max_new_tokens": 20}
        line = json.loads(run("ng-run", "--config", DEMO, "--prompt", PROMPT, "--output", "jsonl",
                              *[f"--{key}={value}" for key, value in seed.items()]))
        with ng.Engine(DEMO, seed) as engine:
            done = engine.generate(PROMPT, records=True)
            self.assertEqual(done.ids, line["ids"])
            self.assertEqual((done.text, done.stop_reason), (line["text"], line["stop_reason"]))
            self.assertEqual([step.token for step in done.steps], done.answer_ids)
            self.assertEqual("".join(step.text for step in done.steps), done.text)

    def test_logits_have_the_bits_of_ng_run(self):
        saved = self.saved("logits,decode_logits", "--run.max_new_tokens=6")
        done = self.engine().generate(PROMPT, 6, logits=True, decode_logits=True)
        np.testing.assert_array_equal(done.logits, saved["logits.0"])
        np.testing.assert_array_equal(done.decode_logits, saved["decode_logits.0"])

    def test_chat_is_the_template_then_generate(self):
        engine = self.engine()
        ids = engine.encode_chat([{"role": "user", "content": "Who art thou?"}])
        line = json.loads(run("ng-run", "--config", DEMO, "--message", "Who art thou?", "--output",
                              "jsonl", *KEYS))
        self.assertEqual(ids, line["prompt_ids"])
        self.assertEqual(engine.chat("Who art thou?").text, line["text"])

    def test_are_the_same_in_a_forked_child_with_as_many_threads(self):
        threads = {**GREEDY, "run.threads": 2}
        parent = self.engine(threads)
        expected = parent.generate(PROMPT, 8).ids
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with ng.Engine(DEMO, threads) as own:
                    same = own.generate(PROMPT, 8).ids == parent.generate(PROMPT, 8).ids == expected
                    # A helper of each engine, where there is a CPU for it.
                    helpers = 2 if len(os.sched_getaffinity(0)) > 1 else 0
                    there = len(os.listdir("/proc/self/task")) >= 1 + helpers
                    code = 0 if same and there else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(parent.generate(PROMPT, 8).ids, expected)

    def test_of_several_prompts_are_those_of_each(self):
        engine = self.engine()
        prompts = [PROMPT, "Good morrow", engine.encode("My lord")]
        many = engine.generate(prompts, 8)
        self.assertEqual([d.ids for d in many], [engine.generate(p, 8).ids for p in prompts])

    def test_come_step_by_step(self):
        engine = self.engine()
        whole = engine.generate(PROMPT, records=True)
        steps = engine.generate_steps(PROMPT, records=True)
        tokens = []
        for step in steps:
            tokens.append(step.token)
            self.assertEqual(step, whole.steps[step.step])
        self.assertEqual(tokens, whole.answer_ids)
        self.assertEqual(steps.completion.ids, whole.ids)
        many = list(engine.generate_steps([PROMPT, PROMPT], 3))
        self.assertEqual(sorted((s.request, s.step) for s in many),
                         [(r, s) for r in (0, 1) for s in range(3)])

    def test_can_be_left_off(self):
        engine = self.engine()
        steps = engine.generate_steps(PROMPT)
        first = next(steps)
        done = steps.close()
        self.assertEqual((done.stop_reason, done.answer_ids), ("interrupted", [first.token]))
        self.assertRaises(StopIteration, next, steps)
        next(engine.generate_steps(PROMPT))  # forgotten
        self.assertEqual(len(engine.generate(PROMPT, 2).answer_ids), 2)

    def test_take_settings_of_their_own(self):
        engine = self.engine()
        own = {"sampler.chain": "temperature", "sampler.temperature.value": 2.5, "sampler.seed": 3}
        self.assertNotEqual(engine.generate(PROMPT, settings=own).ids, engine.generate(PROMPT).ids)
        engine.set(own)
        with self.engine(own) as other:
            self.assertEqual(engine.generate(PROMPT).ids, other.generate(PROMPT).ids)
        with self.raises(ng.UsageError, "cache.codec"):
            engine.set({"cache.codec": "int8"})


class Sequences(Test):
    def test_go_on_fork_and_truncate_with_the_same_bits(self):
        engine = self.engine()
        ids = engine.encode(PROMPT)
        with engine.open() as a, engine.open() as b:
            whole = a.prefill(ids)
            for start in range(0, len(ids), 3):
                rows = b.extend(ids[start:start + 3])
            np.testing.assert_array_equal(rows, whole)
            fork = a.fork()
            a.extend([1, 2, 3])
            self.assertEqual((fork.ids, a.ids), (ids, ids + [1, 2, 3]))
            np.testing.assert_array_equal(fork.decode_step(9), b.decode_step(9))
            a.truncate(len(ids))
            np.testing.assert_array_equal(a.decode_step(9), fork_logits(engine, fork, b))

    def test_side_by_side_give_the_bits_of_each(self):
        engine = self.engine()
        texts = [engine.encode(PROMPT) * 9, engine.encode("Good morrow, my lord")]
        with engine.open() as a, engine.open() as b:
            rows = engine.extend([a, b], texts, rows="all")
            self.assertEqual(len(rows), sum(map(len, texts)))
            a.truncate(0)
            np.testing.assert_array_equal(a.extend(texts[0], rows="all"), rows[:len(texts[0])])
            np.testing.assert_array_equal(engine.decode_step([a, b], [3, 4])[1:],
                                          [single(engine, texts[1] + [4])])

    def test_are_saved_and_loaded(self):
        engine = self.engine(snapshots=True)
        path = os.path.join(self.folder, "a.ngcache")
        with engine.open() as a:
            a.prefill(engine.encode(PROMPT))
            a.save(path)
            with engine.load_sequence(path) as b:
                self.assertEqual(b.ids, a.ids)
                np.testing.assert_array_equal(b.decode_step(7), a.decode_step(7))
        with self.raises(ng.ModelFileError, "int8"):
            self.engine({"cache.codec": "int8"}).load_sequence(path)

    def test_that_python_edits_are_loaded_by_their_engine_alone(self):
        def edit(rows):
            rows.values += 1

        path = os.path.join(self.folder, "a.ngcache")
        for _ in range(2):
            probe = ng.Probe("edit", "layer1.out", edit, edits=True)
            engine = self.engine(snapshots=True, probes=[probe])
            if os.path.exists(path):
                with self.raises(ng.ModelFileError, "probes"):
                    engine.load_sequence(path)
                break
            with engine.open() as sequence:
                sequence.prefill([1, 2, 3])
                sequence.save(path)
                engine.load_sequence(path).decode_step(4)

    def test_carry_a_conversation(self):
        engine = self.engine()
        with engine.open() as sequence:
            ids = engine.encode(PROMPT)
            done = engine.generate(ids, 5, sequence=sequence)
            self.assertEqual(sequence.ids, done.ids[:-1])
            on = engine.generate(done.ids, 5, sequence=sequence)
        self.assertEqual(on.ids, engine.generate(ids, 10).ids)

    def test_grow_and_keep_their_bits(self):
        lines = []
        engine = self.engine(max_tokens=16, max_sequences=1, warning=lines.append)
        plenty = self.engine(max_tokens=200, max_sequences=4)
        ids = engine.encode(PROMPT) * 8
        with engine.open() as a, plenty.open() as b:
            for start in range(0, len(ids), 10):
                rows = a.extend(ids[start:start + 10], rows="all")
                np.testing.assert_array_equal(rows, b.extend(ids[start:start + 10], rows="all"))
            self.assertEqual(a.ids, ids)
            fork, other = a.fork(), b.fork()  # there was room for one
            more = [engine.open() for _ in range(3)]
            np.testing.assert_array_equal(fork.decode_step(7), other.decode_step(7))
            np.testing.assert_array_equal(a.decode_step(9), b.decode_step(9))
            self.assertEqual(len(more), 3)
            a.truncate(40)
            done = engine.generate(ids[:40] + [5], 100, sequence=a)
            self.assertEqual(done.ids, plenty.generate(ids[:40] + [5], 100).ids)
            self.assertEqual(a.ids, done.ids[:-1])
        self.assertTrue(any("again" in line for line in lines), lines)

    def test_that_have_a_capacity_keep_to_it(self):
        engine = self.engine()
        with engine.open(8) as sequence:
            with self.raises(ng.LimitError, "8"):
                sequence.extend(list(range(1, 10)))
            self.assertEqual(sequence.ids, [])

    def test_are_as_they_were_where_there_is_no_room(self):
        engine = self.engine()
        with engine.open() as sequence:
            sequence.prefill([1, 2, 3])
            with self.raises(ng.LimitError, ""):
                engine.load(max_tokens=10**6)
            fed = sequence.decode_step(4)
            self.assertEqual(sequence.ids, [1, 2, 3, 4])
            np.testing.assert_array_equal(fed, single(engine, [1, 2, 3, 4]))

    def test_are_closed_when_they_are_forgotten(self):
        engine = self.engine(max_sequences=2)
        for _ in range(20):
            engine.open().prefill([1, 2])
        self.assertEqual(engine.plan(1, 2)["max_sequences"], 2)


def fork_logits(engine, fork, other):
    """The logits behind the last token of both, which are the same."""
    del engine
    ids = fork.ids
    for sequence in (fork, other):
        sequence.truncate(len(ids) - 1)
    rows = fork.decode_step(ids[-1])
    np.testing.assert_array_equal(rows, other.decode_step(ids[-1]))
    return rows


def single(engine, ids):
    with engine.open() as sequence:
        return sequence.prefill(ids)


class Arrays(Test):
    def test_of_a_view_are_read_only_and_hold_off_the_next_step(self):
        engine = self.engine()
        with engine.open() as sequence:
            copy = sequence.prefill([1, 2, 3])
            sequence.truncate(0)
            view = sequence.prefill([1, 2, 3], copy=False)
            np.testing.assert_array_equal(view, copy)
            self.assertRaises(ValueError, view.__setitem__, 0, 1.0)
            part = view[10:20]
            del view
            with self.raises(ng.UsageError, "views of the last step's logits"):
                sequence.decode_step(4)
            self.assertEqual(sequence.ids, [1, 2, 3])
            del part
            sequence.decode_step(4)

    def test_go_in_from_buffers_and_dlpack(self):
        class OnlyDlpack:  # as other libraries' tensors
            def __init__(self, array):
                self._array = array

            def __dlpack__(self, stream=None):
                return self._array.__dlpack__()

            def __dlpack_device__(self):
                return self._array.__dlpack_device__()

        engine = self.engine()
        ids = engine.encode(PROMPT)
        want = engine.generate(ids, 3).ids
        for given in (np.array(ids), np.repeat(ids, 2)[::2], memoryview(np.array(ids, np.int32)),
                      array.array("l", ids), OnlyDlpack(np.array(ids)), tuple(ids)):
            self.assertEqual(engine.generate(given, 3).ids, want)
        self.assertRaises(TypeError, engine.generate, np.array(ids, np.float32))
        self.assertRaises(ValueError, engine.generate, [2**40])

    def test_go_out_by_dlpack_and_the_buffer_protocol(self):
        engine = self.engine()
        with engine.open() as sequence:
            logits = sequence.prefill([1, 2, 3])
            for other in (np.from_dlpack(logits), np.asarray(memoryview(logits))):
                self.assertTrue(np.shares_memory(other, logits))
            hidden = engine.generate(PROMPT, 2, points="layer4.out").points["layer4.out"]
            want = engine.head_logits(hidden)
            for given in (memoryview(hidden), hidden.tolist()):
                np.testing.assert_array_equal(engine.head_logits(given), want)
            sequence.truncate(0)
            view = sequence.prefill([1, 2, 3], copy=False)
            seen = memoryview(view)  # holds the view, too
            del view
            with self.raises(ng.UsageError, "views"):
                sequence.decode_step(4)
            self.assertTrue(seen.readonly)


class Errors(Test):
    def test_have_the_exit_codes_of_the_programs(self):
        cases = [
            (ng.UsageError, 2, lambda: self.engine({"run.nothing": 1})),
            (ng.ModelFileError, 3, lambda: ng.Engine(model=os.path.join(self.folder, "none.gguf"))),
            (ng.PluginError, 4, lambda: self.engine({"attention.name": "flesh"})),
            (ng.LimitError, 5, lambda: self.engine().generate(PROMPT, 10**6)),
            (ng.NumericError, 6, lambda: self.engine(stages=[
                ng.Stage("nan", lambda c: c.logits.fill(np.nan))]).generate(PROMPT)),
            (ng.OutputError, 7, lambda: self.engine().generate(PROMPT, save_cache="/no/such/file")),
        ]
        for kind, code, call in cases:
            with self.subTest(kind=kind.__name__):
                with self.assertRaises(kind) as raised:
                    call()
                self.assertEqual(raised.exception.exit_code, code)
                self.assertIsInstance(raised.exception, ng.Error)
                self.assertNotIn("\n", str(raised.exception))

    def test_of_callables_come_out_as_they_are(self):
        def fail(_):
            raise KeyError("mine")

        for engine in (self.engine(stages=[ng.Stage("bad", fail)]),
                       self.engine(probes=[ng.Probe("bad", "layer0.out", fail)])):
            with self.assertRaises(KeyError) as raised:
                engine.generate(PROMPT)
            self.assertEqual(raised.exception.args, ("mine",))
        engine = self.engine()
        self.assertRaises(KeyError, engine.generate, PROMPT, on_point={"embed": fail})
        self.assertEqual(len(engine.generate(PROMPT, 2).answer_ids), 2)  # it goes on
        short = self.engine(probes=[ng.Probe("short", "layer0.out", lambda r: r.values[:0], edits=True)])
        with self.raises(ng.PluginError, "shape"):
            short.generate(PROMPT)

    def test_name_what_is_wrong_with_a_call(self):
        engine = self.engine()
        with self.raises(TypeError, "recrods"):
            engine.generate(PROMPT, recrods=True)
        with self.raises(ng.UsageError, "layer9"):
            engine.generate(PROMPT, points="layer9.out")
        with self.raises(ng.UsageError, "outside the vocabulary"):
            engine.decode([10**6])
        with self.raises(ng.UsageError, "lower case"):
            ng.Stage("A.b", print)
        with self.raises(ng.PluginError, "two plugins provide sampler 'top_k'"):
            self.engine(stages=[ng.Stage("top_k", print)])
        with self.raises(ng.UsageError, "closed"):
            engine.close()
            engine.generate(PROMPT)

    def test_of_a_drafter_name_it_and_what_it_returned(self):
        def drafts(call, **keys):
            engine = self.engine({"drafter.adapt": False, **keys}, drafter=ng.Drafter("mine", call))
            return lambda: engine.generate(PROMPT)

        for call, kind, *fragments in (
                (lambda tokens, most: [1] * (most + 1), ng.PluginError, "'mine' returned 9 tokens", "at most 8"),
                (lambda tokens, most: [10**6], ng.PluginError, "'mine'", "token 1000000", "vocabulary"),
                (lambda tokens, most: [-1], ng.PluginError, "'mine'", "token -1", "vocabulary"),
                (lambda tokens, most: [0.5], TypeError, "integers"),
                (lambda tokens, most: {}["mine"], KeyError, "mine")):
            with self.raises(kind, *fragments):
                drafts(call)()
        self.assertEqual(drafts(lambda tokens, most: None)().ids, self.answered().ids)
        with self.raises(ng.UsageError, "drafter.name = ngram, must be 'mine'"):
            drafts(print, **{"drafter.name": "ngram"})
        with self.raises(ng.UsageError, "need a cache"):
            drafts(print, **{"run.use_cache": False})
        with self.raises(ng.UsageError, "no drafter"):
            ng.Drafter("none", print)

    def test_refuse_a_call_within_a_call(self):
        engine, other = self.engine(), self.engine()
        for call in (lambda _: engine.generate(PROMPT), lambda _: engine.open(),
                     lambda _: other.generate(PROMPT, on_point={"embed": lambda _: engine.open()}),
                     lambda _: engine.close(), lambda _: engine.submit(PROMPT).result()):
            with self.raises(ng.UsageError, "must not"):
                engine.generate(PROMPT, on_point={"embed": call})
        self.assertIn("embed", [p.name for p in engine.points])
        engine.generate(PROMPT, 1, on_point={"embed": lambda _: engine.reports()})


class Life(Test):
    def test_two_hundred_engines_leave_nothing(self):
        config = os.path.join(self.folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
                       "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64,
                       "max_position_embeddings": 64, "rms_norm_eps": 1e-5}, file)

        def once():
            probe = ng.Probe("see", "layer0.out", lambda rows: None)
            with ng.Engine(None, {"run.threads": 2}, random_weights=config,
                           probes=[probe]) as engine:
                with engine.open(8) as sequence:
                    sequence.prefill([1, 2], copy=False)

        def resident():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        count = int(os.environ.get("NG_TEST_ENGINES", "200"))
        for _ in range(40):
            once()
        before = resident()
        for _ in range(count):
            once()
        after = resident()
        if "NG_TEST_ENGINES" in os.environ:
            print(f"{count} engines: resident {before >> 10} KiB before, {after >> 10} KiB behind")
        self.assertLess(after - before, 4 << 20)

    def test_a_plan_says_what_a_run_takes(self):
        engine = self.engine()
        plan = engine.plan(100)
        self.assertTrue(plan["fits"])
        self.assertGreater(engine.plan(200)["cache_bytes"], plan["cache_bytes"])
        self.assertGreater(plan["weight_bytes"], 0)
        self.assertIn("sampler", engine.describe())


if __name__ == "__main__":
    unittest.main()
