"""llm: a model of its file for servers with OpenAI's API."""
import os
import pathlib
import tempfile

import yaml

from uses.common import MOST, QUESTION, RESULT, City, Library, Weather

FOLDER = tempfile.TemporaryDirectory()
os.environ["LLM_USER_PATH"] = FOLDER.name

import llm  # pylint: disable=wrong-import-position


class Chat(Library):
    scripted_calls = True
    responses = False

    def __init__(self, url, model):
        super().__init__(url, model)
        (pathlib.Path(FOLDER.name) / "extra-openai-models.yaml").write_text(yaml.safe_dump([
            {"model_id": url, "model_name": model, "api_base": url + "/v1", "supports_tools": True, "supports_schema": True,
             "responses": self.responses}]))

    def asked(self):
        return llm.get_model(self.url)

    def plain(self):
        return self.asked().prompt(QUESTION, stream=False, temperature=0, max_tokens=MOST).text()

    def stream(self):
        return "".join(self.asked().prompt(QUESTION, stream=True, temperature=0, max_tokens=MOST))

    def tool(self, seen):
        def look(city: City) -> str:
            """Looks out of a window."""
            seen.append(city)
            return RESULT
        return look

    def forced(self):
        (call,) = self.asked().prompt(QUESTION, tools=[self.tool([])], stream=False).tool_calls()
        return call.name, call.arguments

    def loop(self):
        seen = []
        told = [answer.text() for answer in self.asked().chain(QUESTION, tools=[self.tool(seen)]).responses()]
        assert seen == ["Rome"], seen
        return told[-1]

    def structured(self):
        answer = self.asked().prompt(QUESTION, schema=Weather, temperature=0)
        return Weather.model_validate_json(answer.text()).model_dump()


class Responses(Chat):
    responses = True


ROWS = {"llm, chat": Chat, "llm, responses": Responses}
