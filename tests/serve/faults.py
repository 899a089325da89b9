#!/usr/bin/env python3
"""Treats ng-serve badly, twice, and says what it costs. By hand: some minutes.

    python3 tests/serve/faults.py build/bin/ng-serve

Clients leave in the middle, read nothing, send half a request, 10 MB, bytes that are no UTF-8 and no
HTTP, or 10,000 connections and nothing on them; a signal comes under load. All the while others are
answered, with the same text as alone. The second round must take no more memory and no more files
than the first. Exits 1 where something is otherwise. Needs `ulimit -Hn` of 15000.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import resource
import signal
import socket
import struct
import sys
import threading
import time

from server import served

DOCUMENTED = {200, 400, 401, 403, 404, 405, 408, 413, 429, 431, 500, 503}
PATH = "/v1/completions"
READ_SECONDS = 3
MOST_GROWTH_KB = 4096
ROOM = ("--cache.name=paged", "--cache.max_sequences=16", "--serve.max_queued=256", "--serve.max_connections=12000",
        f"--serve.read_seconds={READ_SECONDS}", f"--serve.write_seconds={READ_SECONDS}")


def body_of(number, **more):
    return {"model": "demo", "prompt": f"It is number {number % 7}", "seed": number, "max_tokens": 8 + number % 40} | more


def request_of(body, path=PATH):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class Faults:
    def __init__(self, url, process):
        self.port = int(url.rsplit(":", 1)[1])
        self.pid = process.pid
        self.random = random.Random(1)
        self.known = {number: self.text(number) for number in range(40)}

    def connect(self, receive_bytes=None):
        client = socket.socket()
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(60)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(self, body, path=PATH):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST" if body is not None else "GET", path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def text(self, number):
        status, answer = self.ask(body_of(number))
        assert status == 200, (status, answer)
        return json.loads(answer)["choices"][0]["text"]

    def metric(self, name):
        lines = self.ask(None, "/metrics")[1].splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name + " ")))

    def status_on(self, client):
        """The status of the reply, which must be documented; None where the connection ends without one."""
        got = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in got and (more := client.recv(65536)):
                got += more
        if not got:
            return None
        status = int(got.split(b" ", 2)[1])
        assert got.startswith(b"HTTP/1.1 ") and status in DOCUMENTED, got
        return status

    def rss_kb(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(next(line for line in status if line.startswith("VmRSS")).split()[1])

    def n_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def settle(self):
        """Waits until the server has nothing to do and nobody is there; the files that are open then."""
        for _ in range(600):
            if self.metric("ng_answers_active") + self.metric("ng_answers_waiting") == 0 and \
                    self.metric("ng_http_connections") == 1:
                time.sleep(0.3)  # for the connection of the question itself
                return self.n_files()
            time.sleep(0.1)
        raise AssertionError("the server does not come to rest")

    @contextlib.contextmanager
    def others(self):
        """Answers others, and compares, while the block runs."""
        over = threading.Event()

        def witness(which):
            n = 0
            while not over.is_set() or n == 0:
                number = (n * 7 + which) % len(self.known)
                assert self.text(number) == self.known[number], number
                n += 1
            return n
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            witnesses = [pool.submit(witness, which) for which in range(2)]
            try:
                yield
            finally:
                over.set()
            self.n_others = sum(one.result() for one in witnesses)

    # Each check says what it saw.

    def disconnects(self):
        def leave(seed):
            fate = random.Random(seed)
            request = request_of(body_of(seed, stream=fate.random() < 0.7, n=fate.choice((1, 1, 3))))
            with contextlib.closing(self.connect()) as client, contextlib.suppress(ConnectionError):
                how = fate.choice(("part", "sent", "later", "reading", "half"))
                if how == "part":
                    client.sendall(request[:fate.randrange(len(request))])
                    return
                client.sendall(request)
                if how == "half":
                    client.shutdown(socket.SHUT_WR)
                if how in ("later", "half"):
                    time.sleep(fate.random() / 10)
                if how == "reading":
                    client.recv(fate.randrange(1, 2000))
                if fate.random() < 0.5:  # with a reset in place of an end
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        cancelled, completed = self.metric("ng_answers_cancelled_total"), self.metric("ng_answers_completed_total")
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(leave, (self.random.randrange(10**6) for _ in range(1000))))
        self.settle_answers()
        return (f"{self.metric('ng_answers_cancelled_total') - cancelled:.0f} answers ended early, "
                f"{self.metric('ng_answers_completed_total') - completed:.0f} did not")

    def settle_answers(self):
        deadline = time.monotonic() + 60
        while self.metric("ng_answers_waiting") > 0:  # witnesses never wait: there is room
            assert time.monotonic() < deadline, "answers wait for ever"
            time.sleep(0.05)

    def slow_readers(self):
        slow = self.metric("ng_http_slow_readers_total")
        # Much text for little work: more than the system holds for a connection.
        prompts = [f"{i} " + "words " * 40 for i in range(200)]
        request = request_of({"model": "demo", "prompt": prompts, "max_tokens": 0, "echo": True, "logprobs": 20})
        for i in range(3):
            with contextlib.closing(self.connect(receive_bytes=4096)) as client:
                client.sendall(request)
                deadline = time.monotonic() + 180
                while self.metric("ng_http_slow_readers_total") <= slow + i:
                    assert time.monotonic() < deadline, "a slow reader is kept"
                    time.sleep(0.2)
        return "3 were left"

    def half_requests(self):
        request = request_of(body_of(1))
        begins = [request[:self.random.randrange(1, len(request))] for _ in range(200)]
        clients = [self.connect() for _ in begins]
        for client, begin in zip(clients, begins):
            client.sendall(begin)
        begun = time.monotonic()
        statuses = {self.status_on(client) for client in clients}
        for client in clients:
            client.close()
        took = time.monotonic() - begun
        assert statuses == {408} and took < 3 * READ_SECONDS, (statuses, took)
        return f"200 times 408, after {took:.1f} s"

    def large_bodies(self):
        statuses = []
        large = b'{"prompt": "' + b"x" * 10_000_000 + b'"}'
        chunks = b"".join(b"100000\r\n" + large[i:i + 0x100000].ljust(0x100000) + b"\r\n"
                          for i in range(0, len(large), 0x100000)) + b"0\r\n\r\n"
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()
        for request in (request_of(large), head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
                        head + b"X: " + b"x" * 10_000_000 + b"\r\n\r\n") * 10:
            with contextlib.closing(self.connect()) as client:
                with contextlib.suppress(ConnectionError):  # it need not read all
                    client.sendall(request)
                statuses.append(self.status_on(client))
        told = [status for status in statuses if status is not None]
        assert set(told) <= {413, 431}, statuses
        return f"{len(statuses)}, of which {len(told)} saw 413 or 431 and the others the end of the connection"

    def bad_bytes(self):
        statuses = {}
        good = json.dumps(body_of(1)).encode()
        for i in range(500):
            body = bytearray(good)
            for _ in range(self.random.randrange(1, 4)):
                body[self.random.randrange(len(body))] = self.random.randrange(128, 256)
            request = request_of(bytes(body))
            allowed = (400,)
            with contextlib.suppress(ValueError):
                json.loads(body)
                allowed = (200, 400)  # by chance it is a character
            if i % 5 == 0:
                request = self.random.randbytes(self.random.randrange(1, 300)) + b"\r\n\r\n"
            with contextlib.closing(self.connect()) as client:
                client.sendall(request)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_WR) if i % 5 == 0 else None
                status = self.status_on(client)
                assert status in (allowed if i % 5 else (400, 408, None)), (status, request)
                statuses[status] = statuses.get(status, 0) + 1
        return f"statuses {statuses}"

    def idle_connections(self):
        before = self.rss_kb()
        clients = [self.connect() for _ in range(10_000)]
        deadline = time.monotonic() + 60
        while self.metric("ng_http_connections") < len(clients):
            assert time.monotonic() < deadline, self.metric("ng_http_connections")
        self.text(1)
        grown = self.rss_kb() - before
        for client in clients:
            client.close()
        return f"10000 open, {grown / 10_000:.1f} KB each"

    def round(self):
        for check in (self.disconnects, self.bad_bytes, self.half_requests, self.large_bodies, self.slow_readers,
                      self.idle_connections):
            begin = time.monotonic()
            with self.others():
                saw = check()
            files = self.settle()
            print(f"{check.__name__}: {saw}; {self.n_others} answers to others; {time.monotonic() - begin:.1f} s, "
                  f"{self.rss_kb()} KB, {files} files", flush=True)


def end_under_load(program, known):
    """SIGTERM while 32 clients ask: what was accepted is answered whole, the rest is refused."""
    with served(program, *ROOM) as (url, process):
        faults = Faults.__new__(Faults)
        faults.port = int(url.rsplit(":", 1)[1])
        seen = {"whole": 0, 503: 0, "closed": 0}

        def client(number):
            while True:
                try:
                    status, answer = faults.ask(body_of(number))
                except (ConnectionError, http.client.RemoteDisconnected):
                    seen["closed"] += 1
                    return
                assert status in (200, 503), (status, answer)
                if status == 503:
                    seen[503] += 1
                    return
                assert json.loads(answer)["choices"][0]["text"] == known[number], number
                seen["whole"] += 1
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            clients = [pool.submit(client, number) for number in range(32)]
            time.sleep(1.5)
            process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            assert process.wait(timeout=30) == 0
            took = time.monotonic() - begin
            for one in clients:
                one.result()
    return f"ended after {took:.2f} s with 0: {seen}"


def main():
    program = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (15_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with served(program, *ROOM) as (url, process):
        faults = Faults(url, process)
        print(f"start: {faults.rss_kb()} KB, {faults.settle()} files")
        faults.round()
        first, files = faults.rss_kb(), faults.settle()
        faults.round()
        assert faults.settle() == files, (files, faults.settle())
        assert faults.rss_kb() - first < MOST_GROWTH_KB, (first, faults.rss_kb())
        known = faults.known
    # The default number of connections: the longest idle one makes room.
    with served(program) as (url, process):
        faults = Faults(url, process)
        clients = [faults.connect() for _ in range(10_000)]
        assert faults.text(1) == faults.known[1]
        print(f"10000 idle connections where 512 may be: {faults.metric('ng_http_connections'):.0f} are kept")
        for client in clients:
            client.close()
    for _ in range(5):
        print("SIGTERM:", end_under_load(program, known))
    print("ok")


if __name__ == "__main__":
    main()
