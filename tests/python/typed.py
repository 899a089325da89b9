"""A program with types, for checkers of types. By hand, where mypy and pyright are (from PyPI, with
numpy<2 and typing_extensions). The second line takes the examples of the page:

  MYPYPATH=apps/python mypy --strict tests/python/typed.py apps/python/ng
  PYTHONPATH=build/python python3 tests/python/typed.py examples > /tmp/examples.py
  MYPYPATH=apps/python mypy --strict /tmp/examples.py
  pyright, with {"typeCheckingMode": "strict", "extraPaths": ["apps/python"]} in pyrightconfig.json; the
  package by itself as it is: cd apps/python && pyright ng
"""
import re
import sys
from typing import List, Optional

import numpy as np
import numpy.typing as npt

import ng


def push(rows: ng.Rows) -> None:
    rows.values += 1.0


def even(candidates: ng.Candidates) -> None:
    candidates.logits[candidates.ids % 2 == 1] = -np.inf


def draft(tokens: npt.NDArray[np.int32], most: int) -> List[int]:
    return [int(tokens[-1])] * most


def ablate(values: npt.NDArray[np.float32]) -> None:
    values[:, 0] = 0.0


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
        made = engine.forward([[1, 2, 3]], output_hidden_states=True, output_attentions=True)
        last: npt.NDArray[np.float32] = made.hidden_states[-1]
        print(last.shape, made.logits.dtype)
        with engine.hook("layer0.attn_head", ablate) as hook:
            print(hook.name, engine.eval("To be, or not to be").perplexity + 1.0)
        page: str = engine.view("To be", 3, layers=[0]).html
        loose: Optional[float] = engine.diff(ng.Engine("configs/demo.ini"), "To be").kl_mean
        print(len(page), loose, ng.plan("configs/demo.ini").report["weights"])


def examples() -> str:
    """Those of apps/python/README.md, as one program."""
    with open("apps/python/README.md", encoding="utf-8") as page:
        found: List[str] = re.findall(r"^```python\n(.*?)^```", page.read(), re.DOTALL | re.MULTILINE)
    return "\n".join(found)


if __name__ == "__main__":
    print(examples()) if sys.argv[1:] == ["examples"] else main()
