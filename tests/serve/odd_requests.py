#!/usr/bin/env python3
"""Hostile and odd requests to ng-serve, by the words of the APIs' own documentation.

    python3 tests/serve/odd_requests.py build/bin/ng-serve

tests/data/serve/odd_requests.json has most of them: for each path a body that is right and cases
of [what is otherwise, status, param]; and whole requests as they go over the wire. Those that are
large or packed are made here. No reply may have a path of the server's disk, none a status of 500
or more, and after all of them the server answers as before. Exits 1 where something is otherwise.
"""
import contextlib
import gzip
import json
import pathlib
import re
import socket
import sys
import tempfile
import zlib

from server import served

TESTS = pathlib.Path(__file__).resolve().parents[1]
CASES = json.loads((TESTS / "data" / "serve" / "odd_requests.json").read_text())
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USER = {"role": "user", "content": "x"}
CALL = [USER, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"}]

# As many published templates have it: a text is added to a text, so null fails.
TEMPLATE = """{%- for m in messages %}{{ '<' + m.role + '>' + m.content }}
{% endfor %}{% if messages[0].content == 'fail' %}{{ 'a' + 1 }}{% endif %}
{%- if mood is defined %}{{ 'mood: ' + mood }}{% endif %}"""


class Client:
    def __init__(self, url, hidden):
        self.port = int(url.rsplit(":", 1)[1])
        self.hidden = hidden
        self.n = 0

    def raw(self, request, head=False):
        """Status, headers and body of the reply to bytes."""
        self.n += 1
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 60)) as client:
            with contextlib.suppress(ConnectionError):  # it need not read all
                client.sendall(request)
                client.shutdown(socket.SHUT_WR) if head else None
            got = b""
            with contextlib.suppress(ConnectionError):
                while not self.whole(got, head) and (more := client.recv(65536)):
                    got += more
        start, _, body = got.partition(b"\r\n\r\n")
        assert start.startswith(b"HTTP/1.1 "), (request[:200], got[:200])
        for path in self.hidden:
            assert path.encode() not in got, (path, request[:300], got)
        return int(start.split(b" ", 2)[1]), start.decode().lower(), body.decode()

    @staticmethod
    def whole(got, head):
        start, end, body = got.partition(b"\r\n\r\n")
        if not end or head:
            return False  # of HEAD all that comes
        length = re.search(rb"(?i)content-length: (\d+)", start)
        return len(body) >= int(length.group(1)) if length else body.endswith(b"0\r\n\r\n")

    def post(self, path, body, headers=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
        return self.raw(head.encode() + data)

    def expect(self, path, body, status, param=None, headers="", has=""):
        told, _, text = self.post(path, body, headers)
        shown = (path, body if len(str(body)) < 500 else str(body)[:500], told, text[:500])
        assert told == status, shown
        assert has in text, shown
        if status != 200 and ("/messages" in path or "/api/" in path):  # they have no field for the name
            error = json.loads(text)
            assert list(error) == (["error"] if "/api/" in path else ["type", "error"]), shown
            assert (param or "") in (error["error"] if "/api/" in path else error["error"]["message"]), shown
        elif status != 200:
            error = json.loads(text)["error"]
            assert error["param"] == param, shown
            assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error"), shown
        return text


def made(value):
    """A value of the data, whose longest ones are written short."""
    if isinstance(value, str) and value.startswith("$ids "):
        return [5] * int(value.split()[1])
    if isinstance(value, dict):
        return {key: made(one) for key, one in value.items()}
    return value


def check_data(client):
    wrong = []
    for path, group in CASES.items():
        for more, *expected in group["cases"] if path != "raw" else ():
            try:
                client.expect(path, {**group["base"], **made(more)}, *(expected or [200]))
            except AssertionError as error:
                wrong.append(str(error))
    for request, status in CASES["raw"]:
        data = request.replace("$long", "x" * 20000).encode("utf-8", "surrogatepass")
        head = request.startswith("HEAD ")
        told, start, body = client.raw(data, head)
        if told != status or head and (body or "content-length: 0" in start):
            wrong.append(str((request[:300], told, start, body)))
    assert not wrong, "\n".join(wrong)


def check_packed(client):
    right = json.dumps({"model": "demo", "prompt": "x", "max_tokens": 1}).encode()
    whole = gzip.compress(right)
    named = b"\x1f\x8b\x08\x1e" + whole[4:10] + b"\x02\x00ab" + b"name\0" + b"comment\0" + b"hc" + whole[10:]
    header = "Content-Encoding: gzip\r\n"
    for body in (whole, named, gzip.compress(right[:9]) + gzip.compress(right[9:])):
        client.expect(COMPLETIONS, body, 200, headers=header)
    client.expect(COMPLETIONS, whole, 200, headers="Content-Encoding: X-GZip\r\n")
    broken = bytearray(whole)
    broken[-6] ^= 1  # of the sum
    for body in (b"", whole[:-1], whole[:-9], whole[:15], whole + b"x", bytes(broken), right, zlib.compress(right),
                 b"\x1f\x8b\x08\xe0" + whole[4:], b"\x1f\x8b\x08\x04" + whole[4:10] + b"\xff\xff"):
        client.expect(COMPLETIONS, body, 400, headers=header)
    # A bomb: 2 GB of blanks in 2 MB.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blanks = b" " * (1 << 20)
    bomb = b"".join(packer.compress(blanks) for _ in range(2000)) + packer.flush()
    client.expect(COMPLETIONS, bomb, 413, headers=header, has="serve.max_body_bytes")
    assert client.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
                      header.encode() + b"\r\n" + f"{len(whole):x}\r\n".encode() + whole + b"\r\n0\r\n\r\n")[0] == 200


