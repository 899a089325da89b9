"""ng-serve as a process of its own, for the scripts beside this file."""
import contextlib
import json
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "configs" / "demo.ini"


@contextlib.contextmanager
def served(program, *options):
    """The address of a server and its process. It must end well."""
    server = subprocess.Popen([program, "--config", CONFIG, "--serve.port=0", *options],
                              stderr=subprocess.PIPE, text=True)
    try:
        said = server.stderr.readline()
        address = re.search(r"http://\S+?:\d+", said)
        assert address, said
        yield address.group(), server
    finally:
        if server.poll() is None:
            server.terminate()
        code = server.wait()
    assert code == 0, code


def ask(url, body=None, headers=None):
    """Status and text of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as reply:
        with reply:
            return reply.code, reply.read().decode()
