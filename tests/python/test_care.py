"""Nothing silently wrong, nothing that crashes or is lost: what a notebook may ask by mistake."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import unittest
import weakref

import numpy as np

import ng
from support import DEMO, GREEDY, PROMPT, Test

# A thread that computes when the program ends.
AT_EXIT = """
import sys, threading, time
import ng
engine = ng.Engine(sys.argv[1], {"sampler.chain": "greedy", "run.stop_ids": "", "run.threads": 1},
                   stages=[ng.Stage("looks", lambda candidates: None)] if sys.argv[2] == "1" else [])
def work():
    while True:
        engine.generate("To be", 200)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


class Asked(Test):
    def test_heads_and_layers_in_any_order_are_themselves(self):
        engine = self.engine()
        whole = engine.generate(PROMPT, 2, attention_map=True, attention=True)
        last = max(whole.attention)
        done = engine.generate(PROMPT, 2, attention_map=True, attention=True, heads=[2, 0, 2],
                               layers=[last, 0, 0])
        self.assertEqual(sorted(done.attention), [0, last])
        for layer in (0, last):
            np.testing.assert_array_equal(done.attention[layer], whole.attention[layer][[0, 2]])
            np.testing.assert_array_equal(done.steps[1].attention[layer],
                                          whole.steps[1].attention[layer][[0, 2]])

    def test_texts_in_lists_are_these_texts(self):
        engine = self.engine()
        text = engine.generate(PROMPT, 60).text
        found = [stop for stop in ("\n", " ", text[8:11], ",") if stop in text]
        self.assertGreaterEqual(len(found), 3)
        for stop in found:
            done = engine.generate(PROMPT, 60, settings={
                "sampler.chain": ["greedy", "stop_texts"], "sampler.stop_texts.texts": [stop]})
            self.assertEqual((done.text, done.stop_reason), (text[:text.index(stop)], "stop_text"))
        done = engine.generate(PROMPT, 60, settings={
            "sampler.chain": ["greedy", "stop_texts"],
            "sampler.stop_texts.texts": [f"{text[0]}, {text[0]}", "\\n"]})
        self.assertEqual((done.text, done.stop_reason), (text, "max_new_tokens"))

    def test_values_that_no_config_has_are_refused(self):
        engine = self.engine()
        for value in (None, {"a": 1}, b"x"):
            with self.raises(TypeError, "sampler.seed: a value must be"):
                engine.generate(PROMPT, 1, settings={"sampler.seed": value})
        self.assertEqual(engine.generate(PROMPT, 2, settings={"sampler.seed": np.int64(5)}).ids,
                         engine.generate(PROMPT, 2).ids)

    def test_prompts_within_prompts_are_refused(self):
        for prompts in ([["a", "b"], ["c"]], [[[5, 6]], [[7]]]):
            with self.assertRaises(TypeError):
                self.engine().generate(prompts, 1)

    def test_no_prompts_have_no_answers(self):
        engine = self.engine()
        self.assertEqual(engine.generate([]), [])
        steps = engine.generate_steps([])
        self.assertEqual((list(steps), steps.completion), ([], []))

    def test_max_new_tokens_is_a_whole_number_from_0(self):
        engine = self.engine()
        with self.raises(ng.UsageError, "max_new_tokens = -1"):
            engine.generate(PROMPT, -1)
        for value in (2.7, "3"):
            with self.assertRaises(TypeError):
                engine.generate(PROMPT, value)
        self.assertEqual(len(engine.generate(PROMPT, np.int32(3)).answer_ids), 3)

    def test_what_was_not_computed_is_none(self):
        engine = self.engine()
        step = next(engine.generate_steps(PROMPT, 1))
        self.assertEqual((step.logprob, step.entropy, step.logits_hash), (None, None, None))
        with self.engine() as other:
            step = other.generate(PROMPT, 1, records=True, logits_hash=True).steps[0]
            self.assertLess(step.logprob, 0)
            self.assertIsInstance(step.logits_hash, int)

    def test_logits_that_a_stage_assigns_count(self):
        def only_77(candidates):
            candidates.logits = np.where(candidates.ids == 77, 0.0, -np.inf)

        engine = self.engine(stages=[ng.Stage("only_77", only_77)])
        self.assertEqual(engine.generate(PROMPT, 3).answer_ids, [77] * 3)

    def test_what_a_part_leaves_has_the_shape_that_it_was_given(self):
        def shorter(candidates):
            candidates.logits = candidates.logits[1:]

        def none(rows):
            rows.values = rows.values[:0]

        with self.raises(ng.PluginError, "sampler 'shorter' left an array of shape"):
            self.engine(stages=[ng.Stage("shorter", shorter)]).generate(PROMPT, 1)
        with self.raises(ng.PluginError, "probe 'none_left' left an array of shape"):
            self.engine(probes=[ng.Probe("none_left", "layer0.out", none, edits=True)]).generate(
                PROMPT, 1)


