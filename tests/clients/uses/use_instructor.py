"""instructor: by a tool, by a schema, and by Anthropic's messages.

Its loop is that it asks once more for an answer that is not valid.
"""
import anthropic
import instructor
import openai
import pydantic

from uses.common import ASKED, MOST, TOLD, City, Library, Weather, call_of


class Look(pydantic.BaseModel):
    """Looks out of a window."""
    city: City


class Roman(pydantic.BaseModel):
    """The city that was asked for."""
    city: City

    @pydantic.field_validator("city")
    @classmethod
    def is_rome(cls, city):
        assert city == "Rome", "only Rome will do"
        return city


class Tools(Library):
    mode = instructor.Mode.TOOLS
    greedy = {"temperature": 0}
    script = (call_of("Roman", '{"city": "Oslo"}'), call_of("Roman", '{"city": "Rome"}'))

    def client(self):
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        return instructor.from_openai(client, mode=self.mode)

    def ask(self, form, **more):
        settings = self.greedy | {"max_tokens": 300, "max_retries": 0} | more
        return self.client().create(model=self.model, messages=ASKED, response_model=form, **settings)

    def plain(self):
        return self.ask(None, max_tokens=MOST).choices[0].message.content

    def stream(self):
        pieces = self.ask(None, max_tokens=MOST, stream=True)
        return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)

    def forced(self):
        return "look", self.ask(Look).model_dump()

    def loop(self):
        assert self.ask(Roman, max_retries=1).city == "Rome"
        return TOLD

    def structured(self):
        settings = self.greedy | {"max_tokens": 300, "max_retries": 0}
        for part in self.client().create_partial(model=self.model, messages=ASKED, response_model=Weather, **settings):
            last = part
        assert last.model_dump() == self.ask(Weather).model_dump()
        return last.model_dump()


class Schema(Tools):
    mode = instructor.Mode.JSON_SCHEMA
    script = ('{"city": "Oslo"}', '{"city": "Rome"}')


class Messages(Tools):
    greedy = {"extra_body": {"temperature": 0}}

    def client(self):
        client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        return instructor.from_anthropic(client, mode=instructor.Mode.TOOLS)

    def plain(self):
        return self.ask(None, max_tokens=MOST).content[0].text

    def stream(self):
        events = self.ask(None, max_tokens=MOST, stream=True)
        return "".join(event.delta.text for event in events if event.type == "content_block_delta")


ROWS = {"instructor, tools": Tools, "instructor, schema": Schema, "instructor, anthropic": Messages}
