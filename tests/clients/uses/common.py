"""What is asked by all libraries.

A class of the files beside this one is a row of the table: it says how one library is asked, and `libraries.py` looks at
what it returns. It is made for an address and a model's name, and has

- `plain()`: the text of an answer to QUESTION at temperature 0, of at most MOST tokens
- `stream()`: the same text, from a stream
- `forced()`: the name and arguments of the one call that an answer must have
- `loop()`: the last text of a conversation with CALL, the tool's result, and TOLD
- `structured()`: an answer in the form of Weather, as an object

`scripted_calls` is set where a library cannot say that a call must come; its call then comes by a script.
"""
import typing

import pydantic

QUESTION = "What is the weather in Rome?"
ASKED = [{"role": "user", "content": QUESTION}]
MOST = 24
CITIES = ("Rome", "Oslo")
City = typing.Literal["Rome", "Oslo"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": list(CITIES)}}, "required": ["city"],
          "additionalProperties": False}
FUNCTION = {"name": "look", "description": "Looks out of a window.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
RESULT = "sun over Rome"
TOLD = "It is sunny."
THOUGHT = "hm"
BEFORE = "So."


def call_of(name, arguments):
    """A call as the template writes it."""
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


CALL = f"<think>{THOUGHT}</think>{BEFORE}" + call_of("look", '{"city": "Rome"}')


class Weather(pydantic.BaseModel):
    """The weather in a city."""
    model_config = pydantic.ConfigDict(extra="forbid")
    city: City
    degrees: int = pydantic.Field(ge=-50, le=60)
    sunny: bool


class Library:
    """One library at one address."""
    scripted_calls = False
    script = (CALL, TOLD)  # what the model says in `loop`

    def __init__(self, url, model):
        self.url = url
        self.model = model
