"""A model that says what it is told, for programs that hold a conversation by themselves.

`scripted` is a way to a server on which each answer is the next text of a list. Requests pass through it; one for an
answer gets a grammar that allows the next text alone. What else would say how the answer is to begin or to be built
(`tool_choice`, `response_format`, ...) is taken out. What the server answers is passed on byte by byte.
"""
import contextlib
import http.server
import json
import socket
import threading
import urllib.parse

ANSWERED = ("/chat/completions", "/responses", "/messages", "/api/chat", "/api/generate")
HELD_OTHERWISE = ("tool_choice", "response_format", "format", "output_format")


def saying(text):
    """A grammar that allows this text alone."""
    literal = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'root ::= "{literal}"'


def held(path, body, text):
    """A request whose answer is this text."""
    body = {key: value for key, value in body.items() if key not in HELD_OTHERWISE}
    for key in ("text", "output_config"):
        if isinstance(body.get(key), dict):
            body[key] = {name: value for name, value in body[key].items() if name != "format"}
    if path.startswith("/api/"):
        return body | {"options": (body.get("options") or {}) | {"grammar": saying(text)}}
    return body | {"grammar": saying(text)}


class Script(http.server.ThreadingHTTPServer):
    """What is still to be said, and the requests for what was said."""
    daemon_threads = True

    def __init__(self, url, texts):
        super().__init__(("127.0.0.1", 0), Passing)
        self.behind = urllib.parse.urlsplit(url)
        self.texts = list(texts)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Passing(http.server.BaseHTTPRequestHandler):
    """One request on its way to the server and back."""

    def do_GET(self):
        self.pass_on(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urllib.parse.urlsplit(self.path).path
        if path.endswith(ANSWERED):
            asked = json.loads(body)
            self.server.asked.append(asked)
            if not self.server.texts:
                self.send_error(400, "the script has ended")
                return
            body = json.dumps(held(path, asked, self.server.texts.pop(0))).encode()
        self.pass_on(body)

    def pass_on(self, body):
        behind = self.server.behind
        with socket.create_connection((behind.hostname, behind.port)) as server:
            kept = [f"{name}: {value}" for name, value in self.headers.items()
                    if name.lower() not in ("host", "connection", "content-length")]
            head = [f"{self.command} {self.path} HTTP/1.1", f"Host: {behind.netloc}", "Connection: close",
                    f"Content-Length: {len(body)}", *kept]
            server.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            while piece := server.recv(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        self.close_connection = True

    def log_message(self, format, *arguments):  # pylint: disable=redefined-builtin
        pass


@contextlib.contextmanager
def scripted(url, *texts):
    """A server at `.url` whose answers are these texts, one after the other."""
    script = Script(url, texts)
    thread = threading.Thread(target=script.serve_forever, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.shutdown()
        script.server_close()
        thread.join()
