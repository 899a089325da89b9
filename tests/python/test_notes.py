"""What is said beside results: signatures, documentation, how objects look, warnings, the log, bars."""

import html.parser
import inspect
import io
import json
import logging
import os
import pathlib
import re
import sys
import typing
import unittest
import warnings
from unittest import mock

import numpy as np

import ng
from ng import _show
from ng._notes import Bar
from support import DEMO, GREEDY, KEYS, PROMPT, Test, run

UNREAD = {**GREEDY, "sampler.top_k.k": 3}  # a key that the chain does not read: a warning


class Help(Test):
    def public(self):
        """(name, object) of every public class, function and method."""
        for name in ng.__all__:
            thing = getattr(ng, name)
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            yield name, thing
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for of, method in inspect.getmembers(thing):
                    mine = getattr(method, "__module__", "") or ""
                    if not of.startswith("_") and mine.startswith("ng") and callable(method):
                        yield f"{name}.{of}", method

    def test_everything_public_has_documentation_and_types(self):
        names = []
        for name, thing in self.public():
            names.append(name)
            with self.subTest(name=name):
                self.assertTrue(inspect.getdoc(thing))
                typing.get_type_hints(thing)
        self.assertIn("Engine.hook", names)
        self.assertGreater(len(names), 60)

    def test_options_are_named_in_signatures_with_their_types(self):
        for name in ("generate", "generate_steps", "chat"):
            parameters = inspect.signature(getattr(ng.Engine, name)).parameters
            self.assertLessEqual(set(ng.GenerateOptions.__annotations__), set(parameters))
            self.assertIsNone(parameters["temperature"].default)
            self.assertIs(parameters["records"].default, False)
            self.assertFalse([p for p in parameters.values() if p.kind is p.VAR_KEYWORD])
            hints = typing.get_type_hints(getattr(ng.Engine, name))
            self.assertEqual((hints["top_k"], hints["records"]), (typing.Optional[int], bool))
            told = inspect.getdoc(getattr(ng.Engine, name))
            for option in ng.GenerateOptions.__annotations__:
                self.assertRegex(told, rf"(?m)^{option}: \S")
        self.assertIn("random_weights", inspect.signature(ng.Engine).parameters)
        bound = inspect.signature(self.engine().generate)
        self.assertEqual(next(iter(bound.parameters)), "prompt")

    def test_an_option_that_is_none_or_false_is_as_if_it_was_not_given(self):
        engine = self.engine()
        nothing = {name: parameter.default
                   for name, parameter in inspect.signature(engine.generate).parameters.items()
                   if parameter.kind is parameter.KEYWORD_ONLY}
        self.assertGreater(len(nothing), 25)
        self.assertEqual(engine.generate(PROMPT, **nothing).ids, engine.generate(PROMPT).ids)


