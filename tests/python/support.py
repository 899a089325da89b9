"""What the tests of the Python package share."""

import json
import os
import subprocess
import tempfile
import types
import unittest

import numpy as np

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

    def answered(self, *arguments):
        """What ng-run says of PROMPT in a line: ids, text, stop_reason ..."""
        line = run("ng-run", "--config", DEMO, "--prompt", PROMPT, "--output", "jsonl", *KEYS, *arguments)
        return types.SimpleNamespace(**json.loads(line))

    def saved(self, tensors, *arguments):
        """What ng-run saves of this run: {name: float32 array}."""
        path = os.path.join(self.folder, "saved.safetensors")
        run("ng-run", "--config", DEMO, "--prompt", PROMPT, *KEYS, *arguments,
            "--save", path, "--save-tensors", tensors)
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            body = file.read()
        header.pop("__metadata__", None)
        return {name: np.frombuffer(body[slice(*it["data_offsets"])], "<f4").reshape(it["shape"])
                for name, it in header.items()}

    def steer(self, point, vector, coefficient):
        """The keys of the probe steer."""
        path = os.path.join(self.folder, "vector.safetensors")
        header = json.dumps({"v": {"dtype": "F32", "shape": list(vector.shape),
                                   "data_offsets": [0, vector.nbytes]}}).encode()
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + vector.tobytes())
        return ["--probe.chain=steer", f"--probe.steer.points={point}", f"--probe.steer.file={path}",
                f"--probe.steer.coefficient={coefficient}"]
