"""Writes cases.json: templates, and what Python's Jinja makes of them as transformers sets it up.

Run it with python3-jinja2: python3 make_cases.py. CI reads cases.json only.
A case is {"template", "output"} or {"template", "error": true}; the variables are the same for all.
"""

import datetime
import json
import pathlib

from jinja2 import nodes, pass_eval_context
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753833600  # 2025-07-30

VARIABLES = {
    "n": 7, "f": 2.5, "s": "Hello World", "u": "Größe 你好 🙂", "e": "", "z": 0, "t": True, "no": None,
    "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"b": 1, "a": "x", "items": [1]},
    "rows": [{"name": "b", "age": 2, "tag": {"x": 1}}, {"name": "A", "age": 1},
             {"name": "c", "age": 2, "tag": {"x": 3}}],
    "messages": [{"role": "system", "content": " Be kind.\n"}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>\nx\n</think>\n\nHo"},
                 {"role": "user", "content": "it's \"so\""}],
    "bos_token": "<s>", "add_generation_prompt": True,
}

EXPRESSIONS = r"""
1 + 2 * 3 | -n | +n | 7 // 2 | -7 // 2 | 7 % 3 | -7 % 3 | 7 % -3 | 7 / 2 | 2 ** 10 | 2 ** -1 | -2 ** 2 | 2 ** 3 ** 2
1.0 | 1e3 | 1.5e-7 | 1e16 | 1e15 | 123456789.123 | 0.1 + 0.2 | 7.5 // 2 | -7.5 % 2 | 1_000 | 0x1F | 0b101 | 0o17 | 3.0 * 2 | 10 / 4
n + f | n - f | n * f | t + 1 | true + true | n ~ f ~ s | 1 ~ 2 + 3 | "a" ~ none ~ true | s + "!" | "ab" * 3 | 2 * "ab" | [1] * 2 | [1] + [2] | (1,) + (2,)
1 + "a" | "a" + 1 | none + 1 | s - 1 | missing + 1 | 1 / 0 | 1 % 0 | l + "a" | -s | "a" * "b"
1 < 2 | 1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 | true == 1 | "a" < "b" | "a" < 1 | none == none | none < 1 | [1,2] < [1,3] | (1,2) == (1,2) | [1] == (1,) | {"a":1} == {"a":1.0} | 1 != 2 | 3 >= 3 | "Z" < "a" | "é" > "z"
1 in l | 5 in l | 5 not in l | "ell" in s | "x" in s | "a" in d | 1 in d | 1 in s | 1 in missing | "a" in none | missing in l | none in [none] | not 1 in l | not (1 in l)
true and 0 | 1 and "x" | 0 or "y" | none or false | not none | not not s | 1 or missing.x | not l == [] | true and not false or false
"a" if t else "b" | "a" if no | "a" if no else "b" if t else "c" | ("a" if z) is undefined | (1 if t else 2) + 1
l[0] | l[-1] | l[5] | l[1:] | l[:-1] | l[::-1] | l[::2] | l[5:] | l[-2:] | s[1] | s[-1] | s[1:4] | s[::-1] | u[2:6] | u[-1] | u[::2] | e[0] | s[100:] | l["x"] | d["a"] | d.a | d["zz"] | d.zz | d.items | d["items"] | l.0 | s[:0] | l[:] | l[0:3:2] | l[3:0:-1] | l[::0] | s["upper"]() | no.x | no["x"] | missing.x | missing[0] | d.zz.y | (1,2,3)[1:] | "abc"[1]
none | true | [1, "a", none, true, 1.5] | (1,) | () | (1, 2) | {"a": 1, "b": [1]} | {} | [] | ["it's", 'a"b', "it's \"x\"", "a\\b\n\t\r", "é\x00\u200b"] | {1: 2, none: true} | {"a": 1, "a": 2} | [missing] | {"k": missing} | ["🙂", "\x7f", "\xa0"]
"a\nb" | 'it\'s' | "\u00e9\x41\101" | "\q" | "a" "b" | "tab\there" | "\\n" | '\"'
s.upper() | s.lower() | s.title() | s.capitalize() | s.strip() | "  x ".strip() | "xxaxx".strip("x") | "xyaxy".lstrip("yx") | "xyaxy".rstrip("yx") | " a ".lstrip() ~ "|" | " a ".rstrip() ~ "|" | u.upper() | "ß".upper() | "ǆ".title() | "it's a dog".title() | "straße".capitalize()
s.split() | s.split("o") | s.split("o", 1) | "a,b,,c".split(",") | " a  b c ".split() | " a  b c ".split(none, 1) | "a b c".rsplit(" ", 1) | "  a b  c ".rsplit(none, 1) | "a,b".split(",", 0) | "".split() | "".split(",") | s.split("") | s.split("zz") | "a</think>b</think>c".split("</think>")[-1] | "abc".split("c") | "a b".split(sep=" ", maxsplit=1)
s.replace("o", "0") | s.replace("o", "0", 1) | "aaa".replace("", "-") | "aaa".replace("a", "") | "".replace("", "x") | "abc".replace("", "-", 2) | s.replace(1, 2)
s.startswith("He") | s.startswith(("x", "He")) | s.endswith("ld") | s.endswith("x") | s.startswith("ell", 1) | s.startswith("") | s.startswith(1) | s.endswith("Hello", 0, 5)
s.find("o") | s.find("zz") | s.rfind("o") | u.find("你") | s.index("o") | s.index("zz") | s.count("o") | s.count("") | s.find("o", 5) | s.find("l", -3) | s.find("", 11) | s.find("", 12)
"12".isdigit() | "1a".isdigit() | "".isdigit() | "²".isdigit() | "²".isdecimal() | "½".isnumeric() | "abc".isalpha() | "你".isalpha() | "a1".isalnum() | " \n".isspace() | "AB".isupper() | "ab1".islower() | "1".islower() | "abc".isascii() | u.isascii()
", ".join(w) | "-".join("abc") | ", ".join(l) | "".join([]) | "a-b-c".partition("-") | "a-b-c".rpartition("-") | "abc".partition("-") | "abc".rpartition("-") | "prefix-x".removeprefix("prefix-") | "x.txt".removesuffix(".txt") | "x".removesuffix("") | "a\nb\r\nc\n".splitlines() | "a\nb\n".splitlines(true) | "7".zfill(3) | "-7".zfill(4) | "x".center(5) ~ "|" | "x".center(4) ~ "|" | "xy".center(5) ~ "|" | "x".ljust(3) ~ "|" | "x".rjust(3, "*") | "ab".center(7, "*")
"{} of {}".format(1, "x") | "{0}{1}{0}".format("a", "b") | "{a} {b[0]}".format(a=1, b=[2]) | "{{}}".format() | "{:>5}|{:<5}|{:^5}".format("a", "b", "c") | "{:.2f}".format(3.14159) | "{:05d}".format(42) | "{!r}".format("a") | "{}".format() | "%s-%d" % ("a", 3) | "%5.2f|%-5s|%05d" % (3.14159, "ab", 42) | "%s" % l | "%%" % () | "%s %s" % ("a",) | "%r" % "a" | "%x" % 255 | "{:d}".format(7) | "%s" % none
d.items() | list | x.append | d.get("a") | d.get("q") | d.get("q", 5) | d.keys() | list(1) | d.values() | w.index("c") | w.count("b") | w.append("x") | d.update({}) | d.pop("a") | l.sort() | l.append | w.index("q") | d.copy() == d | l.nosuch | s.nosuch | s.nosuch()
missing | missing is defined | missing is undefined | d.zz is defined | s is string | n is string | n is number | f is number | t is number | n is integer | t is integer | f is float | t is boolean | n is boolean | no is none | no is not none | d is mapping | l is mapping | l is sequence | s is sequence | d is sequence | n is sequence | l is iterable | n is iterable | s is iterable | missing is iterable | range is callable | s is callable | n is odd | n is even | 9 is divisibleby 3 | 9 is divisibleby(2) | "abc" is lower | "ABC" is upper | "1" is upper | t is true | t is false | 1 is true | n is eq 7 | n is equalto(7) | n is == 7 | n is ne 7 | n is gt 3 | n is lt 3 | n is ge 7 | n is le 6 | n is sameas 7 | 1 is in l | 1 is not in l | "upper" is filter | "nix" is filter | "odd" is test | s is nosuch | s is not string | n is defined and n is odd | not missing is defined | no is sameas none | t is sameas true | s is escaped | s is lessthan "Z"
s | upper | s|lower|title | s|capitalize | u|title | "a-b (c) [d]"|title | " x "|trim | "xxaxx"|trim("x") | s|length | u|length | l|length | d|length | missing|length | n|length | no|length | s|reverse | l|reverse|list | s|first | s|last | l|first | l|last | []|first | []|last | e|first | missing|first
l|join | l|join(", ") | w|join("|") | rows|join(", ", attribute="name") | missing|join | l|sort | w|sort | w|sort(case_sensitive=true) | l|sort(reverse=true) | rows|map(attribute="name")|list | rows|sort(attribute="age")|map(attribute="name")|join | rows|sort(attribute="age,name")|map(attribute="name")|join | [1,"a"]|sort | d|dictsort | d|dictsort(by="value") | {"b":2,"A":1}|dictsort | {"b":2,"A":1}|dictsort(true) | {"b":2,"A":1}|dictsort(false, "value", true)
l|min | l|max | []|max | w|min | w|max(case_sensitive=true) | rows|max(attribute="age") == rows[0] | l|sum | rows|sum(attribute="age") | l|sum(start=10) | w|sum | ["a","A","b"]|unique|list | [1,1.0,2]|unique|list | rows|map(attribute="tag.x")|list | rows|map(attribute="tag.x", default=9)|list | w|map("upper")|list | l|map("string")|join("-") | w|map("replace", "b", "x")|list | rows|map(attribute="zz")|list | [[1,2],[3]]|map("first")|list | ["1","2"]|map("int")|sum | w|map|list
l|select("odd")|list | l|reject("odd")|list | [0,1,none]|select|list | l|select("gt", 1)|list | rows|selectattr("tag")|list|length | rows|selectattr("age", "equalto", 2)|map(attribute="name")|list | rows|rejectattr("tag", "defined")|map(attribute="name")|list | rows|selectattr("tag", "undefined")|list|length | messages|selectattr("role", "equalto", "user")|list|length | (messages|selectattr("role", "equalto", "user")|first).content | (messages|selectattr("role","eq","user"))[0] | messages|selectattr("role", "in", ["user", "system"])|map(attribute="role")|join(",") | none|select|list | l|select("nosuch")|list | messages|selectattr("role")|length
"7"|int | "7.9"|int | "x"|int | "x"|int(5) | "ff"|int(0, 16) | "0x1f"|int(0,16) | 3.9|int | -3.9|int | none|int | true|int | " 12 "|int | "1_0"|int | "7"|float | "x"|float | "1e3"|float | 3|float | "inf"|float | "-.5"|float | 3.14159|round | 3.14159|round(2) | 2.5|round | 3.5|round | 3.2|round(0, "ceil") | 3.7|round(0, "floor") | 7|round | 1234|round(-2) | -3|abs | -2.5|abs | "x"|abs | 2.675|round(2) | 3|round(method="ceil")
missing|default("x") | missing|d("x") | e|default("x") | e|default("x", true) | no|default("x") | no|default("x", boolean=true) | missing|default | d.zz|default([]) | missing.x|default("x")
s|replace("o","0") | s|replace("o","0",1) | n|replace("7","8") | "a\nb\n\nc"|indent | "a\nb\n\nc"|indent(2) | "a\nb"|indent(2, true) | "a\n\nb"|indent(2, false, true) | "a\nb"|indent("> ") | "<a href='x'>&\""|escape | "<"|e | "<b>"|safe | 5|string + "x" | l|string | s|list | d|list | n|list | s|truncate(8) | s|truncate(8, true) | s|truncate(5, true, "", 0) | "foo bar baz qux"|truncate(9) | s|center(21) ~ "|" | s|wordcount | "a b/c?d=é"|urlencode | "%s-%s"|format("a", 1) | l|batch(2)|list | l|batch(2, 0)|list | [1,2,3,4,5]|slice(2)|list | [1,2,3,4,5]|slice(2, 0)|list | d|items|list | missing|items|list | l|items|list | rows|groupby("age")|list|length | d|attr("a") | s|nosuch | s|upper|nosuch
d|tojson | s|tojson | "é\n\"\\/<>&'"|tojson | u|tojson | u|tojson(ensure_ascii=true) | 1.5|tojson | 1e20|tojson | 1e-7|tojson | none|tojson | true|tojson | [1,[],{},[{}]]|tojson(indent=2) | d|tojson(indent=4) | d|tojson(sort_keys=true) | d|tojson(separators=(",", ":")) | d|tojson(indent=2, separators=(",", ": ")) | {1:2, none:3, true:4, 1.5:5}|tojson | (1,2)|tojson | missing|tojson | "\x00\x1f\x7f\u2028"|tojson | l|map("string")|tojson | range(3)|tojson | rows|tojson | d|tojson(indent="\t") | [1,2]|tojson(indent=0) | d.keys()|tojson
range(5)|list | range(2,5)|list | range(5,0,-2)|list | range(0)|list | range(3)[1] | range(10)[2:4]|list | range(3)|length | range("a") | range(1,2,0) | range(200000) | dict(a=1, b=2) | dict({"x":1}, y=2) | dict([["a",1]]) | namespace(a=1).a | namespace().a | raise_exception("no") | strftime_now("%Y-%m-%d") | strftime_now("%d %b %Y") | strftime_now("%A %B %j") | nosuch() | s() | dict(1) | namespace({"q": 3}).q
("<b>"|safe) + "<i>" | "<i>" + ("<b>"|safe) | ("<b>"|e) + "<i>" | ("<b>"|e)|e | ("<b>"|safe)|e | ("<b>"|safe) ~ "<i>" | "<b>"|safe is escaped | "<b>"|e|upper is escaped | "<b>" is escaped | ["<b>"|safe] | ("<b>"|safe) * 2 + "&" | ("%s %r %d"|safe) % ("<i>", "'", 3) | ("{} {!r}"|safe).format("<i>", "'") | ("{}"|safe).format("<b>"|safe) | ("<"|safe).join(["&", "&"|safe]) + ">" | ("<b>"|safe).upper() + "&" | ("<b>"|safe).replace("b", "<") + "&" | (" <b> "|safe)|trim + "&" | ("<b>"|safe)[1:] + "&" | ("<b>"|safe)[::-1] + "&" | ("<b>,c"|safe).split(",")[0] + "&" | ("<b>"|safe)|title + "&" | ("<b>"|safe)|capitalize + "&" | ("<b>"|safe)|replace("b", "c") + "&" | ["<b>"|safe, "<"]|join("&") + "&" | ("<b>"|safe)|string + "&" | ("a\nb"|safe)|indent(2) + "&" | ("<b>"|safe)|tojson + "&" | ("<b>"|safe) == "<b>" | ("b"|safe).center(5, "<") + "&" | ("7"|safe).zfill(3) + "&" | ("%s"|safe)|format("<i>") + "&" | ("it's \"<b>\""|e) | s|safe + u|safe + "'" | "<b>"|forceescape
-1|abs | (-1)|abs | not s is string | 1 if missing else 2 | [1,2,3][1:]|sum | "a" ~ 1 + 2 ~ "b" | "a,b".split(",")|map("upper")|join | (1, 2)|join | {"a": [1, {"b": 2}]}.a[1].b | [x for x in l] | l[0:1] + l[1:2] | "%d%%"|format(50) | "a" "b" ~ "c" | 1 is odd and 2 is even | (l|length > 2) and s | l is iterable and l is not string | 5 - 3 - 1 | 2 * 3 % 4 | 10 - 2 ~ 3 | 3 ~ 4 * 2 | "x" in ["x"] ~ "" | none is none is true
messages[0]["role"] | messages[-1].content | messages[1:][0].role | messages|length - 1 | messages|last | messages[0].content|trim | messages[0].content.strip() + "!" | messages[2].content.split("</think>")[-1].lstrip("\n") | "</think>" in messages[2].content | messages[9] is defined | messages[9].role | messages[0].get("name") | messages[0].name is defined | messages|map(attribute="role")|unique|list | messages[3].content|tojson
"""

