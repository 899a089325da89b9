"""Anthropic's own library: messages, and what it has beside them in `beta`."""
import anthropic

from uses.common import ASKED, BEFORE, CITIES, FUNCTION, MOST, RESULT, SCHEMA, THOUGHT, City, Library, Weather

TOOL = {"name": "look", "description": FUNCTION["description"], "input_schema": SCHEMA}


class Messages(Library):
    def __init__(self, url, model):
        super().__init__(url, model)
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        self.messages = self.client.messages

    def asked(self, messages=None, **more):
        return {"model": self.model, "max_tokens": 300, "messages": messages or ASKED, "system": "Be brief.",
                "extra_body": {"temperature": 0}} | more

    def plain(self):
        counted = self.messages.count_tokens(model=self.model, messages=ASKED, system="Be brief.")
        answer = self.messages.create(**self.asked(max_tokens=MOST))
        assert counted.input_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
        return answer.content[0].text

    def stream(self):
        with self.messages.stream(**self.asked(max_tokens=MOST)) as stream:
            text = "".join(stream.text_stream)
            assert stream.get_final_message().usage.output_tokens > 0
        return text

    def forced(self):
        for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "look"}):
            answer = self.messages.create(**self.asked(tools=[TOOL], tool_choice=choice))
            assert answer.stop_reason == "tool_use"
            (call,) = answer.content
        return call.name, call.input

    def loop(self):
        with self.messages.stream(**self.asked(tools=[TOOL])) as stream:
            answer = stream.get_final_message()
        thought, text, call = answer.content
        assert thought.thinking == THOUGHT and text.text == BEFORE and call.input == {"city": "Rome"}
        told = [*ASKED, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]}]
        return self.messages.create(**self.asked(told, tools=[TOOL])).content[0].text

    def structured(self):
        return self.messages.parse(**self.asked(output_format=Weather)).parsed_output.model_dump()


class Beta(Messages):
    def __init__(self, url, model):
        super().__init__(url, model)
        self.messages = self.client.beta.messages

    def loop(self):
        @anthropic.beta_tool
        def look(city: City) -> str:
            """Looks out of a window."""
            assert city in CITIES
            return RESULT
        return self.messages.tool_runner(**self.asked(tools=[look])).until_done().content[0].text


ROWS = {"anthropic": Messages, "anthropic, beta": Beta}
