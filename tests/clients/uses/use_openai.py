"""OpenAI's own library: chat completions and responses."""
import json

import openai

from uses.common import ASKED, BEFORE, FUNCTION, MOST, RESULT, THOUGHT, TOOL, Library, Weather


class Chat(Library):
    def __init__(self, url, model):
        super().__init__(url, model)
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    def ask(self, messages=None, **more):
        return self.client.chat.completions.create(model=self.model, messages=messages or ASKED, temperature=0, **more)

    def plain(self):
        return self.ask(max_tokens=MOST).choices[0].message.content

    def stream(self):
        pieces = list(self.ask(max_tokens=MOST, stream=True, stream_options={"include_usage": True}))
        assert pieces[-1].usage.completion_tokens > 0 and not pieces[-1].choices
        return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)

    def forced(self):
        for choice in ("required", {"type": "function", "function": {"name": "look"}}):
            (call,) = self.ask(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False).choices[0].message.tool_calls
        return call.function.name, json.loads(call.function.arguments)

    def loop(self):
        with self.client.chat.completions.stream(model=self.model, messages=ASKED, tools=[TOOL]) as stream:
            message = stream.get_final_completion().choices[0].message
        (call,) = message.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Rome"} and message.content == BEFORE
        assert message.reasoning_content == THOUGHT
        result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
        told = self.ask([*ASKED, message, result], tools=[TOOL]).choices[0]
        assert told.finish_reason == "stop"
        return told.message.content

    def structured(self):
        answer = self.client.chat.completions.parse(model=self.model, messages=ASKED, temperature=0, response_format=Weather)
        return answer.choices[0].message.parsed.model_dump()


class Responses(Chat):
    tool = {"type": "function", "strict": True} | FUNCTION

    def ask(self, messages=None, **more):
        return self.client.responses.create(model=self.model, input=messages or ASKED, temperature=0, **more)

    def plain(self):
        return self.ask(max_output_tokens=MOST).output_text

    def stream(self):
        events = list(self.ask(max_output_tokens=MOST, stream=True))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert events[-1].response.output_text == text
        return text

    def forced(self):
        for choice in ("required", {"type": "function", "name": "look"}):
            answer = self.ask(tools=[self.tool], tool_choice=choice, parallel_tool_calls=False)
            (call,) = [item for item in answer.output if item.type == "function_call"]
        return call.name, json.loads(call.arguments)

    def loop(self):
        with self.client.responses.stream(model=self.model, input=ASKED, tools=[self.tool]) as stream:
            answer = stream.get_final_response()
        thought, text, call = answer.output
        assert thought.content[0].text == THOUGHT and text.content[0].text == BEFORE
        result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
        whole = self.ask([*ASKED, *answer.output, result], tools=[self.tool])
        kept = self.ask([result], tools=[self.tool], previous_response_id=answer.id)
        assert whole.output_text == kept.output_text and whole.usage.input_tokens == kept.usage.input_tokens
        return kept.output_text

    script = (*Library.script, Library.script[-1])

    def structured(self):
        answer = self.client.responses.parse(model=self.model, input=ASKED, temperature=0, text_format=Weather)
        return answer.output_parsed.model_dump()


ROWS = {"openai, chat": Chat, "openai, responses": Responses}
