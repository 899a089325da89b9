"""LangChain with its package for OpenAI: chat completions and responses."""
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from uses.common import MOST, QUESTION, RESULT, City, Library, Weather


@tool
def look(city: City) -> str:
    """Looks out of a window."""
    assert city == "Rome"
    return RESULT


class Chat(Library):
    responses = False

    def chat(self, **more):
        return ChatOpenAI(model=self.model, base_url=self.url + "/v1", api_key="none", temperature=0, max_retries=0,
                          use_responses_api=self.responses, **more)

    def plain(self):
        return self.chat(max_tokens=MOST).invoke(QUESTION).text

    def stream(self):
        return "".join(piece.text for piece in self.chat(max_tokens=MOST, stream_usage=True).stream(QUESTION))

    def forced(self):
        for choice in ("required", "look", "any"):
            bound = self.chat().bind_tools([look], tool_choice=choice, parallel_tool_calls=False)
            (call,) = bound.invoke(QUESTION).tool_calls
        return call["name"], call["args"]

    def loop(self):
        bound = self.chat().bind_tools([look])
        messages = [HumanMessage(QUESTION)]
        whole = None
        for piece in bound.stream(messages):
            whole = piece if whole is None else whole + piece
        (call,) = whole.tool_calls
        result = look.invoke(call)
        assert isinstance(result, ToolMessage)
        return bound.invoke([*messages, whole, result]).text

    def structured(self):
        for method in ("function_calling", "json_schema"):
            answer = self.chat().with_structured_output(Weather, method=method).invoke(QUESTION)
        return answer.model_dump()


class Responses(Chat):
    responses = True


ROWS = {"langchain-openai, chat": Chat, "langchain-openai, responses": Responses}
