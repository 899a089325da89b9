"""A chat template by which a model thinks and calls tools, for clients.py."""
TEMPLATE = """{%- for m in messages -%}[{{ m.role }}]
{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}</think>{%- endif -%}
{{ m.content or '' }}{%- for c in m.tool_calls or [] -%}
<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}</call>
{%- endfor -%}[end]{%- endfor -%}{{ '' if tools }}{%- if add_generation_prompt -%}[assistant]{%- endif -%}"""
