#!/usr/bin/env python3
"""A stream beside hostile requests to ng-serve.

    python3 tests/serve/hostile.py build/bin/ng-serve
    python3 tests/serve/hostile.py build/bin/ng-serve --requests 10000 --gap 0.25 --end 1 \
        --model.path=MODEL.gguf --run.threads=1

Each kind of request is sent while a stream is read. The stream's ids stay the same, and it goes on while a
request is worked on. No reply is a 5xx. In the middle of the worst, SIGTERM ends the server with 0. With
--requests, so many more are sent from 8 clients at once, in random order. --gap and --end are the longest
gap in the stream beyond its usual one and the longest end, in seconds: the tests have generous ones, since
other programs take the CPUs too. --kinds NAME,NAME are these kinds alone. What else is given is the
server's. Exits 1 where something is otherwise.
"""
import concurrent.futures
import contextlib
import http.client
import json
import multiprocessing
import random
import signal
import socket
import struct
import sys
import time

from faults import request_of
from hostile_kinds import COMPLETIONS, KINDS, WORST
from server import ask, served

ROOM = ("--cache.max_sequences=8", "--serve.read_seconds=2", "--serve.write_seconds=2")
NOTICED = 0.5  # seconds: a request that takes longer must not have stopped the stream


# Clients: these have the connection to themselves.

def begin(client, body):
    connection = client.connect()
    connection.sendall(request_of(client.named(body), COMPLETIONS))
    return connection


def leaves_at_once(client):
    """While its grammar is made; in the middle of its stream; with a reset."""
    for body in (WORST[0]()[1], {"prompt": "x", "max_tokens": 100, "stream": True}):
        with begin(client, body) as connection:
            time.sleep(0.05)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return []


def sends_half(client):
    whole = request_of(client.named({"prompt": "x" * 1000}), COMPLETIONS)
    with client.connect() as connection:
        connection.sendall(whole[:-500])
        return [client.status_on(connection)]


def sends_drops(client):
    with client.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(300):
            connection.sendall(b"1\r\n \r\n")
            time.sleep(0.01)
        return [client.status_on(connection)]
    return []


def reads_nothing(client):
    body = {"prompt": [f"{i} " + "words " * 40 for i in range(60)], "max_tokens": 0, "echo": True, "logprobs": 20}
    with client.connect(4096) as connection:
        connection.sendall(request_of(client.named(body), COMPLETIONS))
        time.sleep(3)
    return []


def asks_before_it_reads(client):
    with client.connect() as connection:
        connection.sendall(request_of(client.named({"prompt": "x", "max_tokens": 1}), COMPLETIONS) * 50)
        return [client.status_on(connection)]


def speaks_no_http(client):
    with client.connect() as connection:
        connection.sendall(random.randbytes(100_000) + b"\r\n\r\n")
        return [client.status_on(connection)]


def long_headers(client):
    with client.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 10_000_000)
        return [client.status_on(connection)]
    return []


CLIENTS = (leaves_at_once, sends_half, sends_drops, reads_nothing, asks_before_it_reads, speaks_no_http, long_headers)