TEMPLATES = r"""
a{% if t %}b{% endif %}c
a {%- if t -%} b {%- endif -%} c
  {% if t %}x{% endif %}
{% if t %}\nx\n{% endif %}\ny\n
{% if t +%}\nx\n{%+ endif %}\ny\n
   {%+ if t %}x{% endif %}
a  {{ n }}  b
a  {{- n -}}  b\n
a\n  {{ n }}\n\nb\n\n
{# comment #}\nx {#- y -#} z
  {# c #}  x
x\n  {#+ c +#}\ny
{#\nlong\n#}x
{% raw %}{{ n }} {% if %}{% endraw %}!
  {%- raw -%}  a {{ b }}  {%- endraw -%}  x
{% raw %}\na\n{% endraw %}\nb
x {{ "}}" }} {{ "%}" }} {{ {"a": {"b": 1}}["a"] }}
{{- "a" }}{{ "b" -}}   c
a\r\nb\rc\n
trailing\n
trailing\n\n
{{ n }}\n
{ { n } } {%%}
{ {n} } { % x % } #} }}
{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}
{% if z %}a{% elif e %}b{% else %}c{% endif %}
{% if z %}a{% elif n %}b{% elif t %}d{% endif %}
{% for x in l %}{{ x }},{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in l %}{{ loop.cycle("a", "b") }}{% endfor %}
{% for x in [1,1,2,2,1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}
{% for x in missing %}a{% else %}none{% endfor %}
{% for x in no %}a{% endfor %}
{% for x in n %}a{% endfor %}
{% for x in s %}{{ x }}.{% endfor %}
{% for k in d %}{{ k }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{% for a, b in [[1,2],[3,4]] %}{{ a + b }} {% endfor %}
{% for a, (b, c) in [[1,[2,3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1,2,3]] %}x{% endfor %}
{% for x in l if x > 1 %}{{ x }}/{{ loop.length }} {% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}
{% for x in l recursive %}{{ x }}{% endfor %}
{% for x in [[1,[2]],[3]] recursive %}[{{ loop.depth }}{% for y in x %}{% if y is iterable %}{{ loop(y) }}{% else %}{{ y }}{% endif %}{% endfor %}]{% endfor %}
{% for x in [{"n":1,"c":[{"n":2,"c":[]}]}] recursive %}{{ loop.depth0 }}{{ x.n }}{{ loop(x.c) }}{% endfor %}
{% for x in range(10) %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in range(5) %}{% if x == 3 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% break %}{% else %}else{% endfor %}
{% for x in l %}{% for y in w %}{% if y == "A" %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in w %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% break %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for loop in l %}{{ loop }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a = [1] %}{% set ns.b = ns.a + [2] %}{{ ns.b }}{{ ns.c }}
{% set d.x = 1 %}
{% set missing.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set (a, b) = [1, 2] %}{{ a }}{{ b }}
{% set a = 1, 2 %}{{ a }}
{% set a = 1, %}{{ a }}
{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}
{% set x | upper %}a{{ s }}{% endset %}{{ x }}
{% set x | replace("a", "b") | trim %} a {% endset %}[{{ x }}]
{% if t %}{% set x = 5 %}{% endif %}{{ x }}
{% set true = 1 %}
{% set x = 1 %}{% set y = x if x else 2 %}{{ y }}
{% set s = s + "!" %}{{ s }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}
{% filter upper %}a{{ s }}{% endfilter %}
{% filter replace("a", "b") | upper %}aa{% set q = 1 %}{% endfilter %}{{ q }}
{% macro m(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=2) }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}x{{ n }}{% endcall %}
{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(a) m() %}<{{ a }}>{% endcall %}
{% macro m(x) %}{{ x }}{{ caller("q", b=2) }}{% endmacro %}{% call(a, b=3) m(9) %}<{{ a }}{{ b }}>{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ q }}{% endmacro %}{% set q = 1 %}{{ m() }}{% set q = 2 %}{{ m() }}
{% set q = 1 %}{% macro m() %}{% set q = 2 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}
{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m(1) }}]{{ m(2)|upper ~ m(3) }}
{% macro m() %}{% for x in l %}{{ x }}{% endfor %}{% endmacro %}{{ m() | length }}{{ m is callable }}{{ m.name }}
{{ m() }}{% macro m() %}x{% endmacro %}
{% generation %}a{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}
{% generation %}\nx\n{%- endgeneration -%}\ny
{% include "x" %}
{% do l %}
{% unknown %}
{% if t %}
{% endif %}
{% for x in l %}{% endif %}
{% if %}a{% endif %}
{{ }}
{{ n
{% if t
{# open
{{ "open }}
{{ (1 }}
{{ 1) }}
{{ [1} }}
{{ 1 2 }}
{{ a. }}
{{ a| }}
{{ a is }}
{{ a ! b }}
{{ 1 + }}
{{ x = 1 }}
{% set %}
{% set x = %}
{% set 1 = 2 %}
{% for %}{% endfor %}
{% for x l %}{% endfor %}
{% macro %}{% endmacro %}
{{ m(a=1, 2) }}
{{ n if }}
{{ "a"|upper() }}{{ "a"|upper(1) }}
{{ s.upper(1) }}
{{ l|join(x=1) }}
{{ dict(**d)|length }}{{ range(*[1, 3])|list }}
{{ missing.x.y }}
{{ missing() }}
{{ missing == missing2 }}{{ missing ~ "x" }}{{ missing|upper }}{{ missing|list }}
{% set g = l|map("string") %}{{ g|list }}{{ g|list }}{% if g %}t{% endif %}
{% set g = l|select("odd") %}{{ g|first }}{% for x in g %}{{ x }}{% else %}e{% endfor %}
{{ l|map("string")|length }}
{% set it = d.items() %}{{ it|length }}{{ it|list }}{{ it|list|length }}
{{ l|reverse|first }}{{ l|reverse|list|last }}
{% for m in messages %}{% if loop.first and m.role != "system" %}sys{% endif %}<|{{ m.role }}|>{{ m["content"] | trim }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}
{% for m in messages %}{% if (m["role"] == "user") != (loop.index0 % 2 == 0) %}{{ raise_exception("alternate") }}{% endif %}{% endfor %}
{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set loop_messages = messages %}\n{%- endif %}\n{{- bos_token }}\n{%- for message in loop_messages %}\n    {%- if message.role == 'user' and loop.last %}\n{{- '[INST] ' + system_message|trim + '\\n\\n' + message.content + '[/INST]' }}\n    {%- else %}\n{{- message.content }}\n    {%- endif %}\n{%- endfor %}
{%- set ns = namespace(last=messages|length - 1, multi=true) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi and message.role == "user" and message.content is string and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}\n        {%- set ns.multi = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{{ ns.last }}
{%- for message in messages %}\n{%- set content = message.content %}\n{%- if message.role == "assistant" and '</think>' in content %}\n{%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}\n{%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n{{- reasoning ~ "|" ~ content }}\n{%- endif %}\n{%- endfor %}
{%- macro render(x, level=0) -%}\n{%- if x is mapping -%}\n{%- for k, v in x|dictsort -%}\n{{ "  " * level }}{{ k }}: {{ render(v, level + 1) }}\n{% endfor -%}\n{%- elif x is iterable and x is not string -%}\n{{ x|join(",") }}\n{%- else -%}\n{{ x }}\n{%- endif -%}\n{%- endmacro -%}\n{{ render({"a": {"b": [1, 2]}, "c": "d"}) }}
<|start|>system<|message|>Today {{ strftime_now("%Y-%m-%d") }}{% if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}{{ date_string }}
{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}
{% set tools = tools if tools is defined else none %}{% if tools is not none and tools %}T{% else %}-{% endif %}
{%- for m in messages if m.role != "system" -%}{{ loop.index }}:{{ m.role }} {% endfor -%}
{{ joiner(", ")() }}{% set j = joiner("+") %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ "a" if t else raise_exception("x") }}
{% set content %}{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}{% endset %}{{ content.split(", ")[::-1]|join("|") }}
{{ l ~ d }}{{ [s, n, f, t, no, u] }}
{{ (l|length) }}{{ l|length + 1 }}{{ -l|length }}
{{- '\n' -}}\n{{ "x" }}
{%- -%}
{{ loop }}
{{ range }}
{{ ns }}{{ ns.x }}
"""


