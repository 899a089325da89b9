"""Random programs: threads that use engines in every way, and do what a notebook may do by mistake.

  PYTHONPATH=build/python NG_BIN=build/bin python3 tests/python/random_programs.py [PROGRAMS] [SEED]

Each program is a process of its own: up to 8 threads, up to 4 engines, callbacks that raise, sleep,
call the engine again and fork, requests in flight that are cancelled and forgotten, engines that are
closed and left to the collector, and an end at any moment. It must not crash, hang, or give a row or an
id that is another one than that of the same call alone.
"""

import asyncio
import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

SHAPE = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "vocab_size": 64, "max_position_embeddings": 256,
         "rms_norm_eps": 1e-5}
SECONDS = 500  # a program that takes as long hangs, on however busy a machine


class Mine(Exception):
    pass


class Program:
    def __init__(self, seed, config, wanted):
        import ng
        self.ng, self.random, self.config = ng, random.Random(seed), config
        self.wanted = wanted  # {prompt: [its answer alone, the logits behind it]}
        self.wrong = []
        self.engines = [self.engine() for _ in range(self.random.randint(1, 4))]

    def engine(self):
        keys = {"sampler.chain": "greedy", "run.stop_ids": "", "run.threads": self.random.choice((1, 1, 2)),
                "cache.name": self.random.choice(("contiguous", "paged"))}
        parts = {}
        if self.random.random() < 0.5:
            parts["stages"] = [self.ng.Stage("looks", lambda candidates: None)]
        if self.random.random() < 0.3:
            parts["probes"] = [self.ng.Probe("sees", "layer1.out", lambda rows: None)]
        engine = self.ng.Engine(None, keys, random_weights=self.config, **parts)
        if parts.get("probes"):
            parts["probes"][0].owner = engine  # a circle
        return engine

    def check(self, prompt, ids):
        whole = list(prompt) + self.wanted[prompt][0]
        if ids != whole[:len(ids)] or len(ids) < len(prompt):
            self.wrong.append((prompt, ids, whole))

    def callback(self, engine, dice):
        kind = dice.choice(("nothing", "raises", "sleeps", "calls", "forks", "stops"))

        def call(rows):
            if kind == "raises" and dice.random() < 0.3:
                raise Mine
            if kind == "stops" and dice.random() < 0.3:
                raise StopIteration
            if kind == "sleeps":
                time.sleep(dice.random() * 0.01)
            if kind == "calls":
                dice.choice(self.engines).generate([1, 2], 1)
            if kind == "forks" and dice.random() < 0.2:
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
        return call

    # What a thread may do.

    def generates(self, engine, prompt, dice):
        n = dice.randint(0, 12)
        self.check(prompt, engine.generate(list(prompt), n).ids)

    def generates_many(self, engine, prompt, dice):
        prompts = [prompt] + dice.sample(sorted(self.wanted), 2)
        for one, done in zip(prompts, engine.generate([list(p) for p in prompts], dice.randint(1, 8))):
            self.check(one, done.ids)

    def looks(self, engine, prompt, dice):
        done = engine.generate(list(prompt), dice.randint(1, 6),
                               on_point={"layer0.out": self.callback(engine, dice)})
        self.check(prompt, done.ids)

    def streams(self, engine, prompt, dice):
        stream = engine.generate_steps(list(prompt), 12,
                                       on_point={"embed": self.callback(engine, dice)})
        try:
            for step in stream:
                if dice.random() < 0.1:
                    stream.cancel()
                if dice.random() < 0.05:
                    break
        finally:
            if dice.random() < 0.7:
                self.check(prompt, stream.close().ids)

    def feeds(self, engine, prompt, dice):
        import numpy as np
        with engine.open(dice.choice((None, 64))) as sequence:
            cut = dice.randint(1, len(prompt))
            rows = sequence.extend(list(prompt[:cut]))
            if cut < len(prompt):
                rows = sequence.extend(list(prompt[cut:]))
            if not np.array_equal(rows, self.wanted[prompt][1]):
                self.wrong.append((prompt, "rows"))
            fork = sequence.fork()
            first, second = self.wanted[prompt][0][:2]
            if int(fork.decode_step(first).argmax()) != second:
                self.wrong.append((prompt, "fork"))
            if dice.random() < 0.3:
                self.check(prompt, engine.generate(list(prompt) + self.wanted[prompt][0][:1], 4,
                                                   sequence=sequence).ids)

    def submits(self, engine, prompt, dice):
        request = engine.submit(list(prompt), dice.randint(0, 12))
        what = dice.choice(("waits", "steps", "cancels", "forgets"))
        if what == "forgets":
            return
        if what == "cancels":
            time.sleep(dice.random() * 0.01)
            request.cancel()
        if what == "steps":
            for _ in request:
                if dice.random() < 0.1:
                    break
        self.check(prompt, request.result().ids)

    def awaits(self, engine, prompt, dice):
        async def one(p):
            self.check(p, (await engine.agenerate(list(p), 8)).ids)

        async def cut(p):
            try:
                await asyncio.wait_for(engine.agenerate(list(p), 100), dice.random() * 0.02)
            except asyncio.TimeoutError:
                pass

        async def main():
            calls = [dice.choice((one, one, cut))(p) for p in dice.sample(sorted(self.wanted), 3)]
            await asyncio.gather(*calls, return_exceptions=True)

        asyncio.run(main())

    def reads(self, engine, prompt, dice):
        dice.choice((engine.reports, engine.plan, lambda: engine.points, lambda: engine.config,
                     engine.cache_statistics))()

    def closes(self, engine, prompt, dice):
        if dice.random() < 0.2:
            engine.close()

    def replaces(self, engine, prompt, dice):
        self.engines[dice.randrange(len(self.engines))] = self.engine()
        gc.collect()

    def work(self, seed):
        dice = random.Random(seed)
        ways = [self.generates, self.generates_many, self.looks, self.looks, self.streams, self.feeds,
                self.submits, self.submits, self.awaits, self.reads, self.closes, self.replaces]
        for _ in range(dice.randint(1, 6)):
            engine, prompt = dice.choice(self.engines), dice.choice(sorted(self.wanted))
            try:
                dice.choice(ways)(engine, prompt, dice)
            except (self.ng.Error, Mine, StopIteration):
                pass
            except RuntimeError as error:
                if "StopIteration" not in str(error):
                    raise

    def run(self):
        leaves = self.random.random() < 0.3  # while threads compute
        failed = []
        threading.excepthook = lambda args: failed.append(args.exc_value)
        threads = [threading.Thread(target=self.work, args=(self.random.random(),), daemon=leaves)
                   for _ in range(self.random.randint(1, 8))]
        for thread in threads:
            thread.start()
        if leaves:
            time.sleep(self.random.random() * 0.1)
        else:
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        if self.wrong:
            raise AssertionError(f"wrong rows: {self.wrong[:2]}")