class Kept(Test):
    def raising(self, at, error):
        """An engine, and a stream of it whose callback raises in the step `at`."""
        calls = []

        def look(rows):
            calls.append(rows)
            if len(calls) == at:
                raise error

        engine = self.engine()
        return engine, engine.generate_steps(PROMPT, 8, on_point={"layer0.out": look})

    def test_the_answer_so_far_is_there_after_an_error(self):
        engine, stream = self.raising(4, ZeroDivisionError())
        with self.assertRaises(ZeroDivisionError):
            list(stream)
        self.assertEqual(stream.completion.stop_reason, "error")
        self.assertEqual(stream.completion.answer_ids, engine.generate(PROMPT, 3).answer_ids)

    def test_the_answer_so_far_is_there_after_ctrl_c(self):
        seen = []

        def look(rows):
            seen.append(rows)
            if len(seen) == 4:
                signal.raise_signal(signal.SIGINT)

        engine = self.engine()
        stream = engine.generate_steps(PROMPT, 8, on_point={"layer0.out": look})
        with self.assertRaises(KeyboardInterrupt):
            list(stream)
        self.assertIn(stream.completion.stop_reason, ("interrupted", "error"))
        n = len(stream.completion.answer_ids)
        self.assertGreaterEqual(n, 3)
        self.assertEqual(stream.completion.answer_ids, engine.generate(PROMPT, n).answer_ids)

    def test_stop_iteration_of_a_callback_is_no_end(self):
        _, stream = self.raising(3, StopIteration())
        with self.raises(RuntimeError, "StopIteration"):
            list(stream)

    def test_a_stream_keeps_its_sequence(self):
        engine = self.engine()
        expected = engine.generate(PROMPT, 4).ids
        stream = engine.generate_steps(PROMPT, 4, sequence=engine.open(64))
        gc.collect()
        list(stream)
        self.assertEqual(stream.completion.ids, expected)

    def test_a_sequence_twice_in_a_step_changes_nothing(self):
        engine = self.engine()
        with engine.open(64) as one:
            one.prefill(engine.encode(PROMPT))
            before = one.ids
            with self.raises(ng.UsageError, "is there twice"):
                engine.decode_step([one, one], [5, 6])
            with self.raises(ng.UsageError, "is there twice"):
                engine.extend([one, one], [[5], [6]])
            self.assertEqual(one.ids, before)
            one.decode_step(5)

    def test_an_error_in_a_with_block_is_the_one_that_is_seen(self):
        with self.assertRaises(ZeroDivisionError):
            with ng.Engine(DEMO, GREEDY) as engine:
                stream = engine.generate_steps(PROMPT, 8)
                next(stream)
                raise ZeroDivisionError
        self.assertEqual(stream.completion.stop_reason, "interrupted")
        self.assertEqual(len(stream.completion.answer_ids), 1)
        with self.raises(ng.UsageError, "the engine is closed"):
            engine.generate(PROMPT)

    def test_a_run_beside_a_stream_is_refused_with_the_way_out(self):
        engine = self.engine()
        stream = engine.generate_steps(PROMPT, 8)
        next(stream)
        with self.raises(ng.UsageError, "generate_steps is open", r"close\(\)"):
            engine.generate(PROMPT, 1)
        stream.close()
        engine.generate(PROMPT, 1)

    def test_sequences_and_engines_are_not_copied(self):
        engine = self.engine()
        with engine.open(64) as sequence:
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.raises(TypeError, "fork"):
                    make(sequence)
                with self.raises(TypeError, "second one"):
                    make(engine)
            gc.collect()
            sequence.prefill([5, 6])


class Ends(Test):
    def test_an_engine_in_a_circle_with_its_part_is_freed(self):
        class Study:
            def __init__(self):
                self.engine = ng.Engine(DEMO, GREEDY, probes=[ng.Probe("study", "layer0.out", self.see)],
                                        warning=self.warn)

            def see(self, rows):
                del rows

            def warn(self, line):
                del line

        gone = []
        for _ in range(3):
            study = Study()
            study.engine.generate(PROMPT, 1)
            weakref.finalize(study.engine, gone.append, 1)
            del study
        gc.collect()
        self.assertEqual(len(gone), 3)

    def test_a_program_ends_while_a_thread_computes(self):
        for with_stage in ("0", "1"):
            for _ in range(4):
                done = subprocess.run([sys.executable, "-c", AT_EXIT, DEMO, with_stage],
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))

    def test_a_forked_child_of_a_thread_that_computes_ends(self):
        script = ("import os, sys, ng\n"
                  "def look(c):\n"
                  "    child = os.fork()\n"
                  "    if child == 0: sys.exit(0)\n"
                  "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
                  "ng.Engine(sys.argv[1], {'sampler.chain': 'greedy', 'run.threads': 1},\n"
                  "          stages=[ng.Stage('forks', look)]).generate('To be', 2)\n")
        done = subprocess.run([sys.executable, "-c", script, DEMO], stderr=subprocess.PIPE, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))


if __name__ == "__main__":
    unittest.main()
