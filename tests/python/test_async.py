"""Requests in flight: side by side with the ids of each alone, for threads and for asyncio."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np

import ng
from ng import _requests
from support import DEMO, GREEDY, PROMPT, Test

PROMPTS = [PROMPT, "Good morrow", "My lord", "What say you"]

# What threads do when the program ends.
AT_EXIT = """
import itertools, sys, threading
import ng
engine, other = [
    ng.Engine(sys.argv[1], {"sampler.chain": "greedy", "run.stop_ids": "", "run.threads": 1},
              stages=[ng.Stage("looks", lambda candidates: None)]) for _ in range(2)]
begun = threading.Event()
def waits():
    begun.set()
    while True:
        engine.generate("To be", 200)
def submits():
    while True:
        for step in engine.submit(["To be"] * 3, 200):
            begun.set()
def encodes():
    tokenizer = engine.tokenizer
    while True:
        tokenizer.encode("To be " * 1000)
        begun.set()
def opens():
    while True:
        ng.Engine(sys.argv[1])
        begun.set()
def nests():  # half of them: what the engine calls computes with the other one, or waits for it
    def calls(rows):
        begun.set()
        other.generate("To be", 200)
    nested = next(numbers) % 2 == 0
    while True:
        if nested:
            engine.generate("To be", 200, on_point={"embed": calls})
        else:
            other.generate("To be", 200)
numbers = itertools.count()
kind = {"waits": waits, "submits": submits, "encodes": encodes, "opens": opens, "nests": nests}[
    sys.argv[2]]
for _ in range(4):
    threading.Thread(target=kind, daemon=True).start()
