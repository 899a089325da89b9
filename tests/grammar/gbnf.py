"""Whether a text is one of a GBNF grammar, begins one, or neither.

Reads the grammar to plain productions and follows them by Earley's algorithm: another way than the
stage's, so that the two do not err alike.
"""
import collections

import regex

TOKEN = regex.compile(
    r'(?P<blank>[ \t\r\n]+|#[^\n]*)|(?P<rule>[\w-]+)[ \t]*::=|(?P<name>[\w-]+)'
    r'|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<set>\[(?:[^\]\\]|\\.)*\])'
    r'|(?P<count>[*+?]|\{[0-9,]+\})|(?P<sign>[().|])')
ESCAPE = regex.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
NAMED = {"n": "\n", "r": "\r", "t": "\t"}


def plain(text):
    """A literal without its escapes."""
    def sign(match):
        digits = match.group(1) or match.group(2)
        return chr(int(digits, 16)) if digits else NAMED.get(match.group(3), match.group(3))
    return ESCAPE.sub(sign, text)


class Grammar:
    def __init__(self, source):
        self.rules = {}  # name: list of sequences; a sequence is of names and compiled sets
        self.tokens = []
        at = 0
        while at < len(source):
            token = TOKEN.match(source, at)
            assert token, f"cannot read {source[at:at + 20]!r}"
            at = token.end()
            if token.lastgroup != "blank":
                self.tokens.append((token.lastgroup, token.group(token.lastgroup)))
        while self.tokens:
            kind, name = self.tokens.pop(0)
            assert kind == "rule", f"{name!r} begins no rule"
            self.rules[name] = self.choice()

    def sees(self, *signs):
        return bool(self.tokens) and self.tokens[0] in [("sign", sign) for sign in signs]

    def choice(self):
        found = [self.sequence()]
        while self.sees("|"):
            self.tokens.pop(0)
            found.append(self.sequence())
        return found

    def sequence(self):
        items = []
        while self.tokens and self.tokens[0][0] != "rule" and not self.sees("|", ")"):
            items += self.repeated(self.item())
        return items

    def item(self):
        """A list of what follows one another."""
        kind, text = self.tokens.pop(0)
        if kind == "name":
            return [text]
        if kind == "text":
            return [regex.compile(regex.escape(sign)) for sign in plain(text)]
        if kind == "set":
            return [regex.compile(text)]
        if text == ".":
            return [regex.compile("(?s:.)")]
        assert text == "(", f"{text!r} begins nothing"
        name = self.made(self.choice())
        self.tokens.pop(0)
        return [name]

    def made(self, sequences):
        name = f"({len(self.rules)})"
        self.rules[name] = sequences
        return name

    def repeated(self, items):
        if not self.tokens or self.tokens[0][0] != "count":
            return items
        count = {"*": "{0,}", "+": "{1,}", "?": "{0,1}"}.get(self.tokens[0][1], self.tokens[0][1])
        self.tokens.pop(0)
        least, _, most = count[1:-1].partition(",")
        if "," not in count:
            most = least
        rest = []
        if most == "":
            rest = [self.made([])]
            self.rules[rest[0]] = [[], items + rest]
        else:
            for _ in range(int(most) - int(least)):
                rest = [self.made([[], items + rest])]
        return items * int(least) + rest

    def standing(self, text):
        """"matches", "begins" or "no"."""
        nothing = self.may_be_empty()
        row = {("root", i, 0, 0) for i in range(len(self.rules["root"]))}
        waiting = []  # for each place: by the name of a rule, the items that stand before it
        for at in range(len(text) + 1):
            waiting.append(collections.defaultdict(list))
            todo, following = list(row), set()
            while todo:
                name, which, dot, begin = item = todo.pop()
                sequence = self.rules[name][which]
                more = []
                if dot == len(sequence):
                    more = [(n, w, d + 1, b) for n, w, d, b in waiting[begin][name]]
                elif isinstance(sequence[dot], str):
                    called = sequence[dot]
                    waiting[at][called].append(item)
                    more = [(called, i, 0, at) for i in range(len(self.rules[called]))]
                    if called in nothing:
                        more.append((name, which, dot + 1, begin))
                elif at < len(text) and sequence[dot].fullmatch(text[at]):
                    following.add((name, which, dot + 1, begin))
                for new in more:
                    if new not in row:
                        row.add(new)
                        todo.append(new)
            if at < len(text):
                row = following
            if not row:
                return "no"
        whole = any(name == "root" and begin == 0 and dot == len(self.rules[name][which])
                    for name, which, dot, begin in row)
        return "matches" if whole else "begins"

    def may_be_empty(self):
        found = set()
        while True:
            more = {name for name, sequences in self.rules.items()
                    if any(all(item in found for item in sequence) for sequence in sequences)}
            if more == found:
                return found
            found = more
