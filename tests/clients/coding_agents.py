#!/usr/bin/env python3
"""Coding agents at ng-serve: each mends a program in a folder, by a model that says what a script says.

    python3 tests/clients/coding_agents.py build/bin/ng-serve SmolLM2-135M-Instruct.Q4_1.gguf

By hand, in an environment with what requirements_agents.txt names; the model is that of libraries.py. mini-swe-agent reads,
edits and runs the program by calls of its one tool; aider writes its edit as text, in a stream, and asks for the words of a
commit. Exits 1 where the program is not mended, or something of the script was not asked for.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "serve"))

from script import scripted
from server import served

MODEL = "smol"
BROKEN = "def add(a, b):\n    return a - b\n\n\nprint(add(2, 3))\n"
TASK = "add.py prints -1, and should print 5. Mend it."
BIN = pathlib.Path(sys.executable).parent


def bash(command):
    return "Next. <tool_call>" + json.dumps({"name": "bash", "arguments": {"command": command}}) + "</tool_call>"


MINI = (bash("cat add.py"), bash("sed -i 's/a - b/a + b/' add.py && python3 add.py"),
        bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"))
AIDER = ("I add them.\n\nadd.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n```\n",
         "fix: add its numbers")


def run(command, folder, **more):
    own = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "TERM": "dumb", "OPENAI_API_KEY": "none",
           "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return subprocess.run(command, cwd=folder, env=own | more, stdin=subprocess.DEVNULL, text=True, timeout=300, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def mini(url, folder):
    config = folder.parent / "own.yaml"
    config.write_text(json.dumps({"model": {"model_kwargs": {"api_base": url + "/v1", "temperature": 0}}}))
    return run([BIN / "mini", "-m", f"openai/{MODEL}", "-t", TASK, "-y", "--exit-immediately", "-c", "mini.yaml",
                "-c", config, "-o", folder.parent / "session.json"], folder, MSWEA_CONFIGURED="true",
               MSWEA_COST_TRACKING="ignore_errors", MSWEA_GLOBAL_CONFIG_DIR=str(folder.parent), MSWEA_SILENT_STARTUP="1")


def aider(url, folder):
    for command in (["git", "init", "-q"], ["git", "add", "add.py"],
                    ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "begin"]):
        subprocess.run(command, cwd=folder, check=True)
    return run([BIN / "aider", "--model", f"openai/{MODEL}", "--openai-api-base", url + "/v1", "--edit-format", "diff",
                "--yes-always", "--no-show-model-warnings", "--no-check-update", "--analytics-disable", "--no-gitignore",
                "--map-tokens", "0", "--message", TASK, "add.py"], folder)


def main():
    wrong = 0
    with served(sys.argv[1], f"--model.path={sys.argv[2]}", f"--serve.model={MODEL}",
                f"--tokenizer.chat_template={HERE / 'calls.jinja'}") as (url, _):
        for agent, texts in ((mini, MINI), (aider, AIDER)):
            with tempfile.TemporaryDirectory() as above, scripted(url, *texts) as script:
                folder = pathlib.Path(above) / "work"
                folder.mkdir()
                (folder / "add.py").write_text(BROKEN)
                done = agent(script.url, folder)
                mended = (folder / "add.py").read_text() == BROKEN.replace("a - b", "a + b")
                good = done.returncode == 0 and mended and not script.texts
                print("ok" if good else "wrong", f"{agent.__name__}: {len(script.asked)} requests,",
                      "streamed," if script.asked and script.asked[0].get("stream") else "whole,",
                      "mended" if mended else "not mended", flush=True)
                if not good:
                    wrong += 1
                    print(done.stdout[:9000], f"\nexit code {done.returncode}, not said: {script.texts}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
