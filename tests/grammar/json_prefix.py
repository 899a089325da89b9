"""What can be said against a JSON text that was cut off.

What of the text is complete is validated as it stands. Complaints about an object or list that was
still open count only where no more text can heal them.
"""
import json

import regex

SCALAR = regex.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
                       r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
BLANKS = regex.compile(r"[ \t\r\n]*")
HEALED_BY_MORE = {"required", "minItems", "minProperties", "contains", "minContains", "anyOf", "oneOf",
                  "not", "dependentRequired", "const", "enum", "unevaluatedProperties"}


class Cut(Exception):
    """The end of the text came within a value."""


class Reader:
    def __init__(self, text):
        self.text = text
        self.at = 0
        self.open = []  # paths of objects and lists that have not ended

    def blanks(self):
        self.at = BLANKS.match(self.text, self.at).end()
        if self.at == len(self.text):
            raise Cut

    def take(self, signs):
        self.blanks()
        assert self.text[self.at] in signs, f"{self.text[self.at]!r} where one of {signs!r} can stand"
        self.at += 1
        return self.text[self.at - 1]

    def scalar(self):
        found = SCALAR.match(self.text, self.at, partial=True)
        assert found, f"nothing begins with {self.text[self.at:self.at + 10]!r}"
        # A number at the end may go on.
        if found.partial or (found.end() == len(self.text) and found[0][-1].isdigit()):
            raise Cut
        self.at = found.end()
        return json.loads(found[0])

    def value(self, path, put):
        """Reads a value; `put` keeps it, an object or a list already when it begins."""
        self.blanks()
        if self.text[self.at] not in "{[":
            put(self.scalar())
            return
        self.open.append(path)
        if self.take("{[") == "{":
            self.members(path, put)
        else:
            self.elements(path, put)
        self.open.pop()

    def members(self, path, put):
        found = {}
        put(found)
        self.blanks()
        if self.text[self.at] == "}":
            self.at += 1
            return
        while True:
            self.blanks()
            name = self.scalar()
            assert isinstance(name, str), f"{name!r} where a name can stand"
            self.take(":")
            self.value(path + (name,), lambda value, name=name: found.__setitem__(name, value))
            if self.take(",}") == "}":
                return

    def elements(self, path, put):
        found = []
        put(found)
        self.blanks()
        if self.text[self.at] == "]":
            self.at += 1
            return
        while True:
            self.value(path + (len(found),), found.append)
            if self.take(",]") == "]":
                return


def complaint(text, validator):
    """None where nothing is to be said."""
    reader = Reader(text)
    whole = []
    try:
        reader.value((), whole.append)
        reader.blanks()
        return f"goes on behind its end: {text[reader.at:]!r}"
    except Cut:
        pass
    except AssertionError as error:
        return str(error)
    for error in validator.iter_errors(whole[0]) if whole else []:
        healed = tuple(error.absolute_path) in reader.open and error.validator in HEALED_BY_MORE
        # Which branch counts may still change.
        branch = {"then", "else"} & set(map(str, error.absolute_schema_path))
        if not healed and not (branch and reader.open):
            return error.message
    return None
