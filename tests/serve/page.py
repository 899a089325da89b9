#!/usr/bin/env python3
"""Chats with the page of ng-serve in headless Chromium.

    python3 tests/serve/page.py build/bin/ng-serve

Exits 1 where a check fails, 77 where python3-selenium, chromium or chromium-driver is missing.
"""
import json
import pathlib
import sys
import tempfile

from server import ask, served

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "view"))
import browser as chromium  # noqa: E402


def answer_to(url, messages):
    """What a client without a browser is told."""
    _, text = ask(f"{url}/v1/chat/completions", {"model": "demo", "messages": messages})
    return json.loads(text)["choices"][0]["message"]["content"]


class Chat:
    def __init__(self, browser, url):
        self.b = browser
        self.url = url

    def said(self):
        return self.b.texts("#messages article p")

    def wait(self):
        self.b.wait("document.getElementById('stop').hidden")

    def say(self, text):
        self.b.js("document.getElementById('text').focus()")
        self.b.key(text, "Enter")
        self.wait()

    def check_a_conversation(self):
        self.say("Who art thou?")
        first = answer_to(self.url, [{"role": "user", "content": "Who art thou?"}])
        assert self.said() == ["Who art thou?", first], self.said()
        self.say("Why?")
        assert len(self.said()) == 4 and self.said()[:2] == ["Who art thou?", first], self.said()

    def check_reload_keeps_it(self):
        before = self.said()
        self.b.reload()
        assert self.said() == before, self.said()

    def check_edit_and_ask_again(self):
        self.b.click("#messages article.user button")
        assert self.b.js("return document.getElementById('text').value") == "Who art thou?"
        self.b.js("document.getElementById('text').value = ''")
        self.say("What is thy name?")
        wanted = answer_to(self.url, [{"role": "user", "content": "What is thy name?"}])
        assert self.said() == ["What is thy name?", wanted], self.said()

    def check_stop(self):
        self.b.js("""new MutationObserver(() => {
            if (document.querySelector('article.assistant p')?.textContent) document.getElementById('stop').click();
        }).observe(document.getElementById('messages'), {subtree: true, childList: true, characterData: true});""")
        self.say("Tell me all")
        whole = answer_to(self.url, [{"role": "user", "content": "Tell me all"}])
        assert whole.startswith(self.said()[1]) and self.said()[1] != whole, self.said()
        assert self.b.text("article.assistant .end") == "stopped"

    def check_look_inside(self):
        b = self.b
        b.click("#messages article.assistant button.look")
        chats, = b.driver.window_handles[:1]
        b.driver.switch_to.window(b.driver.window_handles[-1])
        b.wait("document.getElementById('stop')?.textContent.startsWith('stopped:')")
        answer = b.js("return data.ids.slice(data.prompt_len).map((id) => data.texts[id]).join('')")
        steps = b.js("return data.steps.map(({top, entropy, logprob}) => [top.length, entropy > 0, logprob < 0])")
        assert steps and all(step == [10, True, True] for step in steps), steps
        command = b.text("#replay")
        assert command.startswith("ng-run --config ") and "--prompt-ids " in command, command
        errors = b.errors()
        b.driver.close()
        b.driver.switch_to.window(chats)
        assert self.said()[-1].split()[0] in answer, answer
        assert not errors, errors

    def check_errors_are_shown(self):
        self.b.reload()
        self.b.click("#new")
        long = "Hi" + " Hi" * 200
        self.say(long)
        assert "> 256" in self.b.text("#error"), self.b.text("#error")
        assert self.said() == [long], self.said()

    def check_nothing_else_is_asked_for(self):
        strangers = [url for url in self.b.requests() if not url.startswith(self.url + "/")]
        assert not strangers, strangers
        errors = [error for error in self.b.errors() if "400 (Bad Request)" not in error]
        assert not errors, errors


def check(names, *options):
    with served(sys.argv[1], *options) as (url, _), tempfile.TemporaryDirectory() as folder:
        browser = chromium.Browser(pathlib.Path(folder))
        try:
            browser.driver.get(url)
            browser.settle()
            chat = Chat(browser, url)
            for name in names:
                getattr(chat, name)()
                print("ok", name)
        finally:
            browser.quit()


def main():
    names = [name for name in vars(Chat) if name.startswith("check_")]
    names.remove("check_stop")
    check(names, "--view")
    # An answer that lasts until it is stopped.
    check(["check_stop"], "--run.stop_ids=", "--run.max_new_tokens=230", "--attention.name=reference")


if __name__ == "__main__":
    main()