def wanted(config):
    """Prompts, and what comes of each alone."""
    import ng
    dice = random.Random(7)
    engine = ng.Engine(None, {"sampler.chain": "greedy", "run.stop_ids": "", "run.threads": 1},
                       random_weights=config)
    made = {}
    for _ in range(6):
        prompt = tuple(dice.randrange(64) for _ in range(dice.randint(2, 30)))
        done = engine.generate(list(prompt), 100, decode_logits=True)
        made[prompt] = [done.answer_ids, done.decode_logits[0]]
    return made


def one(config, seeds):
    """Programs in a process of their own, one for each seed: the last one ends it at any moment."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(SECONDS - 10, exit=True)
    alone = wanted(config)
    for seed in seeds:
        print(seed, flush=True)
        program = Program(seed, config, alone)
        program.run()
        del program
        gc.collect()


def main(programs="2000", seed="1", each="10"):
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(SHAPE, file)
        first, last = int(seed), int(seed) + int(programs)
        for start in range(first, last, int(each)):
            seeds = [str(s) for s in range(start, min(start + int(each), last))]
            done = subprocess.run([sys.executable, __file__, "--one", config, *seeds],
                                  capture_output=True, timeout=SECONDS, check=False)
            if done.returncode != 0 or b"Error" in done.stderr or b"Fatal" in done.stderr:
                print(f"programs {seeds}: exit status {done.returncode}\n{done.stdout.decode()}\n"
                      f"{done.stderr.decode()}")
                return 1
    print(f"{programs} programs: no crash, no hang, no wrong row")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], [int(s) for s in sys.argv[3:]])
        sys.exit(0)
    sys.exit(main(*sys.argv[1:]))
