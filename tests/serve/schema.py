#!/usr/bin/env python3
"""Holds what ng-serve answers against OpenAI's published schema.

    python3 tests/serve/schema.py build/bin/ng-serve

tests/data/serve/openai.json has the schema and, of each request, all published fields. A field is
supported, changes nothing, or is refused by its name. Exits 1 where an answer differs, 77 where python3-jsonschema is
missing.
"""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError as error:
    print(f"needs the Debian package python3-jsonschema: {error}")
    sys.exit(77)

from server import ask, served

TESTS = pathlib.Path(__file__).resolve().parents[1]
PUBLISHED = json.loads((TESTS / "data" / "serve" / "openai.json").read_text())
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
WHOLE = {COMPLETIONS: "completion", CHAT: "chat", RESPONSES: "response"}
PIECE = {COMPLETIONS: "completion_piece", CHAT: "chat_piece", RESPONSES: "response_event"}


def check(kind, text):
    """The JSON of an answer, which must be of this kind."""
    value = json.loads(text)
    schema = {"$defs": PUBLISHED["$defs"], "$ref": f"#/$defs/{kind}"}
    jsonschema.Draft202012Validator(schema).validate(value)
    return value


def least(path, **more):
    return PUBLISHED["requests"][path]["least"] | more


def whole(url, path, **more):
    status, text = ask(url + path, least(path, **more))
    assert status == 200, (path, more, text)
    return check(WHOLE[path], text)


def refused(url, path, status, body=None, headers=None):
    told, text = ask(url + path, body, headers)
    assert told == status, (path, body, told, text)
    return check("error", text)["error"]


def streamed(url, path, **more):
    status, text = ask(url + path, least(path, stream=True, **more))
    assert status == 200, (path, more, text)
    pieces = []
    for event in text.split("\n\n"):
        lines = event.split("\n")
        name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else None
        data = "\n".join(lines).removeprefix("data: ")
        if data in ("", "[DONE]"):
            continue
        pieces.append(check(PIECE[path], data))
        assert name == pieces[-1].get("type"), event
    return pieces


def check_whole_answers(url):
    assert check("models", ask(url + "/v1/models")[1])["data"] == [check("model", ask(url + "/v1/models/demo")[1])]
    for more in ({}, {"logprobs": 3, "echo": True, "n": 2}, {"return_token_ids": True}, {"max_tokens": 0},
                 {"prompt": ["a", "b"], "max_tokens": 5, "logprobs": 0}):
        whole(url, COMPLETIONS, **more)
    for more in ({}, {"logprobs": True, "top_logprobs": 3, "n": 2, "max_tokens": 9}, {"return_token_ids": True}):
        whole(url, CHAT, **more)
    assert whole(url, RESPONSES)["status"] == "incomplete"
    assert whole(url, RESPONSES, max_output_tokens=None, instructions="x", temperature=0)["status"] == "completed"


def check_streams(url):
    with_usage = {"stream_options": {"include_usage": True}}
    for path, logprobs in ((COMPLETIONS, 2), (CHAT, True)):
        pieces = streamed(url, path, n=2, max_tokens=9, return_token_ids=True, logprobs=logprobs, **with_usage)
        *others, last = pieces
        assert last["choices"] == [] and last["usage"]["completion_tokens"] > 2, last
        # The published words: where usage is asked for, the other pieces have null.
        assert all(piece["usage"] is None for piece in others), others
        assert all("usage" not in piece for piece in streamed(url, path))
        for choice in range(2):
            reasons = [one["finish_reason"] for piece in others for one in piece["choices"] if one["index"] == choice]
            assert reasons[-1] == "length" and not any(reasons[:-1]), reasons
    events = streamed(url, RESPONSES, max_output_tokens=9)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events if event["type"] != "response.output_text.delta"] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.incomplete"], events


def check_fields(url):
    """Each published field, alone, with values that are supported and values that are not."""
    for path, request in PUBLISHED["requests"].items():
        for name, field in request["fields"].items():
            assert field.keys() <= {"accepts", "refuses"} and field, name
            for value in field.get("accepts", []) + [None] * (name not in request["least"]):
                whole(url, path, **{name: value})
            for value in field.get("refuses", []):
                error = refused(url, path, 404 if name == "model" and value == "" else 400, least(path, **{name: value}))
                assert error["param"].split(".")[0] == name, (path, name, value, error)
                assert error["type"] == "invalid_request_error", error
                if "accepts" not in field and name not in (
                        "model", "stream_options", "top_logprobs", "previous_response_id"):
                    assert error["code"] == "unsupported_parameter", (path, name, value, error)
    named = refused(url, CHAT, 400, least(CHAT, stream=True, stream_options={"include_obfuscation": True}))
    assert named["param"] == "stream_options.include_obfuscation", named
    named = refused(url, CHAT, 400, least(CHAT, messages=[{"role": "user", "content": "x", "audio": {"id": "a"}}]))
    assert named["param"] == "messages.audio", named
    assert whole(url, CHAT, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]


def check_errors(url):
    refused(url, "/v1/embeddings", 400, {"model": "demo", "input": "x"})
    for path in ("/v1/nothing", "/v1/models/other"):
        refused(url, path, 404)
    refused(url, COMPLETIONS, 405)
    refused(url, COMPLETIONS, 404, least(COMPLETIONS, model="gpt-4"))
    refused(url, COMPLETIONS, 400, [1])
    refused(url, "/tokenize", 400, {"model": "demo"})
    refused(url, "/v1/models", 403, headers={"Origin": "http://example.org"})
    error = refused(url, COMPLETIONS, 400, least(COMPLETIONS, prompt=[300] * 257))
    assert error["code"] == "context_length_exceeded", error
    assert whole(url, CHAT, max_tokens=100000)["usage"]["total_tokens"] <= 256
    refused(url, COMPLETIONS, 413, least(COMPLETIONS, prompt="x" * 5_000_000))


def check_errors_of_a_busy_server(program):
    """One that ends answers after a second, and one with a key."""
    slow = ("--run.stop_ids=", "--attention.name=reference", "--serve.answer_seconds=1", "--cache.max_tokens=0",
            "--run.on_full=recompute")
    with served(program, *slow) as (url, _):
        error = refused(url, COMPLETIONS, 503, least(COMPLETIONS, max_tokens=100000))
        assert error["code"] == "timeout", error
        *_, last = streamed(url, RESPONSES, max_output_tokens=100000)
        assert last["type"] == "error" and last["code"] == "timeout", last
    with served(program, "--serve.key=sesame") as (url, _):
        refused(url, "/v1/models", 401)
        check("models", ask(url + "/v1/models", headers={"Authorization": "Bearer sesame"})[1])


def main():
    program = sys.argv[1]
    with served(program) as (url, _):
        for one in (check_whole_answers, check_streams, check_fields, check_errors):
            one(url)
            print("ok", one.__name__)
    check_errors_of_a_busy_server(program)
    print("ok check_errors_of_a_busy_server")


if __name__ == "__main__":
    main()
