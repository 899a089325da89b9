#!/usr/bin/env python3
"""A hub on loopback, with the faults that a real one or the way to it may have.

    python3 tests/fetch/hub.py FOLDER [--faults JSON] [--log FILE] [--seed N]

FOLDER/ORG/NAME/... are the files of repositories; those larger than --lfs bytes are large files (LFS), which
lie on a second host, as on a real hub: another port of this process. Says `http://127.0.0.1:PORT` in a line
on stdout, and serves until stdin ends. Only the standard library is needed.

Faults by name, each with its value, are in --faults, and can be changed by a POST to /faults:
  token           a token that a client must have; without it 401
  gated           true: 403 with GatedRepo
  cut             bytes after which a file's connection is cut, each time
  cut_once        the same, for the first request of each file alone
  early           bytes after which a file ends although its headers say more; the connection is closed well
  wrong           true: a byte of each large file is wrong
  wrong_once      the same, for the first request of each file alone
  no_ranges       true: a range is answered with the whole file
  bad_range       true: a range is answered with another one
  status          [STATUS, N]: the first N requests are answered with it
  retry_after     seconds that such an answer asks for
  slow            seconds to wait after each 64 KiB
  endless         true: files have no length and never end
  size_off        by how much the sizes of the list are wrong
  etag            the ETag of every file
  names           further names of files in the list
  listing         bytes by which the list is padded
  loop            true: files lead to themselves
  random          a number in [0, 1]: how often a request has one of the faults that pass
"""

import argparse
import hashlib
import http.server
import json
import os
import pathlib
import random
import socket
import sys
import threading
import time
import urllib.parse

