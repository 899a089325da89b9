#!/usr/bin/env python3
"""Random faults while ng-fetch brings a model from a hub on loopback: signals, kills, cut connections, wrong
bytes, full disks, two at once.

    python3 tests/fetch/faults.py build/bin/ng-fetch [--cases 300] [--seed 1]

After each case every file that a commit shows is whole and right, nothing lies outside of the repository's
folders, and the exit code is a documented one; then a run without faults makes all of it whole. As root, full
disks are small file systems of their own; else a limit of a file's size stands for them.
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub as hubs

# A signal may come before the program can take it.
DOCUMENTED = {0, 1, 3, 5, 7, 130, -signal.SIGINT, -signal.SIGKILL}


def make_model(folder, rng):
    """A repository of weights in three files, their index, and small files."""
    folder.mkdir(parents=True)
    parts = ["model-%05d-of-00003.safetensors" % (i + 1) for i in range(3)]
    for name in parts:
        (folder / name).write_bytes(rng.randbytes(rng.randrange(100000, 1500000)))
    index = '{"weight_map": {%s}}' % ", ".join('"t%d": "%s"' % (i, name) for i, name in enumerate(parts))
    (folder / "model.safetensors.index.json").write_text(index)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_bytes(rng.randbytes(200000))
    (folder / "added_tokens.json").write_bytes(b"")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Case:
    def __init__(self, args, rng, hub, url, files, work):
        self.args, self.rng, self.hub, self.url, self.files = args, rng, hub, url, files
        self.cache = work / "cache"
        self.cache.mkdir()
        self.mounted = False

    def start(self, limit=None):
        def before():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        env = dict(os.environ, HF_ENDPOINT=self.url, HF_HUB_CACHE=str(self.cache), NO_PROXY="127.0.0.1", HF_TOKEN="",
                   HF_HUB_OFFLINE="")
        command = [self.args.program, "org/model", "-q", "--tries", "3", "--connections", str(self.rng.randrange(1, 5))]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before)

    def finish(self, process):
        out, err = process.communicate(timeout=120)
        code = process.returncode
        problems = [] if code in DOCUMENTED else ["exit code %d: %s" % (code, err.decode())]
        if err.count(b"\n") > 1:
            problems.append("several lines of error: %s" % err.decode())
        problems += self.look(whole=code == 0)
        return code, problems

    def look(self, whole):
        """What is wrong with what is there."""
        problems = []
        names = set(os.listdir(self.cache)) - {"filler", "lost+found"}
        if names - {"models--org--model", ".locks"}:
            problems.append("files outside: %s" % names)
        shown = {}
        for path in (self.cache / "models--org--model" / "snapshots").rglob("*"):
            if path.is_dir():
                continue
            try:
                shown[path.name] = path.read_bytes()
            except OSError as error:
                problems.append("%s: %s" % (path.name, error))
        for name, data in shown.items():
            if data != self.files[name]:
                problems.append("%s is wrong: %d bytes" % (name, len(data)))
        if whole and set(shown) != set(self.files):
            problems.append("done without %s" % (set(self.files) - set(shown)))
        refs = self.cache / "models--org--model" / "refs" / "main"
        if refs.exists() and set(shown) != set(self.files):
            problems.append("refs/main names a part")
        return problems

    def stop_somewhen(self, process, number):
        time.sleep(self.rng.random() ** 2 * 0.5)
        process.send_signal(number)
        return self.finish(process)

    def of_kind(self, kind):
        rng = self.rng
        if kind in ("kill", "interrupt"):
            return self.stop_somewhen(self.start(), signal.SIGKILL if kind == "kill" else signal.SIGINT)
        if kind == "limit":
            return self.finish(self.start(limit=rng.randrange(0, 1600000)))
        if kind == "full":
            process = self.start()
            time.sleep(rng.random() * 0.2)
            try:
                with open(self.cache / "filler", "wb") as file:
                    while True:
                        file.write(bytes(1 << 16))
            except OSError:
                pass
            code, problems = self.finish(process)
            (self.cache / "filler").unlink()
            return code, problems
        if kind == "two":
            processes = [self.start(), self.start()]
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.3)
                processes[0].send_signal(rng.choice([signal.SIGKILL, signal.SIGINT]))
            results = [self.finish(process) for process in processes]
            return results[1][0], results[0][1] + results[1][1]
        if kind == "spoilt":  # what is there of a file is of another one
            for path in (self.cache / "models--org--model" / "blobs").glob("*.incomplete"):
                with open(path, "r+b") as file:
                    file.write(b"spoilt")
            return self.finish(self.start())
        return self.finish(self.start())

    def run(self):
        kinds = ["kill", "interrupt", "two", "net", "spoilt", "full" if self.mount() else "limit", "limit"]
        codes, problems, did = [], [], []
        try:
            for _ in range(self.rng.randrange(1, 4)):
                self.hub.faults = {"random": self.rng.choice([0, 0, 0.2, 0.5]), "slow": self.rng.choice([0, 0.002, 0.01]),
                                   "no_ranges": self.rng.random() < 0.2}
                kind = self.rng.choice(kinds)
                code, wrong = self.of_kind(kind)
                did.append(kind)
                codes.append(code)
                problems += wrong
            self.hub.faults = {}
            code, wrong = self.finish(self.start())
            problems += wrong + ([] if code == 0 else ["not resumable: %d" % code])
            problems += ["left: %s" % path.name for path in self.cache.rglob("*.incomplete")]
        finally:
            self.unmount()
        return did, codes, problems

    def mount(self):
        size = sum(len(data) for data in self.files.values()) + (1 << 19)
        if os.getuid() == 0 and self.rng.random() < 0.5:
            options = "size=%d" % size
            self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ng", self.cache],
                                          stderr=subprocess.DEVNULL).returncode == 0
        return self.mounted

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", self.cache], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    failed = 0
    kinds, codes = collections.Counter(), collections.Counter()
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = make_model(folder / "hub" / "org" / "model", random.Random(args.seed))
        hub = hubs.Hub(folder / "hub", {}, 10000, None, args.seed)
        url = hubs.start(hub)
        for number in range(args.cases):
            rng = random.Random(args.seed * 1000003 + number)
            work = folder / "case"
            work.mkdir()
            did, ended, problems = Case(args, rng, hub, url, files, work).run()
            kinds.update(did)
            codes.update(ended)
            if problems:
                failed += 1
                print("case %d (%s, %s): %s" % (number, did, ended, "; ".join(problems)), flush=True)
            shutil.rmtree(work)
    print("%d cases, %d with something wrong, %.0f s; faults: %s; exit codes: %s" % (
        args.cases, failed, time.time() - began, dict(kinds), dict(codes)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
