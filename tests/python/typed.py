"""A program with types, for a checker of types. By hand, where mypy is (from PyPI, with numpy<2):

  MYPYPATH=apps/python mypy --strict tests/python/typed.py apps/python/ng
"""
from typing import List

import numpy as np
import numpy.typing as npt

import ng


def push(rows: ng.Rows) -> None:
    rows.values += 1.0


def even(candidates: ng.Candidates) -> None:
    candidates.logits[candidates.ids % 2 == 1] = -np.inf


def draft(tokens: npt.NDArray[np.int32], most: int) -> List[int]:
    return [int(tokens[-1])] * most


def main() -> None:
    with ng.Engine("configs/demo.ini", {"sampler.chain": "greedy"}, stages=[ng.Stage("even", even)],
                   probes=[ng.Probe("push", "layer1.out", push, edits=True)],
                   drafter=ng.Drafter("same", draft)) as engine:
        done = engine.generate("To be", 5, records=True, points=["layer1.out"])
        many = engine.generate(["To be", "Or not"], 5)
        chat: ng.Completion = engine.chat("Who art thou?", max_new_tokens=4)
        print(done.text, many[1].answer_ids[0] + 1, chat.ids[0], engine.points[0].width)
        for step in engine.generate_steps("To be", 5):
            print(step.token, (step.logprob or 0.0) + 0.5)
        with engine.open() as sequence:
            logits = sequence.prefill(engine.encode("To be"))
            print(int(logits.argmax()), sequence.fork().ids)
        print(engine.plan(100)["fits"], engine.reports())


if __name__ == "__main__":
    main()
