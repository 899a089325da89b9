#!/usr/bin/env python3
"""Judges texts by random grammars, with ng and without it.

    python3 tests/grammar/random_suites.py build/bin/schema_suite              # the long form
    python3 tests/grammar/random_suites.py build/bin/schema_suite --quick      # the tests'

Makes random JSON schemas, regular expressions and GBNF grammars with random texts for each, and asks
python3-jsonschema, python3-regex and gbnf.py which of them match. schema_suite compares that with what
the stage `grammar` allows. Exits 1 where they differ, and where too many grammars were refused for the
rest to mean much; 77 where a module is missing. A seed makes the same grammars again.
"""
import argparse
import importlib.metadata
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import regex
except ImportError as error:
    print(f"needs the Debian packages python3-jsonschema and python3-regex: {error}")
    sys.exit(77)

import gbnf

# Without 0 and 1, which are False and True to Python.
SCALARS = (None, True, False, 2, 3, 4, -1, 6, 0.5, 2.5, "", "a", "b", "ab", "ba", "abc")
NAMES = ("a", "b", "ab", "c")
PATTERNS = ("a", "^a", "b$", "^(a|b)*$", "^[^b]+$", "^.{2}$")
# Before that python3-jsonschema fails on unevaluated... of mixed values, or judges them otherwise.
HAS_UNEVALUATED = tuple(map(int, importlib.metadata.version("jsonschema").split(".")[:2])) >= (4, 20)
TYPES = ("null", "boolean", "string", "integer", "number", "array", "object")


class Schemas:
    """Random schemas, and values that come near to what they say."""

    def __init__(self, rng):
        self.rng = rng
        self.references = ()

    def value(self, depth=2):
        kind = self.rng.random()
        if depth == 0 or kind < 0.5:
            return self.rng.choice(SCALARS)
        if kind < 0.75:
            return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        return {name: self.value(depth - 1)
                for name in self.rng.sample(NAMES, self.rng.randrange(4))}

    def names(self, most=3):
        return self.rng.sample(NAMES, self.rng.randrange(1, most + 1))

    def schema(self, depth):
        if depth == 0 or self.rng.random() < 0.15:
            return self.rng.choice((True, False, {"type": self.rng.choice(TYPES)},
                                    {"const": self.value(1)},
                                    {"enum": [self.value(1) for _ in range(3)]}))
        made = {}
        for _ in range(self.rng.choice((1, 1, 2, 2, 3))):
            made.update(self.rng.choice((self.about_scalars, self.about_arrays, self.about_objects,
                                         self.combined))(depth - 1))
        return made

    def about_scalars(self, depth):
        rng = self.rng
        return rng.choice((
            lambda: {"type": rng.sample(TYPES, rng.randrange(1, 3))},
            lambda: {"const": self.value(2)},
            lambda: {"enum": [self.value(depth) for _ in range(rng.randrange(1, 5))]},
            lambda: {rng.choice(("minimum", "exclusiveMinimum")): rng.choice((-1, 0, 0.5, 2))},
            lambda: {rng.choice(("maximum", "exclusiveMaximum")): rng.choice((0, 1, 2.5, 3))},
            lambda: {"multipleOf": rng.choice((2, 3, 0.5))},
            lambda: {"minLength": rng.randrange(3)},
            lambda: {"maxLength": rng.randrange(3)},
            lambda: {"pattern": rng.choice(PATTERNS)}))()

    def about_arrays(self, depth):
        rng = self.rng
        return rng.choice((
            lambda: {"items": self.schema(depth)},
            lambda: {"prefixItems": [self.schema(depth) for _ in range(rng.randrange(1, 3))]},
            lambda: {"prefixItems": [self.schema(depth)], "items": self.schema(depth)},
            lambda: {"contains": self.schema(depth)},
            lambda: {"contains": self.schema(depth), "minContains": rng.randrange(3),
                     "maxContains": rng.randrange(3)},
            lambda: {"minItems": rng.randrange(3)},
            lambda: {"maxItems": rng.randrange(3)},
            lambda: {"uniqueItems": True, "items": {"enum": list(rng.sample(SCALARS, 4))}},
            lambda: {"unevaluatedItems": self.schema(depth)} if HAS_UNEVALUATED else {}))()

    def about_objects(self, depth):
        rng = self.rng
        return rng.choice((
            lambda: {"properties": {name: self.schema(depth) for name in self.names()}},
            lambda: {"properties": {name: self.schema(depth) for name in self.names(2)},
                     "additionalProperties": rng.choice((False, self.schema(depth)))},
            lambda: {"patternProperties": {rng.choice(PATTERNS): self.schema(depth)}},
            lambda: {"required": self.names(2)},
            lambda: {"propertyNames": self.schema(depth)},
            lambda: {"minProperties": rng.randrange(2)},
            lambda: {"maxProperties": rng.randrange(3)},
            lambda: {"dependentRequired": {rng.choice(NAMES): self.names(2)}},
            lambda: {"dependentSchemas": {rng.choice(NAMES): self.schema(depth)}},
            lambda: {"unevaluatedProperties": self.schema(depth)} if HAS_UNEVALUATED else {}))()

    def combined(self, depth):
        rng = self.rng
        several = lambda: [self.schema(depth) for _ in range(rng.randrange(1, 4))]
        return rng.choice((
            lambda: {"allOf": several()}, lambda: {"anyOf": several()},
            lambda: {"oneOf": several()}, lambda: {"not": self.schema(depth)},
            lambda: {"if": self.schema(depth), "then": self.schema(depth),
                     "else": self.schema(depth)},
            lambda: {"$ref": rng.choice(self.references)} if self.references else {}))()

    def group(self):
        self.references = ()
        plain = self.schema(1)
        self.references = ("#/$defs/x", "#/$defs/y")
        schema = self.schema(3)
        if isinstance(schema, dict):
            # What refers to itself does so for a part of the value.
            schema["$defs"] = {"x": plain, "y": self.rng.choice((
                {"items": {"$ref": "#"}}, {"properties": {"a": {"$ref": "#/$defs/y"}}},
                {"not": {"items": {"$ref": "#/$defs/y"}}}))}
        validator = jsonschema.Draft202012Validator(schema)
        tests = []
        for _ in range(24):
            data = self.value(self.rng.randrange(4))
            tests.append({"description": "random", "data": data, "valid": validator.is_valid(data)})
        return {"schema": schema, "tests": tests}


