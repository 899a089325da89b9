"""What the tests of the Python package share."""

import os
import subprocess
import tempfile
import unittest

import ng

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(SOURCE, "configs", "demo.ini")
BIN = os.environ["NG_BIN"]  # the folder of the programs
GREEDY = {"sampler.chain": "greedy", "run.max_new_tokens": 12, "run.stop_ids": ""}
KEYS = [f"--{key}={value}" for key, value in GREEDY.items()]
PROMPT = "To be, or not to be"


def run(program, *arguments):
    """A program's standard output. It must succeed, but for ng-diff's exit code 8."""
    done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, check=False)
    assert done.returncode in (0, 8), done.stderr.decode()
    return done.stdout.decode()


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def engine(self, overrides=None, **arguments):
        engine = ng.Engine(DEMO, {**GREEDY, **(overrides or {})}, **arguments)
        self.addCleanup(engine.close)
        return engine

    def raises(self, kind, *fragments):
        return self.assertRaisesRegex(kind, ".*".join(fragments))
