"""Ollama's own library."""
import ollama

from uses.common import ASKED, BEFORE, MOST, QUESTION, RESULT, THOUGHT, TOOL, Library, Weather


class Chat(Library):
    scripted_calls = True

    def __init__(self, url, model):
        super().__init__(url, model)
        self.client = ollama.Client(url)

    def ask(self, messages=None, most=300, **more):
        return self.client.chat(self.model, messages or ASKED, options={"temperature": 0, "num_predict": most}, **more)

    def plain(self):
        assert [model.model for model in self.client.list().models] == [self.model] and self.client.ps().models
        assert "tools" in self.client.show(self.model).capabilities
        said = self.ask(most=MOST).message.content
        made = self.client.generate(self.model, QUESTION, options={"temperature": 0, "num_predict": MOST})
        assert made.response == said
        return said

    def stream(self):
        lines = list(self.ask(most=MOST, stream=True))
        assert lines[-1].done and lines[-1].eval_count > 0
        return "".join(line.message.content for line in lines)

    def forced(self):
        calls = [call for line in self.ask(tools=[TOOL], stream=True) for call in line.message.tool_calls or []]
        (call,) = calls
        return call.function.name, call.function.arguments

    def loop(self):
        message = self.ask(tools=[TOOL], think=True).message
        (call,) = message.tool_calls
        assert call.function.arguments == {"city": "Rome"}
        assert message.thinking == THOUGHT and message.content == BEFORE
        told = [*ASKED, message, {"role": "tool", "tool_name": "look", "content": RESULT}]
        return self.ask(told, tools=[TOOL]).message.content

    def structured(self):
        answer = self.ask(format=Weather.model_json_schema())
        return Weather.model_validate_json(answer.message.content).model_dump()


ROWS = {"ollama": Chat}