class Texts:
    """Random regular expressions and GBNF grammars, and texts of their signs."""

    def __init__(self, rng):
        self.rng = rng

    def part(self, depth, name):
        """Something of a regular expression; with names also a rule of GBNF."""
        rng = self.rng
        quote = '"{}"' if name else "{}"
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            plain = rng.choice(("a", "b", "ab", "c"))
            return rng.choice((quote.format(plain), "[ab]", "[^a]", "[a-c]", quote.format(plain)))
        if name and kind < 0.5:
            return name()
        space = " " if name else ""
        if kind < 0.7:
            return space.join(self.part(depth - 1, name) for _ in range(rng.randrange(1, 4)))
        if kind < 0.85:
            return "(" + f"{space}|{space}".join(
                self.part(depth - 1, name) for _ in range(rng.randrange(1, 4))) + ")"
        count = rng.choice(("*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,40}", "{17,30}"))
        return f"({self.part(depth - 1, name)}){count}"

    def texts(self, standing):
        """Texts with how they stand; each goes on from one that begins a match, where there is one."""
        found, begun = {"": standing("")}, [""]
        for _ in range(24):
            text = self.rng.choice(begun) + "".join(
                self.rng.choice("abcd") for _ in range(self.rng.choice((1, 1, 2, 5))))
            found[text] = standing(text)
            if found[text] != "no":
                begun.append(text)
        return [{"description": "random", "data": text, "valid": how == "matches",
                 "begins": how != "no"} for text, how in found.items()]

    def regex(self):
        pattern = self.part(4, None)
        if self.rng.random() < 0.2:
            pattern = self.rng.choice(("^{}$", "(^{}|b)", "({}$|a)b?", "{}|^b*$")).format(pattern)
        compiled = regex.compile(pattern, regex.ASCII)

        def standing(text):
            if compiled.fullmatch(text):
                return "matches"
            return "begins" if compiled.fullmatch(text, partial=True) else "no"
        return {"regex": pattern, "tests": self.texts(standing)}

    def gbnf(self):
        names = ["root", "one", "two"]
        rules = []
        for i, rule in enumerate(names):
            # What stands first calls later rules only, so that no rule begins with itself.
            later = (lambda i=i: self.rng.choice(names[i + 1:])) if names[i + 1:] else None
            first = self.part(2, later or (lambda: '"b"'))
            rest = self.part(2, lambda: self.rng.choice(names))
            rules.append(f'{rule} ::= {first} "a" {rest} | "b" | {first}')
        grammar = "\n".join(rules)
        return {"gbnf": grammar, "tests": self.texts(gbnf.Grammar(grammar).standing)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="schema_suite")
    parser.add_argument("--quick", action="store_true", help="some hundred grammars")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    n = 300 if options.quick else 5000
    schemas = Schemas(random.Random(options.seed))
    texts = Texts(random.Random(options.seed))
    suites = {"schemas": [schemas.group() for _ in range(n)],
              "regexes": [texts.regex() for _ in range(n)],
              "gbnf": [texts.gbnf() for _ in range(n // 3)]}
    with tempfile.TemporaryDirectory() as folder:
        for name, groups in suites.items():
            suite = pathlib.Path(folder) / name
            suite.mkdir()
            groups = [{"description": str(i)} | group for i, group in enumerate(groups)]
            (suite / "random.json").write_text(json.dumps(groups), encoding="utf-8")
        done = subprocess.run([options.program, *(f"{folder}/{name}" for name in suites)],
                              capture_output=True, encoding="utf-8", check=False)
    print(done.stdout + done.stderr, end="")
    for line in done.stdout.splitlines():
        if " judged right, " in line:
            right, refused = (int(part.split()[0]) for part in line.split(": ")[1].split(", ")[:2])
            if refused > right:
                sys.exit("too many are of grammars that are refused")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