class WellFormed(html.parser.HTMLParser):
    """Each tag that begins ends."""

    VOID = {"meta", "link", "br", "img", "input", "hr"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Looks(Test):
    def objects(self):
        engine = self.engine()
        done = engine.generate(PROMPT, 4, records=True, attention_map=True, points="layer0.out")
        other = self.engine({"cache.codec": "int8"})
        seen = {}
        stage = ng.Stage("see", lambda candidates: seen.update(candidates=candidates))
        with self.engine(stages=[stage]) as staged:
            staged.generate(PROMPT, 1, on_point={"embed": lambda rows: seen.update(rows=rows)})
        return [engine, done, done.steps[0], engine.forward(PROMPT, output_attentions=True),
                engine.eval(PROMPT, against=other), engine.plan(64), engine.view(PROMPT, 3),
                engine.diff(other, PROMPT, 2), engine.points[0], engine.open(64),
                engine.hook("embed", print), stage, ng.Probe("p", "embed", print),
                ng.Drafter("d", print), *seen.values()]

    def test_of_every_object_is_short_and_in_a_notebook_well_formed(self):
        n_tables = 0
        for thing in self.objects():
            with self.subTest(kind=type(thing).__name__):
                line = repr(thing)
                self.assertTrue(line.startswith(type(thing).__name__), line)
                self.assertLess(len(line), 200)
                self.assertNotIn("\n", line)
                self.assertNotIn(" at 0x", line)
                if hasattr(thing, "_repr_html_"):
                    n_tables += 1
                    parser = WellFormed()
                    parser.feed(thing._repr_html_())
                    self.assertEqual(parser.open, [])
        self.assertGreaterEqual(n_tables, 6)

    def test_of_attention_is_a_picture_of_where_it_is(self):
        engine = self.engine()
        done = engine.generate(PROMPT * 12, 1, attention_map=True)  # more queries than cells
        page = done._repr_html_()
        self.assertEqual(page.count("<svg"), engine.model["n_layers"])
        self.assertLess(len(page), 200_000)
        n = len(done.attention[0][0])
        self.assertGreater(n, 48)
        one = _show.picture(np.eye(3, dtype=np.float32), "eye")
        self.assertIn("d='M0 0h1v1h-1zM1 1h1v1h-1zM2 2h1v1h-1z'", one)

    def test_of_what_holds_markup_is_text(self):
        done = self.engine().generate(PROMPT, 1, grammar='root ::= "<script>x</script>"', max_tokens=None)
        done.text = "<script>x</script>"
        self.assertNotIn("<script>", done._repr_html_())


class Reports(Test):
    def test_of_an_evaluation_are_those_of_ng_eval(self):
        path = os.path.join(self.folder, "text.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROMPT * 30)
        line = json.loads(run("ng-eval", "--config", DEMO, *KEYS, "--text-file", path, "--window", "50",
                              "--against", "cache.codec=int8", "--output", "jsonl"))
        engine, other = self.engine(), self.engine({"cache.codec": "int8"})
        for text in (pathlib.Path(path), PROMPT * 30, engine.encode(PROMPT * 30)):
            told = engine.eval(text, against=other, window=50)
            for key in ("perplexity", "scored_tokens", "windows", "window"):
                self.assertEqual(told.figures[key], line[key])
            self.assertEqual(told.against["kl_p99"], line["against"]["kl_p99"])
        for bad, says in (([5], "at least 2"), ([[5, 6], [7]], "text 1")):
            with self.raises(ng.UsageError, says):
                engine.eval(bad)
        with self.raises(ng.LimitError, "window of 100000"):
            engine.eval(PROMPT, window=100000)
        with self.raises(ng.UsageError, "itself"):
            engine.eval(PROMPT, against=engine)
        self.assertEqual(len(engine.generate(PROMPT * 20, 2).answer_ids), 2)  # it goes on

    def test_of_a_plan_are_those_of_ng_plan(self):
        text = run("ng-plan", "--config", DEMO, *KEYS, "--prompt-tokens", "63", "--decode-tokens", "1")
        plan = ng.plan(DEMO, GREEDY, max_tokens=64)
        tables = str(plan).splitlines()
        for line in text.splitlines():
            if any(word in line for word in ("weights", "cache", "attention", "row ", "matrices", "131072")):
                self.assertIn(line, tables)
        self.assertEqual(plan["needed_bytes"], plan.report["bytes"]["needed"])

    def test_of_a_view_is_the_page_of_ng_run(self):
        path = os.path.join(self.folder, "page.html")
        run("ng-run", "--config", DEMO, *KEYS, "--prompt", PROMPT, "--view", path)
        view = self.engine().view(PROMPT)
        saved = os.path.join(self.folder, "saved.html")
        view.save(saved)

        def data(name):
            with open(name, encoding="utf-8") as file:
                return json.loads(re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", file.read(),
                                            re.DOTALL).group(1))

        ours, theirs = data(saved), data(path)
        for key in ("texts", "steps", "lens", "attention"):
            self.assertEqual(ours[key], theirs[key])
        with self.raises(ng.LimitError, "name fewer layers"):
            self.engine().view(PROMPT, most_bytes=100)

    def test_packed_weights_give_the_same(self):
        path = os.path.join(self.folder, "demo.ngw")
        engine = self.engine()
        engine.pack(path)
        self.assertEqual(self.engine({"model.packed": path}).generate(PROMPT).ids,
                         engine.generate(PROMPT).ids)


class Told(Test):
    def test_warnings_are_those_of_python_at_the_line_that_called(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ng.Engine(DEMO, UNREAD).close()
        self.assertEqual([one.category for one in told], [ng.EngineWarning])
        self.assertIn("top_k", str(told[0].message))
        self.assertEqual(told[0].filename, os.path.abspath(__file__))
        with warnings.catch_warnings():
            warnings.simplefilter("error", ng.EngineWarning)
            with self.assertRaises(ng.EngineWarning):
                ng.Engine(DEMO, UNREAD)
        lines = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ng.Engine(DEMO, UNREAD, warning=lines.append).close()
        self.assertEqual(len(lines), 1)

    def test_the_log_says_what_is_opened_and_closed(self):
        with self.assertLogs("ng", logging.INFO) as told:
            with ng.Engine(DEMO, GREEDY):
                pass
        self.assertEqual(len(told.output), 2)
        self.assertIn("opened Engine(", told.output[0])

    def test_a_bar_shows_what_is_asked_for_and_nothing_to_a_file(self):
        for asked, shows in ((None, False), (False, False), (True, True)):
            with mock.patch.object(sys, "stderr", io.StringIO()) as stream:
                with ng.Engine(DEMO, GREEDY, progress=asked) as engine:
                    engine.generate(PROMPT, 1)
                    engine.eval(PROMPT * 10)
            said = stream.getvalue()
            self.assertEqual("load" in said and "evaluate" in said and "100%" in said, shows)
            self.assertEqual(bool(said), shows)

    def test_a_function_is_told_of_progress_and_what_it_raises_comes_out(self):
        told = []
        with ng.Engine(DEMO, GREEDY, progress=lambda *of: told.append(of)) as engine:
            engine.eval(PROMPT * 10)
        self.assertEqual({phase for phase, _, _ in told}, {"load", "evaluate"})
        for phase in ("load", "evaluate"):
            done = [at for name, at, total in told if name == phase]
            self.assertEqual(done, sorted(done))
            self.assertEqual([(at, total) for name, at, total in told if name == phase][-1],
                             (done[-1], done[-1]))

        def fail(*of):
            raise KeyError("mine")

        with ng.Engine(DEMO, GREEDY, progress=fail) as engine:
            self.assertRaises(KeyError, engine.generate, PROMPT, 1)

    def test_a_bar_of_what_is_quick_is_not_shown(self):
        stream = io.StringIO()
        quick = Bar(stream, at_once=False)
        for done in range(11):
            quick("load", done, 10)
        self.assertEqual(stream.getvalue(), "")
        at_once = Bar(stream, at_once=True)
        for done in range(3):
            at_once("load", done, 2)
        self.assertEqual(stream.getvalue().count("\r"), 3)
        self.assertIn("100% |########################|", stream.getvalue())
        self.assertTrue(stream.getvalue().endswith("\n"))


class Errors(Test):
    def test_have_names_that_say_what_to_do(self):
        engine, other = self.engine(), self.engine()
        stream = engine.generate_steps(PROMPT, 4)
        next(stream)
        for call in (lambda: engine.forward(PROMPT), lambda: engine.hook("embed", print),
                     lambda: engine.eval(PROMPT), lambda: engine.view(PROMPT)):
            self.assertRaises(ng.CloseFirstError, call)
        stream.close()
        with engine.open(64) as sequence:
            for call in (lambda: engine.eval(PROMPT), lambda: engine.diff(other, PROMPT)):
                self.assertRaises(ng.CloseFirstError, call)
            view = sequence.prefill([5, 6], copy=False)
            self.assertRaises(ng.CloseFirstError, engine.generate, PROMPT, 1)
            del view
        self.assertRaises(ng.CallLaterError, engine.generate, PROMPT, 1,
                          on_point={"embed": lambda rows: engine.generate(PROMPT, 1)})
        self.assertRaises(ng.OpenAgainError, sequence.extend, [5])
        engine.close()
        self.assertRaises(ng.OpenAgainError, engine.generate, PROMPT)

    def test_are_those_of_python_too(self):
        for kind, of in ((ng.UsageError, ValueError), (ng.OutputError, OSError),
                         (ng.NumericError, ArithmeticError), (ng.UnsupportedError, NotImplementedError)):
            self.assertTrue(issubclass(kind, of) and issubclass(kind, ng.Error))
        self.assertRaises(ValueError, self.engine().generate, PROMPT, -1)
        with self.assertRaises(OSError) as raised:
            self.engine().generate(PROMPT, save_cache="/no/such/file")
        self.assertIn("/no/such/file", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
