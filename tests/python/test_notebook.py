"""The cells of apps/python/researcher.ipynb, in their order, as a notebook runs them."""

import ast
import contextlib
import io
import json
import os
import unittest

from support import SOURCE


class Notebook(unittest.TestCase):
    def test_every_cell_runs(self):
        os.chdir(SOURCE)
        with open("apps/python/researcher.ipynb", encoding="utf-8") as file:
            notebook = json.load(file)
        names, acts, shown = {}, 0, []
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            acts += source.startswith("## ")
            if cell["cell_type"] != "code":
                continue
            self.assertEqual(cell["outputs"], [])
            parts = ast.parse(source)
            last = parts.body.pop() if isinstance(parts.body[-1], ast.Expr) else None
            with self.subTest(cell=source), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(parts, "researcher.ipynb", "exec"), names)
                if last is not None:
                    shown.append(eval(compile(ast.Expression(last.value), "researcher.ipynb", "eval"), names))
                    getattr(shown[-1], "_repr_html_", lambda: "")()
        self.assertEqual(acts, 10)
        self.assertIn("<svg", "".join(thing._repr_html_() for thing in shown
                                      if hasattr(thing, "_repr_html_") and thing is not shown[0]))


if __name__ == "__main__":
    unittest.main()
