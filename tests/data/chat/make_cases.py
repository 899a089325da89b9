"""Writes cases.json: conversations through chat templates of every kind, and the ids of transformers.

    OMP_NUM_THREADS=1 python3 make_cases.py

Needs transformers 5. The templates are written here; each does what some published one does. A case
is {"tokenizer", "template", "conversation", "variables", "ids"}, or "error": true in place of ids.
"""
import itertools
import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers  # noqa: E402

HERE = pathlib.Path(__file__).parent
DATE = "2025-07-30"

TEMPLATES = {
    # Turns between marks; tools in the system turn, calls and results as JSON between tags.
    "turns": r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "You may call:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last_user=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and ns.last_user == messages|length - 1 %}
        {%- set ns.last_user = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = message.reasoning_content if message.reasoning_content is string else '' %}
        {%- if not thought and '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' }}
        {%- if loop.index0 > ns.last_user and thought %}
            {{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' }}
        {%- endif %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or not loop.first %}{{- '\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {%- if tool_call.arguments is string %}
                {{- tool_call.arguments }}
            {%- else %}
                {{- tool_call.arguments | tojson }}
            {%- endif %}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
""",
    # Heads of turns, a date, tools in the first user's turn, the end token of a call another one.
    "heads": r"""{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}{{- "Environment: ipython\n" }}{%- endif %}
{{- "Today Date: " + date_string + "\n\n" + system_message + "<|eot_id|>" }}
{%- if tools is not none %}
    {%- if messages | length == 0 %}{{- raise_exception("no user's turn for the tools") }}{%- endif %}
    {%- set first_user_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\nFunctions:\n\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at a time") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' + tool_call.arguments | tojson + "}" }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
""",
    # Refuses turns that do not alternate; parts of a content; a macro, loop controls, a set block.
    "strict": r"""{%- macro said(content) -%}
{%- if content is string -%}{{ content | trim }}
{%- else -%}{%- for part in content -%}{%- if part.type != 'text' -%}{%- continue -%}{%- endif -%}{{ part.text | trim }}{%- endfor -%}{%- endif -%}
{%- endmacro -%}
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
  {%- set first -%}{{ said(messages[0]['content']) }}

{% endset -%}
  {%- set rest = messages[1:] -%}
{%- else -%}
  {%- set first = '' -%}{%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception("Conversation roles must alternate user/assistant") }}
  {%- endif -%}
  {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
  {{ '<' ~ role ~ '>' }}{{ first if loop.first }}
  {%- generation -%}{{ said(message['content']) }}{%- endgeneration -%}
  {{ eos_token ~ '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<model>' }}{%- endif -%}
""",
}

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "Tells the weather <of> a \"place\" & time",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Größe, 中文"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["place"]}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich", "days": 2}}}]}
RESULT = {"role": "tool", "name": "weather", "content": "{\"sky\": \"clear\"}"}
SYSTEM = {"role": "system", "content": " Be kind.\n"}


def turns(n):
    said = ["Who art thou?", "<think>\nA name.\n</think>\n\nA friend.", "  Speak\tup!\n\n", "I am 42 years old; 你好 🙂",
            "cafe\u0301 caf\u00e9", "Good\u00a0night."]
    return [{"role": "assistant" if i % 2 else "user", "content": said[i]} for i in range(n)]


CONVERSATIONS = {
    **{f"{n}": {"messages": turns(n)} for n in (1, 3, 5)},
    **{f"system{n}": {"messages": [SYSTEM, *turns(n)]} for n in (1, 2, 3, 6)},
    "empty": {"messages": [{"role": "user", "content": ""}]},
    "tools": {"messages": turns(1), "tools": [WEATHER]},
    "system-tools": {"messages": [SYSTEM, *turns(1)], "tools": [WEATHER, WEATHER]},
    "call": {"messages": [*turns(1), CALL, RESULT], "tools": [WEATHER]},
    "calls": {"messages": [SYSTEM, *turns(1), CALL, RESULT, RESULT, *turns(2)[1:], *turns(1)], "tools": [WEATHER]},
    "reasoning": {"messages": [*turns(1), {"role": "assistant", "reasoning_content": "hm", "content": "Yes."}]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]}]},
    "wrong-order": {"messages": [*turns(1), *turns(1)]},
}

VARIABLES = {"turns": [{}, {"enable_thinking": False}], "heads": [{}, {"date_string": "26 Jul 2024"}], "strict": [{}]}
TOKENIZERS = {
    "bbpe_qwen2": {"eos_token": "<|im_end|>"},
    "bbpe_llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
}


class Clock:
    @staticmethod
    def now():
        return __import__("datetime").datetime.fromisoformat(DATE)


def ids_of(tokenizer, template, conversation, variables):
    try:
        return tokenizer.apply_chat_template(
            conversation["messages"], tools=conversation.get("tools"), chat_template=template,
            add_generation_prompt=True, tokenize=True, return_dict=False, **variables)
    except Exception:
        return None


def main():
    transformers.utils.chat_template_utils.datetime = Clock
    cases = []
    for (name, special), template in itertools.product(TOKENIZERS.items(), TEMPLATES):
        file = HERE.parent / "tokenizers" / name / "tokenizer.json"
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), **special)
        for variables, conversation in itertools.product(VARIABLES[template], CONVERSATIONS):
            ids = ids_of(tokenizer, TEMPLATES[template], CONVERSATIONS[conversation], variables)
            case = {"tokenizer": name, "template": template, "conversation": conversation, "variables": variables}
            cases.append({**case, **({"error": True} if ids is None else {"ids": ids})})
    parts = {"date": DATE, "tokenizers": TOKENIZERS, "templates": TEMPLATES, "conversations": CONVERSATIONS}
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in parts.items()]
    rows = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "cases.json").write_text("{" + ",\n".join(lines) + ',\n"cases": [\n' + rows + "\n]}\n")
    print(len(cases), sum("error" in case for case in cases))


if __name__ == "__main__":
    main()
