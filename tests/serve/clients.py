#!/usr/bin/env python3
"""What client programs sent, recorded, to ng-serve: each request is answered as its API says.

    python3 tests/serve/clients.py build/bin/ng-serve [FOLDER]

tests/data/serve/clients.json has the requests of some libraries and what they sent, or each file of a folder those of
one; the model has a template with tools. Embeddings, which no model of ng gives, are refused in the API's own words.
Exits 1 where something is otherwise.
"""
import json
import pathlib
import sys
import tempfile

from clients_template import TEMPLATE
from server import ask, served

TESTS = pathlib.Path(__file__).resolve().parents[1]
CLIENTS = json.loads((TESTS / "data" / "serve" / "clients.json").read_text())


def parts_of(path, body, text):
    """The parts of an answer that must be there, whole or in its stream."""
    if body.get("stream"):
        lines = [line for line in text.splitlines() if line]
        assert lines[-1] == "data: [DONE]", text
        pieces = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert pieces[-1]["choices"] == [] and pieces[-1]["usage"]["completion_tokens"] > 0, text
        if body.get("tool_choice") == "required":
            return any(choice["delta"].get("tool_calls") for piece in pieces for choice in piece["choices"])
        return pieces[0]["choices"][0]["delta"]["role"]
    answer = json.loads(text)
    return {"/v1/chat/completions": lambda: answer["choices"][0]["message"]["role"],
            "/v1/responses": lambda: answer["output"][0]["type"],
            "/v1/messages": lambda: answer["stop_reason"],
            "/v1/messages/count_tokens": lambda: answer["input_tokens"],
            "/api/chat": lambda: answer["message"]["role"],
            "/api/generate": lambda: answer["done_reason"]}[path]()


def recorded(folder):
    """The requests of each client, by its name."""
    if folder is None:
        return CLIENTS
    return {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))}


def main():
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "calls.jinja"
        template.write_text(TEMPLATE)
        with served(sys.argv[1], f"--tokenizer.chat_template={template}") as (url, _):
            for name, requests in recorded(sys.argv[2] if len(sys.argv) > 2 else None).items():
                for request in requests:
                    path, body = request["path"], request["body"] | {"model": "demo"}
                    status, text = ask(url + path, body, request["headers"])
                    if path == "/api/embed":
                        assert status == 400 and list(json.loads(text)) == ["error"], text
                        continue
                    assert status == 200, (name, path, text)
                    assert parts_of(path, body, text), (name, path, text)
                print("ok", name, len(requests), "requests")


if __name__ == "__main__":
    main()
