"""Ctrl-C: KeyboardInterrupt, soon, and an engine that can be used again."""

import os
import random
import signal
import threading
import time
import unittest

import ng
from support import PROMPT, Test

MOMENTS = int(os.environ.get("NG_TEST_MOMENTS", "5"))


class Interrupt(Test):
    def press(self, seconds):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        self.addCleanup(timer.join)

    def test_at_random_moments_stops_a_run_and_nothing_else(self):
        engine = self.engine({"run.stop_ids": ""})
        want = engine.generate(PROMPT, 5).ids
        moments = random.Random(os.environ.get("NG_TEST_SEED", "1"))
        for i in range(MOMENTS):
            self.press(moments.uniform(0.005, 0.1))
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                while time.monotonic() - begin < 20:
                    if i % 2 == 0:
                        engine.generate(PROMPT, 200)
                    else:
                        for _ in engine.generate_steps(PROMPT, 200):
                            pass
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(engine.generate(PROMPT, 5).ids, want)

    def test_in_a_callable_stops_the_run(self):
        engine = self.engine()
        with self.assertRaises(KeyboardInterrupt):
            engine.generate(PROMPT, on_point={
                "layer0.out": lambda _: (os.kill(os.getpid(), signal.SIGINT), time.sleep(1))})
        self.assertEqual(len(engine.generate(PROMPT, 2).answer_ids), 2)

    def test_with_a_handler_that_raises_nothing_gives_the_answer_so_far(self):
        pressed = []
        before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
        self.addCleanup(signal.signal, signal.SIGINT, before)
        engine = self.engine({"run.stop_ids": ""})
        tokens = []

        def press(rows):
            tokens.extend(rows.tokens)
            if len(rows.tokens) == 1:
                os.kill(os.getpid(), signal.SIGINT)

        done = engine.generate(PROMPT, 100, on_point={"embed": press})
        self.assertEqual(done.stop_reason, "interrupted")
        self.assertLess(len(done.answer_ids), 100)
        self.assertTrue(pressed)
        with engine.open() as sequence:  # and a step says so
            with self.raises(ng.StoppedError, ""):
                engine2 = self.engine(probes=[ng.Probe("press", "embed", lambda _: os.kill(
                    os.getpid(), signal.SIGINT))])
                engine2.open().prefill([1, 2, 3])
            self.assertEqual(len(sequence), 0)
        self.assertIsNot(signal.getsignal(signal.SIGINT), before)  # the handler is still there


if __name__ == "__main__":
    unittest.main()