def check_large(client):
    right = {"model": "demo", "max_tokens": 1}
    text = right | {"prompt": "x"}
    keys = {f"k{i}": 1 for i in range(40_000)}
    client.expect(COMPLETIONS, text | {"metadata": keys}, 200)
    client.expect(COMPLETIONS, text | {"x": keys}, 400, "x")
    client.expect(COMPLETIONS, text | {"logit_bias": {str(i): 1 for i in range(1024)}}, 200)
    client.expect(COMPLETIONS, text | {"logit_bias": {str(i): 1 for i in range(40_000)}}, 400, "logit_bias")
    client.expect(COMPLETIONS, text | {"logit_bias": {"0" * 100_000 + "5": 1}}, 200)
    client.expect(COMPLETIONS, text | {"stop": ["x" * 100_000] * 16}, 200)
    client.expect(COMPLETIONS, right | {"prompt": "x" * 1_000_000}, 400, "prompt")
    client.expect(COMPLETIONS, right | {"prompt": ["x"] * 1000}, 400, "n")
    client.expect(COMPLETIONS, right | {"prompt": [5] * 400_000}, 400)
    client.expect(CHAT, right | {"messages": [USER] * 80_001}, 400, "messages")
    client.expect(CHAT, right | {"messages": [{"role": "user", "content": "x" * 1_000_000}]}, 400, "messages")
    client.expect(CHAT, right | {"messages": [{"role": "user", "content": "x", "name": "y" * 1_000_000}]}, 200)
    client.expect(CHAT, right | {"messages": [USER], "chat_template_kwargs": keys}, 200)
    client.expect(CHAT, right | {"messages": [USER], "tools": [{"x": keys}], "tool_choice": "none"}, 200)
    for depth, param in ((30, "x"), (100, "x" + ".x" * 35)):
        nested = b'{"x":' * depth + b"1" + b"}" * depth
        client.expect(COMPLETIONS, b'{"model":"demo","prompt":"x","x":' + nested + b"}", 400, param)
    client.expect(COMPLETIONS, b"[" * 1_000_000, 400)
    client.expect(COMPLETIONS, b'{"model":"demo","prompt":"\xff\xfe"}', 400, "prompt")
    client.expect(COMPLETIONS, b'{"model":"demo","prompt":"x\0"}', 400)
    client.expect(CHAT, rb'{"model":"demo","messages":[{"role":"user","content":"\udc00"}]}', 400, "messages.content")


def check_templates(program):
    """A template of a file's: what fails in it is the client's to read, without where the file is."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "odd.jinja"
        path.write_text(TEMPLATE)
        with served(program, f"--tokenizer.chat_template={path}") as (url, _):
            client = Client(url, HIDDEN + [folder])
            right = {"model": "demo", "max_tokens": 1}
            ids = client.expect("/tokenize", {"messages": CALL}, 200)
            assert ids == client.expect("/tokenize", {"messages": [CALL[0], CALL[1] | {"content": ""}, CALL[2]]}, 200)
            client.expect(CHAT, right | {"messages": CALL}, 200)
            client.expect(CHAT, right | {"messages": [{"role": "user", "content": "fail"}]}, 400, "messages",
                          has="odd.jinja: line 2")
            client.expect(CHAT, right | {"messages": [USER], "chat_template_kwargs": {"mood": 3}}, 400, "messages",
                          has="line 3")
            told = client.expect("/tokenize", {"messages": [USER], "chat_template_kwargs": {"mood": "good"}}, 200)
            assert told != client.expect("/tokenize", {"messages": [USER]}, 200)
            return client.n


def check_logprobs(client):
    """Each id of an answer has its entry, whole and in a stream: also one that ends it."""
    for path, body in ((COMPLETIONS, {"prompt": "x", "logprobs": 1}), (CHAT, {"messages": [USER], "logprobs": True})):
        for more in ({"logit_bias": {"5": 100}}, {"stop": "e"}, {"seed": 3}):
            body = body | more | {"model": "demo", "max_tokens": 100, "return_token_ids": True}
            (choice,) = json.loads(client.expect(path, body, 200))["choices"]
            entries = choice["logprobs"]["tokens" if path == COMPLETIONS else "content"]
            assert len(entries) == len(choice["token_ids"]), (path, more, choice)
            n = ids = 0
            for line in client.expect(path, body | {"stream": True}, 200).splitlines():
                if line.startswith("data: {"):
                    (choice,) = json.loads(line[6:])["choices"]
                    ids += len(choice["token_ids"])
                    told = choice["logprobs"] or {"tokens": [], "content": []}
                    n += len(told["tokens" if path == COMPLETIONS else "content"])
            assert n == ids == len(entries), (path, more, n, ids, len(entries))


HIDDEN = [str(TESTS.parent), "/usr/", "/proc/"]


def main():
    program = sys.argv[1]
    HIDDEN.append(str(pathlib.Path(program).resolve().parents[1]))
    with served(program, "--cache.max_sequences=8") as (url, process):
        client = Client(url, HIDDEN)
        plain = {"model": "demo", "prompt": "To be", "max_tokens": 30, "seed": 5}
        first = json.loads(client.expect(COMPLETIONS, plain, 200))["choices"]
        for check in (check_data, check_packed, check_large, check_logprobs):
            check(client)
            print("ok", check.__name__, client.n, "requests", flush=True)
        assert json.loads(client.expect(COMPLETIONS, plain, 200))["choices"] == first
        assert process.poll() is None
    print("ok check_templates", check_templates(program), "requests")


if __name__ == "__main__":
    main()
