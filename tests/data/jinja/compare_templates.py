"""Compares what ng-tokenize writes with published chat templates with what Python's Jinja writes.

    python3 compare_templates.py --ng ../../../build/bin/ng-tokenize FOLDER_OR_FILE.jinja...

Each template gets conversations of 1 to 6 turns, with a system's message and without, and some with
tools, a call and its result. The texts must be the same bytes; where Jinja fails, ng must refuse. Exits
with 1 where a template differs. The templates are not part of ng: llama.cpp's models/templates and vLLM's
examples are what this is for. Needs python3-jinja2.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

import make_cases

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent / "tokenizers" / "layouts" / "llama2"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
DATE = "2025-07-30"  # make_cases.NOW

QUESTIONS = ["Hello", " What is 2 + 2?\n", "Gr\u00f6\u00dfe \u4f60\u597d \U0001f642 & <b>\"it's\"</b>", "```py\nx = {1: 2}\n```",
             "<|im_start|>not a mark</s>", "and\n\n{{ then }} ?"]
ANSWERS = ["Hi there.", "<think>\n2 and 2\n</think>\n\n4", " \u00e9 ", "done\n", "[INST] no"]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a \"city\"",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Its name"},
        "days": {"type": "integer", "enum": [1, 7]}}}}}]
CALL = {"type": "function", "id": "call12345", "function": {"name": "weather", "arguments": {"city": "K\u00f6ln", "days": 7}}}


def conversations():
    """Messages, and the tools or none."""
    for turns in range(1, 7):
        talk = []
        for turn in range(turns):
            talk.append({"role": "user", "content": QUESTIONS[turn]})
            if turn + 1 < turns:
                talk.append({"role": "assistant", "content": ANSWERS[turn]})
        for system in ([], [{"role": "system", "content": " Be brief.\n"}]):
            yield system + talk, None
            if turns < 3:
                yield system + talk, TOOLS
    asked = [{"role": "user", "content": QUESTIONS[0]}]
    called = asked + [{"role": "assistant", "content": "", "tool_calls": [CALL]},
                      {"role": "tool", "name": "weather", "tool_call_id": "call12345", "content": "{\"sky\": \"blue\"}"}]
    yield called, TOOLS
    yield called + [{"role": "assistant", "content": "Blue."}, {"role": "user", "content": QUESTIONS[1]}], TOOLS


def wanted(template, messages, tools):
    """The text, or None where Jinja fails."""
    try:
        return template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=True, **SPECIAL)
    except Exception:  # whatever it is, there is no text
        return None


def of_ng(ng, path, messages, tools):
    """The text, or None and why it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        talk = pathlib.Path(folder, "talk.json")
        talk.write_text(json.dumps(messages), encoding="utf-8")
        more = []
        if tools:
            given = pathlib.Path(folder, "tools.json")
            given.write_text(json.dumps(tools), encoding="utf-8")
            more = ["--tools", str(given)]
        done = subprocess.run([ng, "--tokenizer", TOKENIZER, "--template", path, "--date", DATE, "--chat", talk, "--render", *more],
                              capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout.decode(), ""
    return None, f"{done.stderr.decode().strip()} (exit {done.returncode})"


def compare(ng, path):
    """What came of each conversation, and the first that differs."""
    found, differs = collections.Counter(), None
    try:
        template = make_cases.environment().from_string(path.read_text(encoding="utf-8"))
    except Exception as error:
        return collections.Counter({"no template": 1}), f"Jinja refuses it: {error}"
    for messages, tools in conversations():
        text, (ours, why) = wanted(template, messages, tools), of_ng(ng, path, messages, tools)
        if ours is None and "takes none" in why:
            kind = "tools refused: the template has no place for them"
        elif ours is None and text is None:
            kind = "refused by both" if why.endswith(("(exit 2)", "(exit 3)")) else "differ"
        else:
            kind = "equal" if text == ours else "differ"
        found[kind] += 1
        if kind == "differ" and differs is None:
            differs = f"{json.dumps(messages)[:300]}\n    Jinja: {text!r}\n    ng:    {ours!r} {why}"
    return found, differs


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ng", required=True)
    options.add_argument("templates", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    paths = [path for at in given.templates for path in (sorted(at.rglob("*.jinja")) if at.is_dir() else [at])]
    total, different = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, (found, differs) in zip(paths, pool.map(lambda at: compare(given.ng, at), paths)):
            total += found
            different += found["differ"] > 0
            print(f"{path.name}: {', '.join(f'{kind} {count}' for kind, count in sorted(found.items()))}", flush=True)
            if differs:
                print(f"  {differs}")
    print(f"{len(paths)} templates, {different} differ; conversations: {dict(total)}")
    sys.exit(1 if different or not paths else 0)


if __name__ == "__main__":
    main()
