"""ng-serve as the libraries of three APIs see it: a plain answer, a stream, and tools in two turns.

Run by hand, in an environment that has the packages openai, anthropic and ollama (3.57, 2.14 and 0.6
were tried):

    python3 tests/serve/libraries.py build/bin/ng-serve

A grammar holds the tiny model to what a model with tools would write. Prints a table.
"""
import json
import pathlib
import sys
import tempfile

import anthropic
import ollama
import openai

from libraries_template import TEMPLATE
from server import served

QUESTION = [{"role": "user", "content": "Weather in Rome?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "look", "description": "Looks out of a window.", "parameters": SCHEMA}
CALL = '<think>hm</think>So. <call>{"name": "look", "arguments": {"city": "Rome"}}</call>'


def saying(text):
    literal = text.replace('"', '\\"')
    return f'root ::= "{literal}"'


class Chat:
    """OpenAI's chat completions."""
    tools = [{"type": "function", "function": FUNCTION}]

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    def ask(self, text, messages=None, **more):
        return self.client.chat.completions.create(
            model="demo", messages=messages or QUESTION, extra_body={"grammar": saying(text)}, **more)

    def plain(self):
        assert self.ask("Sunny.").choices[0].message.content == "Sunny."

    def stream(self):
        pieces = list(self.ask("Sunny.", stream=True, stream_options={"include_usage": True}))
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "Sunny."
        assert pieces[-1].usage.completion_tokens > 0

    def loop(self):
        message = self.ask(CALL, tools=self.tools).choices[0].message
        (call,) = message.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Rome"} and message.content == "So."
        result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
        told = self.ask("Sunny.", [*QUESTION, message, result], tools=self.tools)
        assert told.choices[0].message.content == "Sunny." and told.choices[0].finish_reason == "stop"

    def tool_stream(self):
        with self.client.chat.completions.stream(model="demo", messages=QUESTION, tools=self.tools,
                                                 extra_body={"grammar": saying(CALL)}) as stream:
            message = stream.get_final_completion().choices[0].message
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Rome"}


class Responses(Chat):
    """OpenAI's responses."""
    tools = [{"type": "function", "strict": False} | FUNCTION]

    def ask(self, text, messages=None, **more):
        return self.client.responses.create(
            model="demo", input=messages or QUESTION, extra_body={"grammar": saying(text)}, **more)

    def plain(self):
        assert self.ask("Sunny.").output_text == "Sunny."

    def stream(self):
        events = list(self.ask("Sunny.", stream=True))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Sunny."
        assert events[-1].response.output_text == "Sunny."

    def loop(self):
        answer = self.ask(CALL, tools=self.tools)
        thought, _, call = answer.output
        assert thought.content[0].text == "hm" and json.loads(call.arguments) == {"city": "Rome"}
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
        whole = self.ask("Sunny.", [*QUESTION, *answer.output, result], tools=self.tools)
        kept = self.ask("Sunny.", [result], tools=self.tools, previous_response_id=answer.id)
        assert whole.output_text == kept.output_text == "Sunny."
        assert whole.usage.input_tokens == kept.usage.input_tokens

    def tool_stream(self):
        with self.client.responses.stream(model="demo", input=QUESTION, tools=self.tools,
                                          extra_body={"grammar": saying(CALL)}) as stream:
            answer = stream.get_final_response()
        assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]
        assert json.loads(answer.output[2].arguments) == {"city": "Rome"}


class Messages:
    """Anthropic's messages."""
    tools = [{"name": "look", "description": "Looks out of a window.", "input_schema": SCHEMA}]

    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def asked(self, text, messages=None, **more):
        return {"model": "demo", "max_tokens": 100, "messages": messages or QUESTION, "system": "Be brief.",
                "extra_body": {"grammar": saying(text)}} | more

    def plain(self):
        answer = self.client.messages.create(**self.asked("Sunny."))
        assert answer.content[0].text == "Sunny." and answer.stop_reason == "end_turn"

    def stream(self):
        with self.client.messages.stream(**self.asked("Sunny.")) as stream:
            assert "".join(stream.text_stream) == "Sunny."
            assert stream.get_final_message().usage.output_tokens > 0

    def loop(self):
        answer = self.client.messages.create(**self.asked(CALL, tools=self.tools))
        thought, _, call = answer.content
        assert answer.stop_reason == "tool_use" and call.input == {"city": "Rome"} and thought.thinking == "hm"
        told = [*QUESTION, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "sun"}]}]
        assert self.client.messages.create(**self.asked("Sunny.", told, tools=self.tools)).content[0].text == "Sunny."
        counted = self.client.messages.count_tokens(model="demo", messages=QUESTION, system="Be brief.")
        assert counted.input_tokens > 0

    def tool_stream(self):
        with self.client.messages.stream(**self.asked(CALL, tools=self.tools)) as stream:
            answer = stream.get_final_message()
        assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
        assert answer.content[2].input == {"city": "Rome"}


class Ollama:
    """Ollama's chat and generate."""
    tools = [{"type": "function", "function": FUNCTION}]

    def __init__(self, url):
        self.client = ollama.Client(url)

    def ask(self, text, messages=None, **more):
        return self.client.chat("demo", messages or QUESTION, options={"grammar": saying(text)}, **more)

    def plain(self):
        assert self.ask("Sunny.").message.content == "Sunny."
        assert self.client.generate("demo", "x", options={"grammar": saying("Rain.")}).response == "Rain."

    def stream(self):
        lines = list(self.ask("Sunny.", stream=True))
        assert "".join(line.message.content for line in lines) == "Sunny." and lines[-1].done
        assert [model.model for model in self.client.list().models] == ["demo"] and self.client.ps().models
        assert "tools" in self.client.show("demo").capabilities

    def loop(self):
        message = self.ask(CALL, tools=self.tools, think=True).message
        (call,) = message.tool_calls
        assert call.function.arguments == {"city": "Rome"} and message.thinking == "hm"
        told = [*QUESTION, message, {"role": "tool", "tool_name": "look", "content": "sun"}]
        assert self.ask("Sunny.", told, tools=self.tools).message.content == "Sunny."

    def tool_stream(self):
        calls = [call for line in self.ask(CALL, tools=self.tools, stream=True) for call in line.message.tool_calls or []]
        assert [call.function.arguments for call in calls] == [{"city": "Rome"}]


def main():
    uses = ("plain", "stream", "loop", "tool_stream")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "calls.jinja"
        path.write_text(TEMPLATE)
        with served(sys.argv[1], f"--tokenizer.chat_template={path}") as (url, _):
            for kind in (Chat, Responses, Messages, Ollama):
                cells = []
                for use in uses:
                    try:
                        getattr(kind(url), use)()
                        cells.append("ok")
                    except Exception as error:  # pylint: disable=broad-except
                        failed += 1
                        cells.append(f"{type(error).__name__}: {error}"[:200])
                print(f"{kind.__doc__:32}", *(f"{use}: {cell}" for use, cell in zip(uses, cells)), sep=" | ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
