"""Hostile requests to ng-serve: KINDS has functions by name, each of which gives a path, a body and, where
there are some, headers. WORST are those whose grammars take as long as they may. Used by hostile.py.
"""
import gzip
import random
import zlib

COMPLETIONS, CHAT, RESPONSES, TOKENIZE = "/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize"

KINDS = {}
WORST = []  # grammars that take as long as they may


def kind(make):
    KINDS[make.__name__] = make
    return make


def text(**more):
    return COMPLETIONS, {"prompt": "It is", "max_tokens": 2} | more


def chat(*messages, **more):
    messages = list(messages) or [{"role": "user", "content": "x"}]
    return CHAT, {"messages": messages, "max_tokens": 2} | more


def schema(value):
    return text(guided_json=value)


def doubled(keyword, levels=40):
    def ref(i):
        return {"$ref": f"#/$defs/d{i}"}
    defs = {f"d{i}": {keyword: [ref(i + 1), ref(i + 1)]} for i in range(levels)} | {f"d{levels}": {"type": "null"}}
    return schema(ref(0) | {"$defs": defs})


def nested(inner, repeat, levels):
    for _ in range(levels):
        inner = f"({inner}){repeat}"
    return inner


# Grammars.

@kind
def enum_of_integers():
    return schema({"enum": list(range(20_100))})


@kind
def enum_of_texts():
    return schema({"enum": [f"s{i}" for i in range(10_000)]})


@kind
def all_of_doubled():
    return doubled("allOf")


@kind
def any_of_doubled():
    return doubled("anyOf")


@kind
def many_properties():
    return schema({"properties": {f"n{i}": {"type": "integer"} for i in range(40_000)}})


@kind
def many_required():
    names = [f"n{i}" for i in range(300)]
    return schema({"type": "object", "properties": {name: True for name in names}, "required": names})


@kind
def many_patterns():
    return schema({"patternProperties": {f"^(a|b)*{i}(a|b){{9}}$": {"type": "integer"} for i in range(200)}})


@kind
def pattern_of_many_states():
    return schema({"type": "string", "pattern": "(a|b)*a(a|b){30}", "maxLength": 900})


@kind
def either_array():
    return schema({"$ref": "#/$defs/L", "$defs": {
        "L": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
        "A": {"type": "array", "items": {"$ref": "#/$defs/L"}, "minItems": 1},
        "B": {"type": "array", "items": {"$ref": "#/$defs/L"}, "maxItems": 3}}})


@kind
def large_counts():
    return schema({"type": "array", "items": {"type": "string", "maxLength": 2**31}, "maxItems": 2**31})


@kind
def long_constant():
    return schema({"const": "x" * 1_000_000})


@kind
def deep_schema():
    value = {"type": "null"}
    for _ in range(30):
        value = {"type": "object", "properties": {"x": value}, "required": ["x"]}
    return schema(value)


@kind
def decimals():
    return schema({"type": "number", "multipleOf": 0.000001, "minimum": -1e15, "maximum": 1e15})


@kind
def nested_quantifiers():
    return text(guided_regex=nested("a?", "{2}", 15))


@kind
def nested_options():
    return text(guided_regex=nested("a?b?", "{0,3}", 12))


@kind
def long_pattern():
    return text(guided_regex="(" + "|".join(f"[a-z]{{{i}}}é" for i in range(1, 3000)) + ")+")


@kind
def counted_classes():
    return text(guided_regex=r"([^\x00-\x1f]{1,2000}\w{1,2000}){1,2000}")


@kind
def many_alternatives():
    return text(grammar="root ::= " + " | ".join(f'"k{i}"' for i in range(6700)))


@kind
def doubling_rules():
    rules = "".join(f"a{i} ::= a{i + 1} a{i + 1}\n" for i in range(20))
    return text(grammar=f"root ::= a0\n{rules}a20 ::= \"x\"?\n")


@kind
def ambiguous_rules():
    return text(grammar='root ::= a "!"\na ::= "x" | "x" a | "x" a a | b\nb ::= "x" b? a? | "y"\n')


@kind
def left_recursion():
    return text(grammar='root ::= root "x" | "x"')


@kind
def endless_rules():
    return text(grammar="".join(f"r{i} ::= \"x\" r{i + 1}\n" for i in range(60_000)) + 'root ::= r0\nr60000 ::= "y"\n')


WORST += [enum_of_integers, many_properties, many_patterns, pattern_of_many_states, long_pattern, nested_options,
          counted_classes, endless_rules]


# Bodies.

@kind
def many_unknown_keys():
    return text(x={f"k{i}": 1 for i in range(80_000)})


@kind
def many_keys_that_change_nothing():
    return text(metadata={f"k{i}": 1 for i in range(80_000)})


@kind
def brackets():
    return COMPLETIONS, b"[" * 4_000_000


@kind
def deep_values():
    return COMPLETIONS, b'{"model":"m","prompt":"x","x":' + b'{"x":' * 400_000 + b"1" + b"}" * 400_000 + b"}"


@kind
def many_messages():
    return chat(*[{"role": "user", "content": "x"}] * 80_001)


@kind
def many_tools():
    return chat(tools=[{"type": "function", "function": {"name": f"f{i}", "parameters": {}}} for i in range(20_000)])


@kind
def many_variables():
    return chat(chat_template_kwargs={f"k{i}": [i] for i in range(40_000)})


@kind
def deep_messages():
    value = "x"
    for _ in range(30):
        value = {"x": [value]}
    return chat({"role": "user", "content": "x", "tool_calls": [value]})


@kind
def long_input():
    return RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 40_000}]}


@kind
def long_text():
    return TOKENIZE, {"prompt": "word " * 800_000}


@kind
def text_without_blanks():
    return TOKENIZE, {"prompt": "a" * 4_000_000}


@kind
def every_bias():
    return text(logit_bias={str(i): -1 for i in range(1024)})


@kind
def too_many_biases():
    return text(logit_bias={str(i): 1 for i in range(10**6, 10**6 + 150_000)})


@kind
def long_stops():
    return text(stop=["ab" * 60_000 + str(i) for i in range(16)])


@kind
def long_breakers():
    return text(dry_multiplier=1, dry_sequence_breakers=[f"b{i}" for i in range(20_000)])


@kind
def least_temperature():
    return text(temperature=1e-38, seed=1)


@kind
def many_prompts():
    return text(prompt=[f"{i} " + "It is so " * 20 for i in range(60)], echo=True, logprobs=20)


@kind
def many_answers():
    return text(n=60, logprobs=20, temperature=1.5)


@kind
def new_settings():
    return text(n=2, temperature=random.uniform(0.5, 2), top_p=random.uniform(0.5, 1), stop=["x", "y"])


@kind
def long_prompt():
    return text(prompt="It is so " * 60)


@kind
def bad_bytes():
    return COMPLETIONS, b'{"model":"m","prompt":"' + b"\xff\xfe" * 500_000 + b'"}'


def packed(n_mb):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blanks = b" " * (1 << 20)
    return b"".join(packer.compress(blanks) for _ in range(n_mb)) + packer.flush()


GZIP = {"Content-Encoding": "gzip"}


@kind
def bomb():
    return COMPLETIONS, packed(1000), GZIP


@kind
def many_bombs_in_one():
    return COMPLETIONS, gzip.compress(b"") * 100_000, GZIP
