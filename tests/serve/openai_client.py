"""ng-serve as the official Python client sees it.

Run by hand, in an environment that has the package `openai` (3.57 was tried):

    python3 tests/serve/openai_client.py build/bin/ng-serve

Each answer is held against what ng-run beside it says with the same settings.
"""
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import openai

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "demo.ini"
KEY = "sesame"
QUESTION = [{"role": "user", "content": "Who art thou?"}]


def ng_run(program, *arguments):
    run = pathlib.Path(program).with_name("ng-run")
    done = subprocess.run([run, "--config", CONFIG, "--output=jsonl", *arguments], check=True, capture_output=True)
    return json.loads(done.stdout)


def strict(answer):
    """The answer again through the client's own types, which must take every field as it is."""
    again = type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    assert again == answer
    return answer


def completions(client, program):
    line = ng_run(program, "--prompt=To be", "--run.max_new_tokens=30", "--sampler.seed=4")
    answer = strict(client.completions.create(model="demo", prompt="To be", max_tokens=30, seed=4))
    assert answer.choices[0].text == line["text"], (answer, line)
    assert answer.usage.completion_tokens == len(line["ids"]) - len(line["prompt_ids"])
    # Not strict: the first token of a prompt has null, as OpenAI's own answers have it and their types do not.
    scored = client.completions.create(model="demo", prompt=["To be", "or not"], max_tokens=0, echo=True, logprobs=1)
    assert [choice.text for choice in scored.choices] == ["To be", "or not"]
    assert scored.choices[1].logprobs.token_logprobs[0] is None
    text = "".join(piece.choices[0].text for piece in
                   client.completions.create(model="demo", prompt="To be", max_tokens=30, seed=4, stream=True))
    assert text == line["text"]


def chat(client, program):
    line = ng_run(program, "--message=Who art thou?")
    answer = strict(client.chat.completions.create(model="demo", messages=QUESTION, logprobs=True, top_logprobs=2))
    choice = answer.choices[0]
    assert choice.message.content == line["text"] and choice.message.role == "assistant"
    assert "".join(token.token for token in choice.logprobs.content) == line["text"]
    pieces = list(client.chat.completions.create(model="demo", messages=QUESTION, stream=True, n=2,
                                                 stream_options={"include_usage": True}))
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces
                   if piece.choices and piece.choices[0].index == 0)
    assert text == line["text"]
    assert pieces[-1].usage.prompt_tokens == len(line["prompt_ids"])
    form = {"type": "json_schema", "json_schema": {"name": "age", "schema": {
        "type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
        "additionalProperties": False}}}
    told = client.chat.completions.create(model="demo", messages=QUESTION, response_format=form, max_tokens=80)
    assert isinstance(json.loads(told.choices[0].message.content)["age"], int)


def responses(client, program):
    line = ng_run(program, "--message=Who art thou?")
    answer = strict(client.responses.create(model="demo", input="Who art thou?"))
    assert answer.output_text == line["text"] and answer.status == "completed", answer
    with client.responses.stream(model="demo", input="Who art thou?") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == line["text"] and stream.get_final_response().output_text == text
    # What was answered goes back as it came.
    asked = [*QUESTION, *answer.output, {"role": "user", "content": "Why?"}]
    told = client.chat.completions.create(model="demo", messages=[
        *QUESTION, {"role": "assistant", "content": text}, {"role": "user", "content": "Why?"}])
    assert client.responses.create(model="demo", input=asked).output_text == told.choices[0].message.content
    cut = strict(client.responses.create(model="demo", input="Who art thou?", max_output_tokens=2))
    assert cut.incomplete_details.reason == "max_output_tokens"


def errors(client, base_url):
    def expect(kind, param, ask):
        try:
            ask()
        except kind as error:
            assert error.param == param, error
        else:
            raise AssertionError(f"{kind} was expected")

    expect(openai.BadRequestError, "suffix",
           lambda: client.completions.create(model="demo", prompt="x", suffix="y"))
    expect(openai.BadRequestError, "tool_choice",
           lambda: client.chat.completions.create(model="demo", messages=QUESTION, tool_choice="required"))
    expect(openai.NotFoundError, "model", lambda: client.completions.create(model="gpt-4", prompt="x"))
    expect(openai.BadRequestError, None, lambda: client.embeddings.create(model="demo", input="x"))
    stranger = openai.OpenAI(base_url=base_url, api_key="open", max_retries=0)
    expect(openai.AuthenticationError, None, lambda: stranger.models.list())


def many(client):
    def ask(i):
        return client.completions.create(model="demo", prompt=f"The number {i % 5} is", seed=i, max_tokens=20 + i % 7,
                                         logprobs=1).choices[0].model_dump()

    alone = [ask(i) for i in range(64)]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        assert list(pool.map(ask, range(64))) == alone


def scores(client, program):
    """Texts as lm-eval scores them: item by item the figures of ng-eval, the same bits for 1, 8 and 64 clients."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    texts = [line[:160] for line in lines if len(line) > 40][:64]

    def ask(text):
        choice = client.completions.create(model="demo", prompt=text, max_tokens=0, echo=True, logprobs=1).choices[0]
        return choice.logprobs.token_logprobs

    alone = [ask(text) for text in texts]
    for n_clients in (8, 64):
        with concurrent.futures.ThreadPoolExecutor(n_clients) as pool:
            assert list(pool.map(ask, texts)) == alone, n_clients
    for text, logprobs in zip(texts, alone):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            done = subprocess.run([pathlib.Path(program).with_name("ng-eval"), "--config", CONFIG, "--text-file",
                                   file.name, "--output=jsonl"], check=True, capture_output=True)
        perplexity = math.exp(-sum(logprobs[1:]) / (len(logprobs) - 1))
        assert math.isclose(perplexity, json.loads(done.stdout)["perplexity"], rel_tol=1e-12), text  # in another order


def main():
    program = sys.argv[1]
    server = subprocess.Popen([program, "--config", CONFIG, "--serve.port=0", f"--serve.key={KEY}",
                               "--cache.name=paged", "--cache.max_sequences=16"], stderr=subprocess.PIPE, text=True)
    try:
        base_url = re.search(r"http://\S+?:\d+", server.stderr.readline()).group() + "/v1"
        client = openai.OpenAI(base_url=base_url, api_key=KEY, max_retries=0)
        assert [model.id for model in client.models.list()] == ["demo"]
        completions(client, program)
        chat(client, program)
        responses(client, program)
        errors(client, base_url)
        many(client)
        scores(client, program)
    finally:
        server.terminate()
        code = server.wait()
    assert code == 0, code
    print("ok: models, completions, chat, responses, streams, errors, 64 clients at a time, scores of texts")


if __name__ == "__main__":
    main()