begun.wait()
"""


def together(*calls):
    """What each of these calls gives, on a thread of its own."""
    given = [None] * len(calls)

    def work(i):
        try:
            given[i] = calls[i]()
        except BaseException as error:  # pylint: disable=broad-except
            given[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


class Gate:
    """A stage that holds the engine in its first step until it is opened."""

    def __init__(self):
        self.reached, self.open = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, candidates):
        self.calls += 1
        self.reached.set()
        self.open.wait()


class Threads(Test):
    def test_that_generate_at_once_are_all_answered(self):
        engine = self.engine()
        want = [engine.generate(prompt).ids for prompt in PROMPTS]
        done = together(*[lambda p=p: engine.generate(p).ids for p in PROMPTS * 2])
        self.assertEqual(done, want * 2)

    def test_that_use_it_in_other_ways_wait_too(self):
        engine = self.engine()
        ids = engine.encode(PROMPT)
        with engine.open() as sequence:
            logits = sequence.prefill(ids)
        want = engine.generate(PROMPT).ids

        def feeds():
            with engine.open() as own:
                return own.prefill(ids)

        done = together(feeds, lambda: engine.generate(PROMPT).ids, feeds, engine.reports,
                        lambda: engine.submit(PROMPT).result().ids, lambda: engine.plan(10)["fits"])
        for rows in (done[0], done[2]):
            np.testing.assert_array_equal(rows, logits)
        self.assertEqual((done[1], done[3], done[4], done[5]), (want, [], want, True))

    def test_that_wait_for_each_others_engines_are_refused(self):
        a, b = self.engine(), self.engine()
        want = a.generate(PROMPT, 2).ids
        in_a, in_b = threading.Event(), threading.Event()

        def look(own, other, engine):
            def call(_):
                own.set()
                other.wait()  # both are at work now
                engine.generate(PROMPT, 1)
            return call

        done = together(lambda: a.generate(PROMPT, 2, on_point={"embed": look(in_a, in_b, b)}),
                        lambda: b.generate(PROMPT, 2, on_point={"embed": look(in_b, in_a, a)}))
        refused = [each for each in done if isinstance(each, ng.UsageError)]
        self.assertGreaterEqual(len(refused), 1, done)
        self.assertIn("one of them must not", str(refused[0]))
        self.assertEqual([each.ids for each in done if isinstance(each, ng.Completion)],
                         [want] * (2 - len(refused)))

    def test_close_ends_what_another_one_computes(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])

        def closes():
            gate.reached.wait()
            threading.Timer(0.05, gate.open.set).start()
            engine.close()

        done = together(lambda: engine.generate(PROMPT, 200), closes)
        ended = done[0].stop_reason if isinstance(done[0], ng.Completion) else str(done[0])
        self.assertRegex(ended, "interrupted")
        self.assertIsNone(done[1])
        with self.raises(ng.UsageError, "closed"):
            engine.generate(PROMPT)

    def test_that_wait_are_ended_by_ctrl_c(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])
        done = []
        other = threading.Thread(target=lambda: done.append(engine.generate(PROMPT, 3)))
        other.start()
        gate.reached.wait()
        press = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        press.start()
        with self.assertRaises(KeyboardInterrupt):
            engine.generate(PROMPT)  # nobody opens the gate
        press.join()
        gate.open.set()
        other.join()
        self.assertEqual(engine.generate(PROMPT, 3).ids, done[0].ids)

    def test_cancel_a_stream_of_another_one(self):
        engine = self.engine()
        whole = engine.generate(PROMPT, 200)
        stream = engine.generate_steps(PROMPT, 200)
        steps = []
        for step in stream:
            steps.append(step.token)
            if len(steps) == 5:
                together(stream.cancel)
        self.assertEqual(stream.completion.stop_reason, "interrupted")
        answer = stream.completion.answer_ids
        self.assertEqual(steps, whole.answer_ids[:5])
        self.assertEqual(answer, whole.answer_ids[:len(answer)])
        self.assertLess(len(answer), 200)
        self.assertEqual(engine.generate(PROMPT, 5).answer_ids, steps)

    def test_may_fork_a_process_that_says_why_it_cannot_go_on(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])
        request = engine.submit(PROMPT)
        gate.reached.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for call in (lambda: engine.generate(PROMPT), request.result):
                    try:
                        call()
                    except ng.UsageError as error:
                        code = 0 if "forked" in str(error) else 2
                    if code != 0:
                        break
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        gate.open.set()
        self.assertEqual(len(request.result().answer_ids), 12)


class Requests(Test):
    def test_run_side_by_side_with_the_ids_of_each_alone(self):
        keys = {"sampler.chain": "temperature", "sampler.temperature.value": 0.9}
        engine = self.engine(keys)
        want = [engine.generate(prompt).ids for prompt in PROMPTS]
        requests = [engine.submit(prompt) for prompt in PROMPTS]
        self.assertEqual([request.result().ids for request in requests], want)
        several = engine.submit(PROMPTS, n=2)
        self.assertEqual([[one.ids for one in each] for each in several.result()],
                         [[one.ids for one in each] for each in engine.generate(PROMPTS, n=2)])
        self.assertEqual(engine.submit([]).result(), [])

    def test_come_step_by_step(self):
        engine = self.engine()
        whole = engine.generate(PROMPT, records=True, logprobs=3)
        request = engine.submit(PROMPT, records=True, logprobs=3)
        steps = list(request)
        self.assertEqual(steps, whole.steps)
        self.assertEqual(request.completion.steps, whole.steps)
        self.assertEqual("".join(step.text for step in steps), whole.text)
        self.assertTrue(request.done())

    def test_are_cancelled_and_say_what_there_was(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])
        first = engine.submit(PROMPT, 200)
        gate.reached.wait()
        other = engine.submit(PROMPT, 4)
        with self.assertRaises(TimeoutError):
            first.result(timeout=0.01)
        with self.raises(ng.UsageError, "has not ended"):
            first.completion
        first.cancel()
        gate.open.set()
        done = first.result()
        self.assertEqual(done.stop_reason, "interrupted")
        self.assertLess(len(done.answer_ids), 200)
        self.assertEqual(len(other.result().answer_ids), 4)
        first.cancel()  # does nothing
        self.assertEqual(first.result().ids, done.ids)

    def test_that_are_forgotten_end(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])
        engine.submit(PROMPT, 200)
        gate.open.set()
        gc.collect()
        self.assertEqual(len(engine.generate(PROMPT, 3).answer_ids), 3)
        self.assertLess(gate.calls, 200)

    def test_with_errors_of_their_own_end_alone(self):
        def fails(candidates):
            if candidates.tokens[0] == 5:
                raise KeyError("mine")
            if candidates.tokens[0] == 6:
                raise StopIteration

        engine = self.engine(stages=[ng.Stage("fails", fails)])
        requests = [engine.submit(ids, 3) for ids in ([7, 8, 9], [5, 8, 9], [6, 8, 9], [5, 9])]
        wrong = engine.submit([7, 8], 3, settings={"sampler.chain": "nothing"})
        self.assertEqual(requests[0].result().ids, engine.generate([7, 8, 9], 3).ids)
        for ill in (requests[1], requests[3], engine.submit([[7, 8], [5, 7]], 3)):
            with self.raises(KeyError, "mine"):
                ill.result()
        with self.raises(RuntimeError, "StopIteration"):
            requests[2].result()
        with self.raises(RuntimeError, "StopIteration"):
            list(engine.submit([6, 7], 3))
        with self.raises(ng.Error, "nothing"):
            wrong.result()
        self.assertEqual(len(engine.generate([7, 8], 1).answer_ids), 1)

    def test_refuse_what_needs_the_engine_alone(self):
        engine = self.engine()
        for word in ("points", "on_point", "attention", "logits", "stages", "logits_hash"):
            with self.raises(ng.UsageError, word, "generate"):
                engine.submit(PROMPT, **{word: {"embed": print} if word == "on_point" else ["embed"]})
        with self.raises(ng.LimitError, "10000"):
            engine.submit(PROMPT, 10000)
        with self.raises(TypeError, "recrods"):
            engine.submit(PROMPT, recrods=True)
        stream = engine.generate_steps(PROMPT)
        next(stream)
        with self.raises(ng.UsageError, "generate_steps is open", r"close\(\)"):
            engine.submit(PROMPT)
        stream.close()
        self.assertEqual(len(engine.submit(PROMPT, 2).result().answer_ids), 2)

    def test_longer_than_what_was_loaded_are_answered(self):
        engine = self.engine(max_tokens=20, max_sequences=1)
        short = engine.submit("To", 4)
        long = engine.submit(PROMPT, 100, prompt_logprobs=0)
        self.assertEqual(len(short.result().answer_ids), 4)
        self.assertEqual(long.result().ids, engine.generate(PROMPT, 100).ids)

    def test_go_with_open_sequences(self):
        engine = self.engine()
        with engine.open() as sequence:
            sequence.prefill(engine.encode(PROMPT))
            self.assertEqual(engine.submit(PROMPT).result().ids, engine.generate(PROMPT).ids)
            other = engine.open()
            np.testing.assert_array_equal(sequence.decode_step(5),
                                          other.prefill(engine.encode(PROMPT) + [5]))

    def test_end_when_the_engine_is_closed(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])
        request = engine.submit(PROMPT, 200)
        gate.reached.wait()
        threading.Timer(0.05, gate.open.set).start()
        engine.close()
        self.assertEqual(request.result().stop_reason, "interrupted")
        with self.raises(ng.UsageError, "closed"):
            engine.submit(PROMPT)

    def test_end_when_it_was_closed_before_they_began(self):
        begins = threading.Event()
        work = _requests.Flight._work
        with mock.patch.object(_requests.Flight, "_work", lambda flight: (begins.wait(), work(flight))):
            engine = self.engine()
            request, forgotten = engine.submit(PROMPT), engine.submit(PROMPT)
            engine.close()
            request.cancel()
            forgotten.__del__()  # what the collector does
            self.assertFalse(request.done())
            begins.set()
            with self.raises(ng.OpenAgainError, "closed"):
                request.result()

    def test_wait_for_their_turn_beside_others(self):
        engine = self.engine()
        want = engine.generate(PROMPT).ids
        calls = [lambda: engine.generate(PROMPT).ids, lambda: engine.submit(PROMPT).result().ids] * 4
        self.assertEqual(together(*calls), [want] * 8)


class Asyncio(Test):
    def test_generates_side_by_side(self):
        engine = self.engine()
        want = [engine.generate(prompt).ids for prompt in PROMPTS]

        async def main():
            return await asyncio.gather(*[engine.agenerate(prompt) for prompt in PROMPTS * 2])

        self.assertEqual([done.ids for done in asyncio.run(main())], want * 2)

        async def many():
            return await engine.agenerate(PROMPTS, 3, n=2)

        self.assertEqual([[one.ids for one in each] for each in asyncio.run(many())],
                         [[one.ids for one in each] for each in engine.generate(PROMPTS, 3, n=2)])

    def test_streams(self):
        engine = self.engine()
        want = engine.generate(PROMPT, records=True)

        async def read():
            stream = engine.astream(PROMPT, records=True)
            steps = [step async for step in stream]
            return steps, (await stream).ids

        async def main():
            return await asyncio.gather(read(), read())

        for steps, ids in asyncio.run(main()):
            self.assertEqual((steps, ids), (want.steps, want.ids))

    def test_cancelled_tasks_cancel(self):
        gate = Gate()
        engine = self.engine(stages=[ng.Stage("gate", gate)])

        async def main():
            task = asyncio.create_task(engine.agenerate(PROMPT, 200))
            stream = engine.astream(PROMPT, 200)
            while not gate.reached.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(stream.__anext__(), 0.01)
            gate.open.set()
            done = await stream
            self.assertEqual(done.stop_reason, "interrupted")
            async for _ in engine.astream(PROMPT, 200):
                break
            return await engine.agenerate(PROMPT, 3)

        self.assertEqual(len(asyncio.run(main()).answer_ids), 3)

    def test_errors_come_out_of_the_await(self):
        def fails(candidates):
            raise KeyError("mine")

        engine = self.engine(stages=[ng.Stage("fails", fails)])

        async def main():
            with self.raises(KeyError, "mine"):
                await engine.agenerate(PROMPT)
            with self.raises(KeyError, "mine"):
                async for _ in engine.astream(PROMPT):
                    pass
            with self.raises(ng.UsageError, "points"):
                await engine.agenerate(PROMPT, points="embed")

        asyncio.run(main())


class Logprobs(Test):
    def test_are_those_of_the_logits(self):
        engine = self.engine()
        done = engine.generate(PROMPT, 4, logprobs=5, prompt_logprobs=3, logits=True, decode_logits=True)

        def logs(row):
            row = row.astype(np.float64)
            return row - row.max() - np.log(np.exp(row - row.max()).sum())

        for step, row in zip(done.steps, done.decode_logits):
            want = logs(row)
            self.assertAlmostEqual(step.logprob, want[step.token], places=6)
            self.assertEqual([token for token, _ in step.logprobs], np.argsort(-want, kind="stable")[:5].tolist())
            self.assertIsNone(step.entropy)
        self.assertEqual(len(done.prompt_logprobs), done.prompt_len)
        self.assertIsNone(done.prompt_logprobs[0])
        for i in range(1, done.prompt_len):
            want, given = logs(done.logits[i - 1]), done.prompt_logprobs[i]
            self.assertEqual(given.token, done.ids[i])
            self.assertAlmostEqual(given.logprob, want[given.token], places=6)
            self.assertEqual([token for token, _ in given.top], np.argsort(-want, kind="stable")[:3].tolist())
        self.assertEqual(engine.submit(PROMPT, 4, prompt_logprobs=3).result().prompt_logprobs,
                         done.prompt_logprobs)
        self.assertEqual(engine.generate(PROMPT, 0, prompt_logprobs=True).prompt_logprobs[1].top, [])
        with self.raises(ng.UsageError, "logprobs = -1"):
            engine.generate(PROMPT, 1, logprobs=-1)
        self.assertIsNone(engine.generate(PROMPT, 1).prompt_logprobs)

    def test_logits_of_a_step_are_those_that_chose_it(self):
        engine = self.engine()
        prompts = [PROMPT, "Good morrow"]
        want = [done.decode_logits for done in engine.generate(prompts, 5, decode_logits=True)]
        n = 0
        for step in engine.generate_steps(prompts, 5, logits=True, on_point={"embed": lambda rows: None}):
            np.testing.assert_array_equal(step.logits, want[step.request][step.step])
            n += 1
        self.assertEqual(n, 10)
        self.assertIsNone(next(engine.generate_steps(PROMPT, 5)).logits)

    def test_logits_of_a_step_with_a_drafter_too(self):
        engine = self.engine({"drafter.adapt": False},
                             drafter=ng.Drafter("same", lambda tokens, most: [int(tokens[-1])] * most))
        want = self.engine().generate(PROMPT, 8, decode_logits=True).decode_logits
        for step in engine.generate_steps(PROMPT, 8, logits=True):
            np.testing.assert_array_equal(step.logits, want[step.step])


class Ends(Test):
    def test_a_program_ends_whatever_its_threads_do(self):
        for kind in ("waits", "submits", "encodes", "opens", "nests"):
            for _ in range(2):
                done = subprocess.run([sys.executable, "-c", AT_EXIT, DEMO, kind],
                                      stderr=subprocess.PIPE, timeout=120, check=False)
                with self.subTest(kind=kind):
                    self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_three_hundred_engines_in_circles_leave_nothing(self):
        class Study:
            def __init__(self):
                self.engine = ng.Engine(DEMO, {**GREEDY, "run.threads": 1},
                                        probes=[ng.Probe("study", "layer0.out", self.see)])
                self.request = self.engine.submit("To be", 1)

            def see(self, rows):
                del rows

        def resident():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def studies(n):
            for _ in range(n):
                study = Study()
                study.request.result()
                del study
                gc.collect()

        count = int(os.environ.get("NG_TEST_ENGINES", "20"))
        studies(10)
        before = resident()
        studies(count)
        after = resident()
        if "NG_TEST_ENGINES" in os.environ:
            print(f"{count} engines: resident {before >> 10} KiB before, {after >> 10} KiB behind")
        self.assertLess(after - before, 8 << 20)


if __name__ == "__main__":
    unittest.main()
