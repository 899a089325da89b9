"""pydantic-ai: by chat completions, responses, messages, and as it asks Ollama."""
import asyncio

import anthropic
import pydantic_ai
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from uses.common import MOST, QUESTION, RESULT, City, Library, Weather


class Chat(Library):
    greedy = {"temperature": 0}

    def made(self):
        return OpenAIChatModel(self.model, provider=OpenAIProvider(base_url=self.url + "/v1", api_key="none"))

    def agent(self, most=300, **more):
        return pydantic_ai.Agent(self.made(), retries=0, model_settings=self.greedy | {"max_tokens": most},
                                 **more)

    def plain(self):
        return self.agent(MOST).run_sync(QUESTION).output

    def stream(self):
        async def read():
            async with self.agent(MOST).run_stream(QUESTION) as answer:
                return "".join([piece async for piece in answer.stream_text(delta=True, debounce_by=None)])
        return asyncio.run(read())

    def forced(self):
        def look(city: City) -> dict:
            """Looks out of a window."""
            return {"city": city}
        return "look", self.agent(output_type=look).run_sync(QUESTION).output

    def loop(self):
        seen = []
        agent = self.agent()

        @agent.tool_plain
        def look(city: City) -> str:
            """Looks out of a window."""
            seen.append(city)
            return RESULT
        told = agent.run_sync(QUESTION).output
        assert seen == ["Rome"], seen
        return told

    def structured(self):
        return self.agent(output_type=pydantic_ai.NativeOutput(Weather)).run_sync(QUESTION).output.model_dump()


class Responses(Chat):
    def made(self):
        return OpenAIResponsesModel(self.model, provider=OpenAIProvider(base_url=self.url + "/v1", api_key="none"))


class Messages(Chat):
    greedy = {"extra_body": {"temperature": 0}}

    def made(self):
        return AnthropicModel(self.model, provider=AnthropicProvider(anthropic_client=anthropic.AsyncAnthropic(
            base_url=self.url, api_key="none", max_retries=0)))

    def structured(self):
        return self.agent(output_type=pydantic_ai.ToolOutput(Weather)).run_sync(QUESTION).output.model_dump()


class Ollama(Chat):
    def made(self):
        return OllamaModel(self.model, provider=OllamaProvider(base_url=self.url + "/v1"))


ROWS = {"pydantic-ai, chat": Chat, "pydantic-ai, responses": Responses, "pydantic-ai, anthropic": Messages,
        "pydantic-ai, ollama": Ollama}
