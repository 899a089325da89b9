"""The examples of apps/python/README.md, as they are written and in their order."""

import contextlib
import io
import os
import re
import unittest

from support import SOURCE


class Readme(unittest.TestCase):
    def test_every_example_runs(self):
        os.chdir(SOURCE)
        with open("apps/python/README.md", encoding="utf-8") as page:
            examples = re.findall(r"^```python\n(.*?)^```", page.read(), re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(examples), 7)
        names = {}
        for example in examples:
            with self.subTest(example=example), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example, "README.md", "exec"), names)


if __name__ == "__main__":
    unittest.main()
