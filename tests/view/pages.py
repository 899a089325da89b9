"""The runs of the page's tests: pages that ng-run writes, and what it says about the same runs elsewhere."""
import array
import dataclasses
import json
import math
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent / "grammar"))
import made_up_models  # noqa: E402

# Tokens that are markup, commands, text from right to left, marks without a letter, and very long.
HOSTILE = ("</script><script>window.pwned='a_script'</script>", "<img/src=x/onerror=\"window.pwned='an_image'\">",
           "שלום", "\u202eevil", "z" + "\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308" * 4, "\u2028",
           "<!--", "&lt;b&gt;", "]]>", "\u200b", "x" * 300)
# As the page shows them, and a byte that is no UTF-8.
HOSTILE_SHOWN = (*HOSTILE[:3], "<U+202E>evil", HOSTILE[4], "<U+2028>", *HOSTILE[6:9], "<U+200B>", HOSTILE[10], "<0xE2>")


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    ng_run: str
    ids: list
    prompt_len: int
    answer: str = ""
    stop_reason: str = ""
    texts: list = None      # of each token, as --save has them
    attention: list = None  # [layer][head][query][key], as --save has it
    steps: list = None      # as --steps and --steps-stages have them
    dropped: list = None    # [layer and kv head][token], as --save has it


def run(ng_run, *options):
    done = subprocess.run([ng_run, *map(str, options)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{ng_run} ends with {done.returncode}: {done.stderr}")
    return done.stdout


def read_tensors(path):
    """{name: (shape, values)} of a safetensors file of f32, and its metadata."""
    file = path.read_bytes()
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = entry["shape"], array.array("f", file[8 + size + begin:8 + size + end])
    return tensors, metadata


def demo(ng_run, folder):
    """The demo model's answer, and a second run with int4 keys and values."""
    page, tensors, steps = folder / "demo.html", folder / "demo.safetensors", folder / "demo.jsonl"
    answer = run(ng_run, "--config", "configs/demo.ini", "--message", "Who art thou?", "--run.arithmetic=portable",
                 "--view", page, "--against", "cache.codec=int4", "--save", tensors, "--save-tensors", "attn_full,embed",
                 "--steps", steps, "--steps-stages")
    saved, metadata = read_tensors(tensors)
    tokens = json.loads(metadata["tokens.0"])
    attention = []
    while (name := f"attn_full.0.layer{len(attention)}") in saved:
        (n_heads, n, _), values = saved[name]
        attention.append([[list(values[(head * n + query) * n:(head * n + query + 1) * n]) for query in range(n)]
                          for head in range(n_heads)])
    return Page(path=page, ng_run=ng_run, ids=tokens["ids"], prompt_len=tokens["prompt_len"], answer=answer,
                stop_reason="eot", texts=tokens["text"], attention=attention,
                steps=[json.loads(line) for line in steps.read_text().splitlines()])


def budget(ng_run, folder):
    """A run of which tokens leave the cache."""
    page, tensors = folder / "budget.html", folder / "budget.safetensors"
    run(ng_run, "--config", "configs/demo.ini", "--message", "Who art thou?", "--run.max_new_tokens=90", "--run.stop_ids=",
        "--cache.name=budget", "--cache.budget.policy=keydiff", "--cache.budget.tokens=24", "--cache.budget.recent=8",
        "--cache.budget.every=16", "--trace-layer=0", "--view", page, "--save", tensors, "--save-tensors", "dropped_at,embed")
    saved, metadata = read_tensors(tensors)
    tokens = json.loads(metadata["tokens.0"])
    (n_layers, n_heads, n), values = saved["dropped_at.0"]
    return Page(path=page, ng_run=ng_run, ids=tokens["ids"], prompt_len=tokens["prompt_len"], texts=tokens["text"],
                dropped=[list(values[row * n:(row + 1) * n]) for row in range(n_layers * n_heads)])


def hostile(ng_run, folder):
    """A tiny model with hostile tokens, and so many of them that not all layers fit into a megabyte."""
    tokenizer = json.loads((HERE.parent / "data/tokenizers/bbpe_qwen2/tokenizer.json").read_text(encoding="utf-8"))
    vocabulary, added = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    first = len(vocabulary) + len(added)
    added += [added[0] | {"id": first + i, "content": text, "special": False} for i, text in enumerate(HOSTILE)]
    changed = folder / "tokenizer.json"
    changed.write_text(json.dumps(tokenizer), encoding="utf-8")
    made_up_models.write_tiny(folder / "hostile", changed)
    ids = [*range(first, first + len(HOSTILE)), vocabulary["â"]]  # as byte-level BPE spells the byte 0xE2
    ids += [vocabulary["a"]] * (440 - len(ids))
    page = folder / "hostile.html"
    run(ng_run, folder / "hostile", "--prompt-ids", " ".join(map(str, ids)), "--run.max_new_tokens=8", "--view", page,
        "--view-limit", 1, "--against", "cache.codec=bf16")
    return Page(path=page, ng_run=ng_run, ids=ids, prompt_len=len(ids))


def scores(attention, ids):
    """{name: [layer][head]}: the page's scores of heads, from what was saved."""
    def entropy(rows):
        return sum(-sum(p * math.log(p) for p in row if p > 0) for row in rows) / len(rows)

    def mean(values):
        return sum(values) / len(values) if values else 0.0

    def induction(rows):
        values = []
        for query, row in enumerate(rows):
            followers = [key for key in range(1, query) if ids[key - 1] == ids[query]]
            if followers:
                values.append(sum(row[key] for key in followers))
        return mean(values)

    measures = {"entropy": entropy, "first": lambda rows: mean([row[0] for row in rows[1:]]),
                "previous": lambda rows: mean([rows[q][q - 1] for q in range(1, len(rows))]), "induction": induction}
    return {name: [[measure(rows) for rows in heads] for heads in attention] for name, measure in measures.items()}