class AssistantTracker(Extension):
    """The tag generation of transformers, without what it tracks."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    @pass_eval_context
    def _run(self, context, caller):
        return caller()


def raise_exception(message):
    raise RuntimeError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(text):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(text)


def case_of(jinja, template):
    try:
        output = jinja.from_string(template).render(**VARIABLES)
    except Exception:
        return {"template": template, "error": True}
    if " object at 0x" in output or "<function" in output or "<class" in output:
        return {"template": template, "error": True}  # ng prints no addresses
    return {"template": template, "output": output}


def environment():
    """Jinja as transformers sets it up."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[AssistantTracker, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


def expressions():
    """Each expression, where " | " stands between two of them and "|" in one."""
    for line in EXPRESSIONS.strip().splitlines():
        for expression in line.split(" | "):
            yield "{{ " + expression.strip() + " }}"


def main():
    jinja = environment()
    templates = list(expressions())
    for line in TEMPLATES.strip("\n").splitlines():
        templates.append(line.replace("\\r", "\r").replace("\\\\n", "\0").replace("\\n", "\n").replace("\0", "\\n"))
    cases = [case_of(jinja, template) for template in dict.fromkeys(templates)]
    target = pathlib.Path(__file__).with_name("cases.json")
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    header = json.dumps(VARIABLES, ensure_ascii=False)
    target.write_text(f'{{"now": {NOW},\n"variables": {header},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
