#!/usr/bin/env python3
"""Lets ng-run answer under grammars, and checks each answer without ng.

    python3 tests/grammar/answers.py build/bin/ng-run             # the long form: 2,208 answers
    python3 tests/grammar/answers.py build/bin/ng-run --quick     # the tests': some dozens

The demo model and a tiny one with a vocabulary of bytes answer under every file of grammars/, with the
most probable token and at temperatures of 0.7, 1.5 and 5. An answer that has ended must match: JSON
parses and python3-jsonschema validates it, a regular expression is python3-regex's, GBNF is gbnf.py's.
One that was cut at its last token must begin a text that matches. Exits 1 where one does not, 77
where a module is missing.
"""
import argparse
import collections
import datetime
import json
import pathlib
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
import json_prefix
import made_up_models

HERE = pathlib.Path(__file__).resolve().parent
GRAMMARS = sorted((HERE / "grammars").iterdir())
QUICK = ("person.json", "events.json", "tree.json", "cyrillic.regex", "sums.gbnf")
OPTIONS = {".json": "json_schema", ".regex": "regex", ".gbnf": "gbnf"}
CHAINS = {"0": ["--sampler.chain=grammar,greedy"]} | {
    value: ["--sampler.chain=grammar,temperature", f"--sampler.temperature.value={value}"]
    for value in ("0.7", "1.5", "5")}
PROMPTS = ("Who art thou?", "What news?", "Speak!", "A name, a number.", "O, for a muse of fire",
           "{", "1", "Give me the list of all that came to pass.", "é", "My lord,", "no", "Is it so?")
FORMATS = jsonschema.FormatChecker()


@FORMATS.checks("date-time", raises=ValueError)
def is_date_time(text):
    datetime.datetime.fromisoformat(text[:19])
    return regex.fullmatch(r"[^T]{10}T[^T]{8}(\.\d+)?(Z|[+-]\d\d:\d\d)", text) is not None


def listed_names(schema):
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else []:
        yield from listed_names(part)


class JsonCheck:
    def __init__(self, source):
        schema = json.loads(source)
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
        self.listed = set(listed_names(schema))

    def finished(self, text):
        # Only names that the schema lists are sure to come once.
        def unique(pairs):
            listed = [name for name, _ in pairs if name in self.listed]
            assert len(set(listed)) == len(listed), "a listed name comes twice"
            return dict(pairs)
        try:
            value = json.loads(text, object_pairs_hook=unique)
        except (ValueError, AssertionError) as error:
            return str(error)
        return next((error.message for error in self.validator.iter_errors(value)), None)

    def cut(self, text):
        return json_prefix.complaint(text, self.validator)


class RegexCheck:
    def __init__(self, source):
        self.pattern = regex.compile(source.rstrip("\n"), regex.ASCII)

    def finished(self, text):
        return None if self.pattern.fullmatch(text) else "does not match"

    def cut(self, text):
        return None if self.pattern.fullmatch(text, partial=True) else "does not begin a match"


class GbnfCheck:
    def __init__(self, source):
        self.grammar = gbnf.Grammar(source)

    def finished(self, text):
        return None if self.grammar.standing(text) == "matches" else "does not match"

    def cut(self, text):
        return "does not begin a match" if self.grammar.standing(text) == "no" else None


CHECKS = {".json": JsonCheck, ".regex": RegexCheck, ".gbnf": GbnfCheck}


# Texts of which is known how they stand: whether they match, and whether they begin what matches.
KNOWN = (("person.json", '{"name": "a", "age": 3}', True, None),
         ("person.json", '{"name": "a", "age": 121}', False, False),
         ("person.json", '{"name": "a", "name": "b", "age": 3}', False, None),
         ("person.json", '{"name": "a', False, True),
         ("person.json", '{"nick": "a", ', False, False),
         ("person.json", '{"age": "', False, True),
         ("person.json", '{"age": "3", ', False, False),
         ("events.json", '[{"kind": "opened", "at": "2023-02-29"}, ', False, False),
         ("events.json", '[{"kind": "clo', False, True),
         ("cyrillic.regex", "Да нет.", True, True),
         ("cyrillic.regex", "Да н", False, True),
         ("cyrillic.regex", "да", False, False),
         ("sums.gbnf", "1+(2*3)", True, True),
         ("sums.gbnf", "1+(2*", False, True),
         ("sums.gbnf", "1)", False, False))


def check_the_checks():
    for name, text, matches, begins in KNOWN:
        path = HERE / "grammars" / name
        check = CHECKS[path.suffix](path.read_text(encoding="utf-8"))
        if matches != (check.finished(text) is None):
            sys.exit(f"{name}: {text!r} is judged wrong as an answer that has ended")
        if begins is not None and begins != (check.cut(text) is None):
            sys.exit(f"{name}: {text!r} is judged wrong as an answer that was cut")


def answers(program, model, grammar, chain, prompts):
    source = grammar.read_text(encoding="utf-8").rstrip("\n")
    value = source if grammar.suffix == ".regex" else str(grammar)
    command = [program, *model, "--prompts", str(prompts), "--output=jsonl", "--run.threads=1", *chain,
               f"--sampler.grammar.{OPTIONS[grammar.suffix]}={value}"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="ng-run")
    parser.add_argument("--quick", action="store_true", help="a few grammars and prompts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check_the_checks()
    grammars = [path for path in GRAMMARS if path.name in QUICK] if options.quick else GRAMMARS
    counts, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n"
                                   for text in (PROMPTS[:3] if options.quick else PROMPTS)))
        made_up_models.write_tiny(folder / "bytes", HERE.parent / "data/tokenizers/bbpe_qwen2/tokenizer.json")
        models = {"demo": [f"--model.path={HERE.parent.parent / 'configs/demo'}", "-n", "200"],
                  "bytes": [f"--model.path={folder / 'bytes'}", "-n", "300"]}
        for name, model in models.items():
            for temperature, chain in CHAINS.items():
                for grammar in grammars:
                    check = CHECKS[grammar.suffix](grammar.read_text(encoding="utf-8"))
                    seed = [f"--sampler.seed={options.seed}"]
                    for line in answers(options.program, model + seed, grammar, chain, prompts):
                        ended = line["stop_reason"] in ("stage", "eot")
                        # A character that was cut is written as U+FFFD.
                        text = line["text"] if ended else line["text"].rstrip("\ufffd")
                        counts[name, "ended" if ended else "cut"] += 1
                        complaint = check.finished(text) if ended else check.cut(text)
                        if complaint:
                            faults += 1
                            print(f"{name}, temperature {temperature}, {grammar.name}, "
                                  f"{line['stop_reason']}: {complaint}: {text!r}")
    ended = sum(n for (_, how), n in counts.items() if how == "ended")
    print(f"{sum(counts.values())} answers, {ended} ended and match, the others were cut and begin one; "
          f"{faults} faults; {dict(counts)}")
    return 1 if faults or 2 * ended < sum(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
