"""DSPy: by its own way to servers, and by litellm."""
import asyncio
import json

import dspy
import dspy.lm15
import litellm

from uses.common import CALL, MOST, QUESTION, RESULT, TOLD, City, Library, Weather, call_of

# What a server can do must be told of one that DSPy and litellm do not know.
CAN = {"function_calling": True, "response_schema": True}
litellm.register_model({"openai/smol": {"litellm_provider": "openai", "mode": "chat", "supports_function_calling": True,
                                        "supports_response_schema": True}})


class Call(dspy.Signature):
    """Answer the question by a call."""
    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


class Own(Library):
    engine, kind = "lm15", "ng/"
    script = (CALL, call_of("submit", json.dumps({"answer": TOLD})))

    def lm(self, most=300):
        dspy.lm15.register_provider(
            dspy.lm15.ProviderDefinition.chat(
                dspy.lm15.AccessPolicy(provider="ng", base_url=self.url + "/v1", env_keys=()),
                compat=dspy.lm15.OpenAIChatCompat()), supports=dspy.lm15.ModelSupport(**CAN), replace=True)
        return dspy.LM(self.kind + self.model, api_base=self.url + "/v1", api_key="none", temperature=0, max_tokens=most,
                       cache=False, num_retries=0, engine=self.engine)

    def plain(self):
        return self.lm(MOST)(QUESTION)[0]

    def stream(self):
        # A stream is that of a program's field. It ends as the whole answer does.
        program = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[dspy.streaming.StreamListener("answer")])

        async def read():
            with dspy.context(lm=self.lm(200), adapter=dspy.JSONAdapter()):
                return [piece async for piece in program(question=QUESTION)]
        pieces = asyncio.run(read())
        streamed = "".join(piece.chunk for piece in pieces[:-1])
        assert streamed.strip(" \"\n}") == pieces[-1].answer.strip(), (streamed, pieces[-1])
        return self.plain()

    def look(self, seen):
        def look(city: City) -> str:
            """Looks out of a window."""
            seen.append(city)
            return RESULT
        return look

    def forced(self):
        with dspy.context(lm=self.lm(), adapter=dspy.ChatAdapter(use_native_function_calling=True)):
            predict = dspy.Predict(Call)
            (call,) = predict(config={"tool_choice": "required"}, question=QUESTION, tools=[dspy.Tool(self.look([]))]).calls.tool_calls[:1]
        return call.name, call.args

    def loop(self):
        seen = []
        with dspy.context(lm=self.lm(), adapter=dspy.ChatAdapter(use_native_function_calling=True)):
            told = dspy.ReActV2("question -> answer", tools=[self.look(seen)])(question=QUESTION)
        assert seen == ["Rome"], seen
        return told.answer

    def structured(self):
        with dspy.context(lm=self.lm(), adapter=dspy.JSONAdapter()):
            return dspy.Predict(dspy.Signature("question -> weather: Weather", custom_types={"Weather": Weather}))(
                question=QUESTION).weather.model_dump()


class LiteLlm(Own):
    engine, kind = "litellm", "openai/"


ROWS = {"dspy, own": Own, "dspy, litellm": LiteLlm}
