"""OpenAI's agents: by chat completions and by responses."""
import asyncio

import agents
import openai

from uses.common import MOST, QUESTION, RESULT, City, Library, Weather

agents.set_tracing_disabled(True)


class Chat(Library):
    most = {"max_tokens": MOST}
    model_class = agents.OpenAIChatCompletionsModel

    def agent(self, settings=None, **more):
        client = openai.AsyncOpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        return agents.Agent(name="weather", model=self.model_class(self.model, client),
                            model_settings=agents.ModelSettings(temperature=0, **settings or {}), **more)

    def tool(self, seen):
        @agents.function_tool
        def look(city: City) -> str:
            """Looks out of a window."""
            seen.append(("look", {"city": city}))
            return RESULT
        return look

    def plain(self):
        return agents.Runner.run_sync(self.agent(self.most), QUESTION).final_output

    def stream(self):
        async def read():
            answer = agents.Runner.run_streamed(self.agent(self.most), QUESTION)
            return [event.data.delta async for event in answer.stream_events()
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        return "".join(asyncio.run(read()))

    def forced(self):
        seen = []
        agent = self.agent({"tool_choice": "required", "parallel_tool_calls": False}, tools=[self.tool(seen)],
                           tool_use_behavior="stop_on_first_tool")
        assert agents.Runner.run_sync(agent, QUESTION).final_output == RESULT
        (call,) = seen
        return call

    def loop(self):
        seen = []
        told = agents.Runner.run_sync(self.agent(tools=[self.tool(seen)]), QUESTION)
        assert seen == [("look", {"city": "Rome"})], seen
        return told.final_output

    def structured(self):
        return agents.Runner.run_sync(self.agent(output_type=Weather), QUESTION).final_output.model_dump()


class Responses(Chat):
    # An answer that was cut is an error to it: this one ends.
    most = {"extra_body": {"guided_regex": "[A-Za-z ,]{60}"}}
    model_class = agents.OpenAIResponsesModel


ROWS = {"openai-agents, chat": Chat, "openai-agents, responses": Responses}
