#!/usr/bin/env python3
"""Calls of random tools that ng-serve is told to make, at temperature 2, in many formats, by many models.

    python3 tests/serve/held_calls.py build/bin/ng-serve [--calls 2000] [--models demo,qwen2]

The models are the demo and tiny ones with random weights and vocabularies of bytes. Each call that ends must be one of the
tools', and fit the tool's schema by python3-jsonschema. By hand, because 2,000 calls take minutes. Exits 1 where one does
not.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import sys
import tempfile

import jsonschema

from server import ask, served

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "grammar"))
import made_up_models  # noqa: E402  pylint: disable=wrong-import-position

# Of those with random weights: the folder of the tokenizer, the token that ends an answer.
TINY_MODELS = {"qwen2": ("bbpe_qwen2", "<|endoftext|>"), "gpt2": ("bbpe_gpt2", "<|endoftext|>"),
               "llama3": ("bbpe_llama3", "<|eot_id|>")}
ARGUMENTS = "c.function.arguments"
JSON_CALL = "{\"name\": \"' + c.function.name + '\", \"arguments\": ' + (" + ARGUMENTS + "|tojson) + '}"
EACH = "{%- for c in m.tool_calls -%}"
END = "{%- endfor -%}"
COMMA = "{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}"
MEMBERS = "{%- for k, v in " + ARGUMENTS + "|items -%}"
RAW = "{{- v if v is string else v|tojson -}}"
# As families of models write them.
FORMATS = {
    "tags": EACH + "{{- '\\n<tool_call>\\n" + JSON_CALL + "\\n</tool_call>' -}}" + END,
    "one object": "{%- set c = m.tool_calls[0] -%}{{- '" + JSON_CALL.replace("arguments\"", "parameters\"") + "' -}}",
    "list": "{{- '[TOOL_CALLS] [' -}}" + EACH + "{{- '" + JSON_CALL + "' -}}" + COMMA + END + "{{- ']' -}}",
    "key": "{{- '<|tools_prefix|>[' -}}" + EACH + "{{- '{\"' + c.function.name + '\": ' + (" + ARGUMENTS +
           "|tojson) + '}' -}}" + COMMA + END + "{{- ']<|tools_suffix|>' -}}",
    "head": EACH + "{{- '[TOOL_CALLS]' + c.function.name + '[ARGS]' + (" + ARGUMENTS + "|tojson) -}}" + END,
    "fenced": "{{- '<|calls|>' -}}" + EACH + "{{- '<|call|>function<|sep|>' + c.function.name + '\\n```json\\n' + (" +
              ARGUMENTS + "|tojson) + '\\n```<|/call|>' -}}" + END + "{{- '<|/calls|>' -}}",
    "indexed": "{{- '<|section|>' -}}" + EACH + "{{- '<|call|>functions.' ~ c.function.name ~ ':' ~ loop.index0 ~ "
               "'<|arguments|>' ~ (" + ARGUMENTS + "|tojson) ~ '<|/call|>' -}}" + END + "{{- '<|/section|>' -}}",
    "functions": EACH + "{{- '<function=' + c.function.name + '>' + (" + ARGUMENTS + "|tojson) + '</function>' -}}" + END,
    "parameters": EACH + "{{- '<tool_call>\\n<function=' + c.function.name + '>\\n' -}}" + MEMBERS +
                  "{{- '<parameter=' + k + '>\\n' -}}" + RAW + "{{- '\\n</parameter>\\n' -}}" + END +
                  "{{- '</function>\\n</tool_call>' -}}" + END,
    "keys and values": EACH + "{{- '\\n<tool_call>' + c.function.name + '\\n' -}}" + MEMBERS +
                       "{{- '<arg_key>' + k + '</arg_key>\\n<arg_value>' -}}" + RAW + "{{- '</arg_value>\\n' -}}" + END +
                       "{{- '</tool_call>' -}}" + END,
    "invoke": "{{- '\\n<x:calls>\\n' -}}" + EACH + "{{- '<invoke name=\"' + c.function.name + '\">\\n' -}}" + MEMBERS +
              "{{- '<parameter name=\"' + k + '\">' -}}" + RAW + "{{- '</parameter>\\n' -}}" + END +
              "{{- '</invoke>\\n' -}}" + END + "{{- '</x:calls>' -}}",
    "arguments first": "{%- set c = m.tool_calls[0] -%}{{- '{\"parameters\": ' + (" + ARGUMENTS + "|tojson) + ', \"name\": \"' + "
                       "c.function.name + '\"}' -}}",
    "python object": EACH + "{{- '<|call|>' -}}{{- {'name': c.function.name, 'arguments': " + ARGUMENTS + "} -}}"
                     "{{- '<|/call|>' -}}" + END,
    "python arguments": EACH + "{{- '<|call|>' + c.function.name + ' ' -}}{{- " + ARGUMENTS + " -}}{{- '<|/call|>' -}}" + END,
    "python": "{{- '<|list|>[' -}}" + EACH + "{{- c.function.name + '(' -}}" + MEMBERS +
              "{{- k + '=' -}}{{- v|tojson if v is string else v|string -}}" + COMMA + END + "{{- ')' -}}" + COMMA + END +
              "{{- ']<|/list|>' -}}",
}
TEMPLATE = ("{{%- for m in messages -%}}[{{{{ m.role }}}}]{{{{ m.content or '' }}}}{{%- if m.tool_calls -%}}{}{{%- endif -%}}"
            "[end]{{%- endfor -%}}{{{{ '' if tools }}}}{{%- if add_generation_prompt -%}}[assistant]{{%- endif -%}}")


def value_schema(choose, depth):
    kinds = ["text", "enum", "int", "number", "bool", "null", "maybe"] + ["list", "object"] * (depth > 0)
    kind = choose.choice(kinds)
    if kind == "text":
        return {"type": "string", "maxLength": choose.randint(0, 12)}
    if kind == "enum":
        return {"enum": choose.sample(["a", "it's \"b\"", "5", 5, 2.5, None, True, "c d"], 3)}
    if kind == "int":
        return {"type": "integer", "minimum": -99, "maximum": choose.randint(0, 999)}
    if kind == "number":
        return {"type": "number", "minimum": 0, "maximum": 10}
    if kind == "maybe":
        return {"anyOf": [{"type": "string", "maxLength": 6}, {"type": "null"}]}
    if kind == "list":
        return {"type": "array", "items": value_schema(choose, depth - 1), "maxItems": 2}
    if kind == "object":
        return object_schema(choose, depth - 1)
    return {"type": "boolean" if kind == "bool" else "null"}


def object_schema(choose, depth):
    names = choose.sample(["city", "days", "unit", "where", "note", "flag"], choose.randint(0, 4))
    return {"type": "object", "properties": {name: value_schema(choose, depth) for name in names},
            "required": [name for name in names if choose.random() < 0.6], "additionalProperties": False}


def one_call(url, seed):
    choose = random.Random(seed)
    tools = {f"tool_{i}": object_schema(choose, 2) for i in range(choose.randint(1, 3))}
    body = {"model": "demo", "messages": [{"role": "user", "content": "ask"}], "tool_choice": "required", "temperature": 2,
            "seed": seed, "max_tokens": 380, "parallel_tool_calls": choose.random() < 0.3,
            "tools": [{"type": "function", "function": {"name": name, "parameters": schema}}
                      for name, schema in tools.items()]}
    status, text = ask(url + "/v1/chat/completions", body)
    assert status == 200, (seed, text)
    choice = json.loads(text)["choices"][0]
    if choice["finish_reason"] == "length":
        return "cut"
    calls = choice["message"].get("tool_calls")
    assert calls and choice["finish_reason"] == "tool_calls" and not choice["message"].get("content"), (seed, text)
    for call in calls:
        function = call["function"]
        jsonschema.Draft202012Validator(tools[function["name"]]).validate(json.loads(function["arguments"]))
    return "ended"


def make_models(names, folder):
    """The options of ng-serve for each of the models."""
    options = {}
    for seed, name in enumerate(names):
        options[name] = ["--serve.model=demo"]
        if name == "demo":
            continue
        tokenizer, end = TINY_MODELS[name]
        made_up_models.write_tiny(folder / name, TESTS / "data/tokenizers" / tokenizer / "tokenizer.json", end, seed)
        options[name] += [f"--model.path={folder / name}", "--run.max_new_tokens=auto"]
    return options


def run_calls(program, options, seeds, report):
    """How many calls ended and were cut. What went wrong is reported."""
    counts = {"ended": 0, "cut": 0}
    with served(program, *options) as (url, _), concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in [pool.submit(one_call, url, seed) for seed in seeds]:
            try:
                counts[answer.result()] += 1
            except Exception as error:  # pylint: disable=broad-except
                report(str(error)[:600])
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--models", default=",".join(["demo", *TINY_MODELS]))
    given = parser.parse_args()
    names = given.models.split(",")
    each = -(-given.calls // (len(FORMATS) * len(names)))
    wrong, seed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(names, pathlib.Path(folder))
        template = pathlib.Path(folder) / "calls.jinja"
        for form, calls in FORMATS.items():
            template.write_text(TEMPLATE.format(calls))
            for model, options in models.items():
                counts = run_calls(given.program, [f"--tokenizer.chat_template={template}", *options],
                                   range(seed, seed + each), wrong.append)
                seed += 100_000
                print(f"{form}, {model}: {counts['ended']} ended and fit, {counts['cut']} were cut", flush=True)
    print("\n".join(wrong) or "none was wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