class Client:
    def __init__(self, url):
        self.port = int(url.rsplit(":", 1)[1])
        (model,) = json.loads(ask(url + "/v1/models")[1])["data"]
        self.model = model["id"]
        self.made = {}  # bodies by kind

    def named(self, body):
        return {"model": self.model} | body

    def connect(self, receive_bytes=None):
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(120)
        connection.connect(("127.0.0.1", self.port))
        return connection

    @staticmethod
    def status_on(connection):
        got = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n" not in got and (more := connection.recv(65536)):
                got += more
        return int(got.split(b" ", 2)[1]) if got else None

    def make(self, name):
        path, body, *headers = KINDS[name]()
        data = body if isinstance(body, bytes) else json.dumps(self.named(body)).encode()
        return path, data, *headers

    def ask(self, path, data, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        with contextlib.closing(connection):
            try:
                connection.request("POST", path, data, headers or {})
                reply = connection.getresponse()
                reply.read()
            except (BrokenPipeError, ConnectionResetError):
                return None  # it need not read all
            return reply.status

    def attack(self, name):
        """The statuses of the replies."""
        if name in KINDS:
            asked = self.made.get(name) or self.make(name)
            if name != "new_settings":
                self.made[name] = asked
            return [self.ask(*asked)]
        return next(one for one in CLIENTS if one.__name__ == name)(self)


def read_stream(client):
    """The ids of a stream, and when its events came."""
    body = {"prompt": "It is", "max_tokens": 200, "seed": 7, "stream": True, "return_token_ids": True, "ignore_eos": True}
    ids, times, rest = [], [], b""
    with client.connect() as connection:
        connection.sendall(request_of(client.named(body), COMPLETIONS))
        while b"[DONE]" not in rest:
            more = connection.recv(65536)
            assert more, (rest, "the stream ends")
            now = time.monotonic()
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    assert "error" not in event, event
                    times.append(now)
                    ids += event["choices"][0].get("token_ids") or []
                if b"[DONE]" in line:
                    rest = line
    return ids, times


def witness(url, pipe):
    """Reads streams, one after the other, until something comes; says what it saw of each."""
    client = Client(url)
    while not pipe.poll():
        pipe.send(read_stream(client))
    pipe.send(None)


def largest_gap(times):
    return max((after - before for before, after in zip(times, times[1:])), default=0.0)


@contextlib.contextmanager
def beside_a_stream(url, seen):
    """Fills `seen` with all streams that were read while the block ran."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=witness, args=(url, there))
    process.start()
    first = here.recv()
    assert first is not None
    try:
        yield
    finally:
        here.send(None)
        seen.append(first)
        while (one := here.recv()) is not None:
            seen.append(one)
        process.join()


def check_kind(url, client, name, known, usual, most):
    seen = []
    with beside_a_stream(url, seen):
        if name in KINDS and name != "new_settings":
            client.made[name] = client.make(name)  # not while the time counts
        begun = time.monotonic()
        statuses = client.attack(name)
        ended = time.monotonic()
    assert all(status is None or status < 500 for status in statuses), (name, statuses)
    for ids, _ in seen:
        assert ids == known, (name, ids, known)
    gap = max(largest_gap(times) for _, times in seen)
    events = [at for _, times in seen for at in times]
    during = sum(begun < at < ended for at in events)
    print(f"{name}: {statuses} after {ended - begun:.2f} s, {during} events beside it, longest gap {gap:.3f} s", flush=True)
    if ended - begun > NOTICED:
        assert during > 0, (name, "the stream stood still")
    assert gap - usual <= most, (name, gap, usual)
    return gap


def check_end(program, options, most):
    """SIGTERM while the worst are worked on."""
    with served(program, *ROOM, *options) as (url, process):
        client = Client(url)
        requests = [client.make(make.__name__) for make in WORST]
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            asked = [pool.submit(client.ask, *request) for request in requests]
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            begun = time.monotonic()
            assert process.wait(timeout=100) == 0
            took = time.monotonic() - begun
            with contextlib.suppress(http.client.HTTPException, OSError):
                print("SIGTERM:", [one.result() for one in asked])
    print(f"ended after {took:.2f} s", flush=True)
    assert took <= most, took


def rss_kb(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def check_many(url, client, process, names, n, known):
    order = random.Random(1)
    chosen = [order.choice(names) for _ in range(n)]
    seen, statuses, begun = [], {}, time.monotonic()
    with beside_a_stream(url, seen), concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i, told in enumerate(pool.map(client.attack, chosen)):
            for status in told:
                statuses[status] = statuses.get(status, 0) + 1
            if i % 500 == 0:
                print(f"{i} requests, {time.monotonic() - begun:.0f} s, {rss_kb(process)} KB", flush=True)
    assert all(status is None or status < 500 for status in statuses), statuses
    for ids, _ in seen:
        assert ids == known, (ids, known)
    gaps = sorted(largest_gap(times) for _, times in seen)
    print(f"{n} requests: statuses {statuses}; {len(seen)} streams beside them, longest gaps {gaps[-3:]}; {rss_kb(process)} KB")


def main():
    program, *options = sys.argv[1:]
    given = {}
    while options and options[0] in ("--requests", "--gap", "--end", "--kinds"):
        given[options[0]], options = options[1], options[2:]
    names = given.get("--kinds", "").split(",") if "--kinds" in given else \
        list(KINDS) + [one.__name__ for one in CLIENTS]
    most = float(given.get("--gap", 10))
    with served(program, *ROOM, *options) as (url, process):
        client = Client(url)
        known, _ = read_stream(client)
        seen = []
        with beside_a_stream(url, seen):
            time.sleep(2)
        usual = max(largest_gap(times) for _, times in seen)
        print(f"{len(names)} kinds; alone the longest gap is {usual:.3f} s, {rss_kb(process)} KB", flush=True)
        worst = max(check_kind(url, client, name, known, usual, most) for name in names)
        print(f"the longest gap of all is {worst:.3f} s, {rss_kb(process)} KB")
        if "--requests" in given:
            check_many(url, client, process, names, int(given["--requests"]), known)
        assert read_stream(client)[0] == known
        assert process.poll() is None
    check_end(program, options, float(given.get("--end", 10)))
    print("ok")


if __name__ == "__main__":
    main()
