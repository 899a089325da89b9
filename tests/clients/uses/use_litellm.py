"""litellm: as it asks servers with OpenAI's API, Anthropic's and Ollama's."""
import json

import litellm

from uses.common import ASKED, MOST, RESULT, TOOL, Library, Weather

litellm.suppress_debug_info = True


class OpenAi(Library):
    kind, path = "openai/", "/v1"

    def ask(self, messages=None, **more):
        settings = {"temperature": 0, "max_tokens": 300} | more
        return litellm.completion(model=self.kind + self.model, api_base=self.url + self.path, api_key="none", max_retries=0,
                                  messages=messages or ASKED, **settings)

    def plain(self):
        return self.ask(max_tokens=MOST).choices[0].message.content

    def stream(self):
        pieces = self.ask(max_tokens=MOST, stream=True)
        return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)

    def forced(self):
        (call,) = self.ask(tools=[TOOL], **self.must()).choices[0].message.tool_calls[:1]
        return call.function.name, json.loads(call.function.arguments)

    def must(self):
        return {"tool_choice": "required"}

    def loop(self):
        pieces = list(self.ask(tools=[TOOL], stream=True))
        message = litellm.stream_chunk_builder(pieces, messages=ASKED).choices[0].message
        (call,) = message.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Rome"}
        result = {"role": "tool", "tool_call_id": call.id, "name": "look", "content": RESULT}
        return self.ask([*ASKED, message.model_dump(), result], tools=[TOOL]).choices[0].message.content

    def structured(self):
        return Weather.model_validate_json(self.ask(response_format=Weather).choices[0].message.content).model_dump()


class Anthropic(OpenAi):
    kind, path = "anthropic/", ""


class Ollama(OpenAi):
    kind, path = "ollama_chat/", ""
    scripted_calls = True

    def must(self):
        return {}


ROWS = {"litellm, openai": OpenAi, "litellm, anthropic": Anthropic, "litellm, ollama": Ollama}
