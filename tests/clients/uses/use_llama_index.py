"""llama-index: as it asks servers with OpenAI's API and Ollama's."""
import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama as OllamaModel
from llama_index.llms.openai_like import OpenAILike

from uses.common import MOST, QUESTION, RESULT, City, Library, Weather


class Chat(Library):
    asked = [ChatMessage(role="user", content=QUESTION)]

    def made(self, most=300):
        return OpenAILike(model=self.model, api_base=self.url + "/v1", api_key="none", temperature=0, max_tokens=most,
                          max_retries=0, is_chat_model=True, is_function_calling_model=True, context_window=8192)

    def tool(self, seen):
        def look(city: City) -> str:
            """Looks out of a window."""
            seen.append(city)
            return RESULT
        return FunctionTool.from_defaults(look)

    def plain(self):
        return self.made(MOST).chat(self.asked).message.content

    def stream(self):
        return "".join(piece.delta or "" for piece in self.made(MOST).stream_chat(self.asked))

    def forced(self):
        made = self.made()
        answer = made.chat_with_tools([self.tool([])], user_msg=QUESTION, tool_required=True)
        (call,) = made.get_tool_calls_from_response(answer)
        return call.tool_name, call.tool_kwargs

    def loop(self):
        seen = []

        async def run():
            return str(await FunctionAgent(tools=[self.tool(seen)], llm=self.made()).run(user_msg=QUESTION))
        told = asyncio.run(run())
        assert seen == ["Rome"], seen
        return told

    def structured(self):
        return self.made().structured_predict(Weather, PromptTemplate(QUESTION)).model_dump()


class Ollama(Chat):
    scripted_calls = True

    def made(self, most=300):
        return OllamaModel(model=self.model, base_url=self.url, temperature=0, request_timeout=120, context_window=4096,
                           additional_kwargs={"num_predict": most})


ROWS = {"llama-index, openai-like": Chat, "llama-index, ollama": Ollama}
