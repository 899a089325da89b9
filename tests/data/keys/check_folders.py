"""Sets every key of make_config_cases.py, and every key of the file itself, on models in folders: check_folders.py --ng build/bin/ng-run FOLDER...

A folder holds a tiny model as transformers saves it: config.json and float weights, with at least 64 ids. In each case its config.json
has one key more, or another value of one. What transformers computes there, ng must compute too, or refuse the key; it must not refuse
a key that changes nothing. Keys that the reference does not ask for are tried many at a time, and one by one where something happens.
The last line of a folder counts the cases: s the reference's logits stay, m they move, f it fails; and what ng does.
"""
import argparse, json, os, shutil, tempfile
import numpy
import make_config_cases as cases

TOGETHER = 48
# transformers 5.23.0 sets that row of the weights to zero after it has loaded them.
NOT_OF_THE_MODEL = {("youtu", "pad_token_id")}


def others(value):
    """Other values like this one."""
    if isinstance(value, bool): return [not value]
    if isinstance(value, int): return [v for v in (value + 1, 2 * value, value - 1, 0, 1) if v != value]
    if isinstance(value, float): return [value * 0.5, value + 1.0, 0.0]
    if isinstance(value, list) and value:
        return [v for v in (value[::-1], value[1:] + value[:1], value[:-1], [value[0]] * len(value), [value[-1]] * len(value)) if v != value] + [[]]
    return []


def own_keys(config, prefix=""):
    """Dotted key -> other values of it."""
    values = {}
    for key, value in config.items():
        values[prefix + key] = others(value) + [None]
        if isinstance(value, dict): values |= own_keys(value, prefix + key + ".")
    return values


def all_cases(config, asked):
    """(key, value) of what the reference asks for, and rounds of the others: each round has a key once."""
    values = {k: list(v) for k, v in cases.keys_and_values("all", asked).items()}
    for key, own in own_keys(config).items():
        mine = values.setdefault(key, [])
        mine += [v for v in own if not any(type(v) is type(m) and v == m for m in mine)]
    for key in cases.SKIP: values.pop(key, None)
    single = [(k, v) for k, vs in values.items() for v in vs if k.split(".")[0] in asked or k.split(".")[0] in cases.NESTED]
    rest = {k: vs for k, vs in values.items() if not (k.split(".")[0] in asked or k.split(".")[0] in cases.NESTED)}
    rounds = []
    while any(rest.values()):
        rounds.append([(k, vs.pop(0)) for k, vs in rest.items() if vs])
    return single, rounds


class Folder:
    def __init__(self, path, program, counts):
        self.program, self.counts, self.name = program, counts, os.path.basename(path.rstrip("/"))
        self.path, self.table = tempfile.mkdtemp(), []
        for name in os.listdir(path):
            if name not in ("config.json", "generation_config.json"): os.symlink(os.path.abspath(f"{path}/{name}"), f"{self.path}/{name}")
        with open(path + "/config.json") as f: self.config = json.load(f)
        self.write([])
        self.still = cases.reference(self.path)
        mine, said = cases.ng(program, self.path)
        if isinstance(mine, int) or not cases.equal(mine, self.still): raise SystemExit(f"{self.name}: differs as it is: {said}")

    def write(self, pairs):
        config = self.config
        for key, value in pairs: config = cases.with_key(config, key, value)
        with open(self.path + "/config.json", "w") as f: json.dump(config, f)

    def count(self, moved, ran, n=1): self.counts[moved, ran] = self.counts.get((moved, ran), 0) + n

    def one(self, pair):
        self.write([pair])
        moved, wanted = cases.outcome(self.path, self.still)
        case = (self.name, pair[0], json.dumps(pair[1]))
        if (self.config["model_type"], pair[0]) in NOT_OF_THE_MODEL: return self.count(moved, "not compared")
        if moved != "f":
            ran = cases.judge(self.program, self.path, case, moved, wanted)
            hardly = moved == "s" and not numpy.array_equal(wanted, self.still)  # less than ng may differ
            if not hardly and "Infinity" not in case[2]: self.table.append((*case, "r" if ran == "stricter" else moved))
            return self.count(moved, ran)
        mine, said = cases.ng(self.program, self.path)
        if isinstance(mine, int) and not 0 < mine < 9: print("FAULT", *case, "f", mine, said[-300:], flush=True)
        self.count("f", "refused" if isinstance(mine, int) else "runs")

    def together(self, pairs):
        if len(pairs) == 1: return self.one(pairs[0])
        self.write(pairs)
        mine = cases.ng(self.program, self.path)[0] if cases.outcome(self.path, self.still)[0] == "s" else 0
        if not isinstance(mine, int) and cases.equal(mine, self.still): return self.count("s", "equal", len(pairs))
        half = len(pairs) // 2
        self.together(pairs[:half]), self.together(pairs[half:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ng", required=True), parser.add_argument("--key", action="append"), parser.add_argument("--part", type=int, default=1, help="every nth case")
    parser.add_argument("--table", help="a file to which the cases are added that change something or that the reference asks for: folder, key, value and s, m, or r where ng refuses on purpose")
    parser.add_argument("--bases", help="a file to which the config.json of each folder is added, as a line {folder: config}")
    parser.add_argument("folder", nargs="+")
    args = parser.parse_args()
    for path in args.folder:
        counts = {}
        folder = Folder(path, args.ng, counts)
        single, rounds = all_cases(folder.config, cases.asked_for(folder.config["model_type"], folder.path))
        if args.key: single, rounds = [(k, v) for k, v in single + sum(rounds, []) if k in args.key], []
        for pair in single[::args.part]: folder.one(pair)
        for pairs in rounds:
            for i in range(0, len(pairs), TOGETHER): folder.together(pairs[i:i + TOGETHER])
        shutil.rmtree(folder.path)
        if args.table:
            with open(args.table, "a") as f: f.write("".join("\t".join(row) + "\n" for row in folder.table))
        if args.bases:
            with open(args.bases, "a") as f: f.write(json.dumps({folder.name: folder.config}) + "\n")
        print(folder.name, ", ".join(f"{moved} {ran} {n}" for (moved, ran), n in sorted(counts.items())), f"in all {sum(counts.values())}", flush=True)


main()