PIECE = 1 << 16


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """The files of ORG/NAME, and a commit that is made of them."""

    def __init__(self, folder, lfs):
        self.files = {}
        self.name = "/".join(folder.parts[-2:])
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                self.files[str(path.relative_to(folder))] = (data, len(data) > lfs)
        whole = "".join(name + hashlib.sha1(data).hexdigest() for name, (data, _) in self.files.items())
        self.commit = hashlib.sha1(whole.encode()).hexdigest()

    def etag(self, name):
        data, large = self.files[name]
        return hashlib.sha256(data).hexdigest() if large else git_sha1(data)

    def listing(self, faults):
        siblings = []
        for name, (data, large) in self.files.items():
            size = len(data) + faults.get("size_off", 0)
            entry = {"rfilename": name, "size": size, "blobId": git_sha1(data)}
            if large:
                entry["lfs"] = {"sha256": self.etag(name), "size": size, "pointerSize": 130}
            siblings.append(entry)
        siblings += [{"rfilename": name, "size": 3} for name in faults.get("names", [])]
        return {"id": self.name, "sha": self.commit, "siblings": siblings, "pad": "x" * faults.get("listing", 0)}

    def tree(self):
        """The same list as newer versions of the hub's library ask for it."""
        entries = []
        for name, (data, large) in self.files.items():
            entry = {"type": "file", "path": name, "size": len(data), "oid": git_sha1(data)}
            if large:
                entry["lfs"] = {"oid": self.etag(name), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        return entries


class Hub:
    def __init__(self, folder, faults, lfs, log, seed):
        self.repositories = {}
        for path in pathlib.Path(folder).glob("*/*"):
            self.repositories["/".join(path.parts[-2:])] = Repository(path, lfs)
        self.faults = faults
        self.log = log
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.seen = set()
        self.refused = 0

    def first(self, what):
        with self.lock:
            new = what not in self.seen
            self.seen.add(what)
            return new

    def note(self, line):
        with self.lock:
            if self.log:
                self.log.write(line + "\n")
                self.log.flush()

    def chance(self, kinds):
        """One of the faults that pass, now and then."""
        with self.lock:
            if self.random.random() >= self.faults.get("random", 0):
                return None
            return self.random.choice(kinds)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None
    files_port = 0
    is_files = False

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        self.answer(head=False)

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.hub.lock:
            self.hub.faults = json.loads(text)
            self.hub.seen, self.hub.refused = set(), 0
        self.reply(200, b"")

    def answer(self, head):
        token = self.headers.get("Authorization", "-").replace("Bearer ", "")
        self.hub.note("%s %s %s range=%s token=%s" % (
            "files" if self.is_files else "hub", self.command, self.path, self.headers.get("Range", "-"), token))
        try:
            if self.is_files:
                self.give_file(head)
            else:
                self.give(head)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def reply(self, status, body, headers=(), head=False):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def refuse(self, head):
        """Whether the request is refused, which is then done."""
        faults = self.hub.faults
        status, n = faults.get("status", [0, 0])
        with self.hub.lock:
            refused = self.hub.refused < n
            self.hub.refused += refused
        if not refused and self.hub.chance([True]):
            status, refused = self.hub.random.choice([429, 500, 502, 503]), True
        if refused:
            wait = faults.get("retry_after")
            self.reply(status, b"busy", [("Retry-After", str(wait))] if wait is not None else [], head)
            return True
        if faults.get("token") and self.headers.get("Authorization") != "Bearer " + faults["token"]:
            self.reply(401, b"", [("X-Error-Code", "RepoNotFound"), ("X-Error-Message", "Repository not found")], head)
            return True
        if faults.get("gated"):
            self.reply(403, b"", [("X-Error-Code", "GatedRepo"), ("X-Error-Message", "Access is restricted")], head)
            return True
        return False

    def give(self, head):
        if self.refuse(head):
            return
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[1:]]
        if parts[:2] == ["api", "models"] and len(parts) == 6 and parts[4] in ("revision", "tree"):
            repository = self.hub.repositories.get("/".join(parts[2:4]))
            if repository is None:
                return self.reply(404, b"", [("X-Error-Code", "RepoNotFound")], head)
            if parts[5] not in ("main", repository.commit, "pr/1", "refs/pr/1"):
                return self.reply(404, b"", [("X-Error-Code", "RevisionNotFound")], head)
            tree = parts[4] == "tree"
            body = json.dumps(repository.tree() if tree else repository.listing(self.hub.faults)).encode()
            return self.reply(200, body, [("X-Repo-Commit", repository.commit)], head)
        repository = self.hub.repositories.get("/".join(parts[:2]))
        if repository is None or len(parts) < 5 or parts[2] != "resolve":
            return self.reply(404, b"", [("X-Error-Code", "RepoNotFound")], head)
        name = "/".join(parts[4:])
        if name not in repository.files:
            return self.reply(404, b"", [("X-Error-Code", "EntryNotFound")], head)
        if self.hub.faults.get("loop"):
            return self.reply(302, b"", [("Location", self.path)], head)
        data, large = repository.files[name]
        etag = self.hub.faults.get("etag", '"%s"' % repository.etag(name))
        headers = [("X-Repo-Commit", repository.commit), ("Accept-Ranges", "bytes")]
        if not large:
            return self.give_bytes(name, data, headers + [("ETag", etag)], head)
        target = "http://127.0.0.1:%d/%s/%s?signed=1" % (
            self.files_port, "/".join(parts[:2]), urllib.parse.quote(name))
        headers += [("X-Linked-Etag", etag), ("X-Linked-Size", str(len(data) + self.hub.faults.get("size_off", 0))),
                    ("Location", target)]
        return self.reply(302, b"moved", headers, head)

    def give_file(self, head):
        parts = [urllib.parse.unquote(part) for part in urllib.parse.urlsplit(self.path).path.split("/")[1:]]
        data, _ = self.hub.repositories["/".join(parts[:2])].files["/".join(parts[2:])]
        faults = self.hub.faults
        if faults.get("wrong") or (faults.get("wrong_once") and self.hub.first(("wrong", self.path))):
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.give_bytes("/".join(parts[2:]), data, [("ETag", '"of-the-files-host"')], head)

    def give_bytes(self, name, data, headers, head):
        faults = self.hub.faults
        whole = len(data)
        begin, status = 0, 200
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and not faults.get("no_ranges"):
            begin = int(asked[6:].split("-")[0])
            if begin >= whole:
                return self.reply(416, b"", [("Content-Range", "bytes */%d" % whole)], head)
            status = 206
            shift = 1 if faults.get("bad_range") else 0
            headers = headers + [("Content-Range", "bytes %d-%d/%d" % (begin + shift, whole - 1, whole))]
        data = data[begin:]
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        if not faults.get("endless"):
            self.send_header("Content-Length", str(len(data)))
        if faults.get("endless"):
            self.close_connection = True
        self.end_headers()
        if head:
            return None
        fault = self.hub.chance(["cut", "early", "wrong", "slow"])
        if fault == "wrong" and data:
            at = self.hub.random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 8]) + data[at + 1:]
        stop = None
        if "cut" in faults or ("cut_once" in faults and self.hub.first(("cut", self.path))):
            stop = ("cut", faults.get("cut", faults.get("cut_once")))
        elif "early" in faults:
            stop = ("early", faults["early"])
        elif fault in ("cut", "early") and data:
            stop = (fault, self.hub.random.randrange(len(data)))
        return self.send_pieces(data, stop, 0.002 if fault == "slow" else faults.get("slow", 0))

    def send_pieces(self, data, stop, wait):
        if stop is not None:
            self.send(data[: stop[1]], wait)
            self.close_connection = True
            if stop[0] == "cut":  # a reset, and no proper end
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        self.send(data, wait)
        while self.hub.faults.get("endless"):
            self.wfile.write(b"x" * PIECE)

    def send(self, data, wait):
        for at in range(0, len(data), PIECE):
            self.wfile.write(data[at : at + PIECE])
            if wait:
                self.wfile.flush()
                time.sleep(wait)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


def start(hub):
    """The hub's address. Its threads end with the process."""
    files = Server(("127.0.0.1", 0), type("Files", (Handler,), {"hub": hub, "is_files": True}))
    front = Server(("127.0.0.1", 0), type("Front", (Handler,), {"hub": hub, "files_port": files.server_port}))
    for server in (files, front):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return "http://127.0.0.1:%d" % front.server_port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--faults", default="{}")
    parser.add_argument("--lfs", type=int, default=10000)
    parser.add_argument("--log")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    log = open(args.log, "w") if args.log else None
    hub = Hub(args.folder, json.loads(args.faults), args.lfs, log, args.seed)
    print(start(hub), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
