#!/usr/bin/env python3
"""A first request of many tokens with 25 tools, streamed, and its second turn, with the time-outs that libraries have.

    python3 tests/clients/long_prompts.py build/bin/ng-serve                  # 20,000 tokens, the demo with a longer context
    python3 tests/clients/long_prompts.py build/bin/ng-serve FILE.gguf 7800   # another model, as far as its context goes

By hand, beside libraries.py, with its requirements. Prints for each API how long it was until the first event, the longest
time without one, and how many tokens of each turn were in the cache. Exits 1 where the second turn reads more than is new.
"""
import json
import pathlib
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "serve"))

import anthropic
import openai

from server import ask, served

MODEL = "long"
DEMO = HERE.parents[1] / "configs" / "demo"
RESULT = "sun over Rome"
MOST = 120
PAGE = 33  # tokens that may be read again: a page of the cache, and the last one


def longer_demo(folder):
    """The demo with 32,768 positions. What it says has no sense, and costs what a small model's does."""
    shutil.copytree(DEMO, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text()) | {"T": 32768}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def tool(i, n_words):
    words = " ".join(f"Use number {i} where word {k} is meant." for k in range(n_words))
    city = {"type": "string", "enum": ["Rome", "Oslo"], "description": "where to look"}
    return {"name": f"look_{i}", "description": words,
            "parameters": {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}}


def tools_of(url, n_tokens):
    """25 tools with which a request has about so many tokens."""
    def made(n_words):
        tools = [tool(i, n_words) for i in range(25)]
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Weather?"}],
                "tools": [{"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
                          for one in tools]}
        return tools, json.loads(ask(url + "/v1/messages/count_tokens", body)[1])["input_tokens"]
    few, many = made(1)[1], made(11)[1]
    return made(1 + max(0, (n_tokens - few) * 10 // (many - few)))[0]


class Clock:
    """When the events of a stream come."""

    def __init__(self):
        self.begun = self.last = time.monotonic()
        self.first = None
        self.longest = 0

    def tick(self):
        now = time.monotonic()
        self.first = self.first or now - self.begun
        self.longest = max(self.longest, now - self.last)
        self.last = now


def chat(url, tools):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    tools = [{"type": "function", "function": one} for one in tools]
    messages = [{"role": "user", "content": "Weather?"}]
    for choice in ("required", "auto"):
        clock = Clock()
        call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        for piece in client.chat.completions.create(
                model=MODEL, messages=messages, tools=tools, tool_choice=choice, max_tokens=MOST, stream=True,
                parallel_tool_calls=False, stream_options={"include_usage": True}):
            clock.tick()
            for part in (piece.choices[0].delta.tool_calls or []) if piece.choices else []:
                call["id"] += part.id or ""
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
        yield clock, piece.usage.prompt_tokens, piece.usage.prompt_tokens_details.cached_tokens
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": call["id"], "content": RESULT}]


def responses(url, tools):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    tools = [{"type": "function", "strict": True} | one for one in tools]
    asked = [{"role": "user", "content": "Weather?"}]
    for choice in ("required", "auto"):
        clock = Clock()
        for event in client.responses.create(model=MODEL, input=asked, tools=tools, tool_choice=choice, max_output_tokens=MOST,
                                             parallel_tool_calls=False, stream=True):
            clock.tick()
        answer = event.response
        yield clock, answer.usage.input_tokens, answer.usage.input_tokens_details.cached_tokens
        asked += answer.output
        asked += [{"type": "function_call_output", "call_id": item.call_id, "output": RESULT}
                  for item in answer.output if item.type == "function_call"]


def messages(url, tools):
    client = anthropic.Anthropic(base_url=url, api_key="none")
    tools = [{"name": one["name"], "description": one["description"], "input_schema": one["parameters"]} for one in tools]
    asked = [{"role": "user", "content": "Weather?"}]
    for choice in ("any", "auto"):
        clock = Clock()
        with client.messages.stream(model=MODEL, messages=asked, tools=tools, max_tokens=MOST,
                                    tool_choice={"type": choice, "disable_parallel_tool_use": True}) as stream:
            for _ in stream:
                clock.tick()
            answer = stream.get_final_message()
        cached = answer.usage.cache_read_input_tokens or 0
        yield clock, answer.usage.input_tokens + cached, cached
        asked += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block.id, "content": RESULT}
            for block in answer.content if block.type == "tool_use"]}]


def main():
    wrong = 0
    for api in (chat, responses, messages):
        # A server each, so that each first turn is read.
        with tempfile.TemporaryDirectory() as folder:
            model = sys.argv[2] if len(sys.argv) > 2 else longer_demo(pathlib.Path(folder))
            n_tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
            with served(sys.argv[1], f"--model.path={model}", f"--serve.model={MODEL}", "--cache.max_sequences=1",
                        f"--tokenizer.chat_template={HERE / 'calls.jinja'}") as (url, _):
                first, second = list(api(url, tools_of(url, n_tokens)))
                for name, (clock, n_prompt, cached) in (("first", first), ("second", second)):
                    print(f"{api.__name__}, {name} turn: {n_prompt} tokens, {cached} of them cached, first event after "
                          f"{clock.first:.1f} s, longest wait {clock.longest:.1f} s, all {clock.last - clock.begun:.1f} s",
                          flush=True)
                new = second[1] - first[1]
                good = first[1] > 0.9 * n_tokens and new > 0 and second[1] - second[2] <= new + PAGE
                print("ok" if good else f"wrong: {second[1] - second[2]} tokens read where {new} are new")
                wrong += not good
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
