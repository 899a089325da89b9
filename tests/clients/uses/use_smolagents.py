"""smolagents: its model for servers with OpenAI's API, and its agent that calls tools."""
import json

import smolagents
from smolagents.models import ChatMessage, MessageRole

from uses.common import CALL, CITIES, MOST, QUESTION, RESULT, TOLD, Library, Weather, call_of


class Look(smolagents.Tool):
    name = "look"
    description = "Looks out of a window."
    inputs = {"city": {"type": "string", "description": "where", "enum": list(CITIES)}}
    output_type = "string"
    seen = []

    def forward(self, city):
        assert city == "Rome"
        return RESULT


class Chat(Library):
    script = (CALL, call_of("final_answer", json.dumps({"answer": TOLD})))

    def made(self, most=300):
        return smolagents.OpenAIModel(self.model, api_base=self.url + "/v1", api_key="none", temperature=0,
                                      max_tokens=most, client_kwargs={"max_retries": 0})

    asked = [ChatMessage(role=MessageRole.USER, content=QUESTION)]

    def plain(self):
        return self.made(MOST).generate(self.asked).content

    def stream(self):
        return "".join(piece.content or "" for piece in self.made(MOST).generate_stream(self.asked))

    def forced(self):
        (call,) = self.made().generate(self.asked, tools_to_call_from=[Look()]).tool_calls[:1]
        return call.function.name, json.loads(call.function.arguments)

    def loop(self):
        agent = smolagents.ToolCallingAgent(tools=[Look()], model=self.made(), max_steps=2, verbosity_level=0,
                                            stream_outputs=True)
        return agent.run(QUESTION)

    def structured(self):
        form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": Weather.model_json_schema()}}
        return json.loads(self.made().generate(self.asked, response_format=form).content)


ROWS = {"smolagents": Chat}
