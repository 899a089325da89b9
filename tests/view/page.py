#!/usr/bin/env python3
"""Drives the page of `ng-run --view` in headless Chromium and checks what it draws.

    python3 tests/view/page.py build/bin/ng-run             # the tests'
    python3 tests/view/page.py build/bin/ng-run --large     # by hand: time to open and to redraw

Two runs make the pages: the demo model with a second run beside it, and a tiny model whose tokens are
hostile. What is drawn is compared with what the same runs wrote by --save and --steps. Exits 1 where a
check fails, 77 where python3-selenium, chromium or chromium-driver is missing.
"""
import argparse
import base64
import json
import math
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import traceback

import browser as chromium
import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]


def luminance(color):
    return 0.3 * color[0] + 0.6 * color[1] + 0.1 * color[2]


def numbers_of(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", text)]


def same_text(shown, wanted):
    assert shown == wanted, f"shows {shown!r}, not {wanted!r}"


class Checks:
    """Each method that begins with `check_` is one check, and finds the demo's page as it is when it is opened."""

    def __init__(self, page, browser):
        self.page = page
        self.b = browser
        self.attention = page.attention       # [layer][head][query][key]
        self.error = browser.js("return attention.scale.error")

    def chosen_head(self):
        return self.b.text("#map-title")

    def follow_rows(self, cells, rows):
        """Colours grow with probabilities: the more attention, the darker the cell (in the light theme)."""
        pairs = sorted((rows[q][k], luminance(cells[q][k])) for q in range(len(rows)) for k in range(q + 1))
        assert pairs[0][1] > pairs[-1][1] + 60, "all cells have one colour"
        darkest = 256.0
        for i, (p, light) in enumerate(pairs):
            # What lies within the error below may have any order.
            below = [light for q, light in pairs[max(0, i - 40):i] if q < p * (1 - 2 * self.error)]
            assert not below or light <= min(below) + 1.5, f"p = {p} is lighter than what is below it"
            darkest = min(darkest, light)
        background = cells[0][-1]
        assert all(cells[q][k] == background for q in range(len(rows)) for k in range(q + 1, len(rows)))

    def check_the_map_shows_the_attention_of_the_head_that_is_clicked(self):
        self.follow_rows(self.b.cells(), self.attention[0][0])
        self.b.click("#head-2-3")
        same_text(self.chosen_head(), "Layer 2, head 3")
        self.follow_rows(self.b.cells(), self.attention[2][3])

    def check_keys_choose_heads(self):
        self.b.key("j", "j", "j", "k")
        same_text(self.chosen_head(), "Layer 0, head 2")
        self.b.js("document.getElementById('heads').focus()")
        self.b.key("Down", "Right")
        same_text(self.chosen_head(), "Layer 1, head 3")
        self.follow_rows(self.b.cells(), self.attention[1][3])

    def check_hover_names_the_pair_and_its_probability(self):
        last = len(self.page.ids) - 1
        for query, key in ((3, 1), (last, 0), (last, last), (last // 2, last // 3)):
            text = self.b.hover_cell(query, key)
            wanted = self.attention[0][0][query][key]
            who, value = text.split(": ", 1)
            same_text(who, f"{query} {self.page.texts[query]} reads {key} {self.page.texts[key]}")
            if value.startswith("below"):
                assert wanted < numbers_of(value)[0]
                continue
            shown, percent = numbers_of(value)[:2]
            assert abs(percent / 100 - self.error) < 0.001, f"{text!r} does not state the error {self.error}"
            # Four digits are shown.
            assert abs(shown / wanted - 1) <= self.error + 1e-4, f"{text!r}, but --save has {wanted}"
        x, y = self.b.cell_place(1, last)
        self.b.hover("#map", x, y)
        assert "Point at a cell" in self.b.text("#pair"), "above the diagonal there is no pair"

    def check_all_values_are_those_that_were_saved(self):
        shown = self.b.js("""return layers.map(({layer, heads}) => Array.from({length: heads}, (_, head) => {
            const bytes = headBytes(layer, head, false);
            return Array.from({length: attention.T}, (_, q) =>
              Array.from({length: q + 1}, (_, k) => probabilities[bytes[rowStart(q) + k]]));
            }));""")
        least = self.b.js("return attention.scale.min")
        for layer, heads in enumerate(self.attention):
            for head, rows in enumerate(heads):
                for query, row in enumerate(rows):
                    for key in range(query + 1):
                        value = shown[layer][head][query][key]
                        limit = self.error * row[key] * 1.0001 if value > 0 else least
                        assert abs(value - row[key]) <= limit, (layer, head, query, key, value, row[key])

    def check_the_keyboard_moves_a_pair_over_the_map(self):
        self.b.js("choose({token: 5}); document.getElementById('map').focus()")
        self.b.key("Up", "Left")
        assert self.b.text("#pair").startswith("4 "), self.b.text("#pair")
        self.b.key("Enter")
        same_text(self.b.js("return document.querySelector('.chip.chosen').id"), "chip-4")

    def check_hide_first_token(self):
        before = self.b.cells()
        self.b.js("document.activeElement.blur()")
        self.b.key("f")
        after = self.b.cells()
        assert len({tuple(row[0]) for row in after}) == 1, "the first key has one colour"
        rows = self.attention[0][0]
        inner = [(rows[q][k], q, k) for q in range(1, len(rows)) for k in range(1, q + 1)]
        _, q, k = max(inner)
        assert luminance(after[q][k]) <= luminance(before[q][k]), "colours end at the largest that is left"
        assert luminance(after[q][k]) == min(luminance(after[q][k]) for _, q, k in inner)
        assert "Point at a cell" in self.b.hover_cell(4, 0), "a hidden cell has no value"
        assert self.b.js("return document.getElementById('hide-first').checked")

    def check_heads_are_sorted_by_their_scores(self):
        scores = pages.scores(self.attention, self.page.ids)
        for name in ("entropy", "first", "previous", "induction"):
            self.b.select("#sort", name)
            shown = [re.fullmatch(r"L(\d+) H(\d+) (.+)", text).groups() for text in self.b.texts("#heads .score")]
            values = [scores[name][int(layer)][int(head)] for layer, head, _ in shown]
            assert len(shown) == sum(len(heads) for heads in self.attention)
            assert all(a >= b - 1e-6 for a, b in zip(values, values[1:])), f"{name}: {values}"
            for (layer, head, text), value in zip(shown, values):
                assert math.isclose(float(text), value, rel_tol=0.06, abs_tol=1e-5), (name, layer, head, text, value)
        self.b.key("s")  # the next order is by layer again
        same_text(self.b.texts("#heads .name")[1], "L1")

    def check_arrows_step_through_the_tokens(self):
        start = self.page.prompt_len
        assert f"chip-{start}" == self.b.js("return document.querySelector('.chip.chosen').id")
        self.b.key("Right", "Right", "Left")
        same_text(self.b.text("#token-title"), f"{start + 1} {self.page.texts[start + 1]}")
        assert "answer, step 1" in self.b.text("#token-facts")
        self.b.key("Left", "Left")
        assert "prompt" in self.b.text("#token-facts")
        assert "it was read, not chosen" in self.b.text("#best")

    def check_the_chosen_token_shades_what_it_reads(self):
        self.b.click(f"#chip-{len(self.page.ids) - 1}")
        row = self.attention[0][0][-1]
        shades = self.b.js("""return chips.map((chip) => getComputedStyle(chip).backgroundColor)""")
        strength = {}
        for key, shade in enumerate(shades):
            strength[row[key]] = sum(map(abs, (a - b for a, b in zip(self.color(shade), self.color("#f1f3f6")))))
        ordered = [strength[p] for p in sorted(strength)]
        assert all(a <= b + 8 for a, b in zip(ordered, ordered[1:])), ordered
        assert ordered[-1] > ordered[0] + 40, "the token that is read most stands out"

    def color(self, css):
        """Any colour of CSS, as the browser paints it."""
        return self.b.js("""const canvas = document.createElement('canvas');
            const context = canvas.getContext('2d');
            context.fillStyle = arguments[0];
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);""", css)

    def check_answers_are_coloured_by_surprise(self):
        opacities = self.b.js("""return chips.map((chip) => Number(getComputedStyle(chip, '::after').opacity) *
            (getComputedStyle(chip, '::after').content !== 'none'))""")
        assert not any(opacities[:self.page.prompt_len]), "tokens of the prompt have no surprise"
        for step, opacity in zip(self.page.steps, opacities[self.page.prompt_len:]):
            assert abs(opacity - min(1, -step["logprob"] / 6)) < 0.002, (step["logprob"], opacity)

    def check_the_ten_best_before_and_after_each_stage(self):
        for s in (0, 3):
            self.b.click(f"#chip-{self.page.prompt_len + s}")
            step = self.page.steps[s]
            heads = self.b.texts("#best thead .stage")
            assert heads == ["model", *(stage["name"] for stage in step["stages"]), "against"], heads
            left = self.b.texts("#best thead small")[1:-1]
            assert left == [f"{stage['left']} left" for stage in step["stages"]], left
            drawn = self.b.texts("#best .drawn th")
            assert drawn == [self.page.texts[self.page.prompt_len + s]], drawn
            rows = self.b.js("""return [...document.querySelectorAll('#best tbody tr')].map((row) => ({
                token: row.firstChild.textContent,
                cells: [...row.querySelectorAll('td')].map((cell) => [cell.textContent,
                  (cell.querySelector('.p-bar')?.getBoundingClientRect().width ?? 0) / cell.clientWidth])}))""")
            shown = {row["token"]: row["cells"] for row in rows}
            for column, (ids, texts) in enumerate([(step["top_k"], step["top_k_text"]),
                                                   *((stage["top"], stage["top_text"]) for stage in step["stages"])]):
                for (_, p), text in zip(ids, texts):
                    cell, bar = shown[text.replace(" ", "␣").replace("\n", "\\n")][column]
                    assert abs(float(cell) - p) < 6e-4, (text, cell, p)
                    assert abs(bar - p) < 0.02, f"a bar is as long as its probability: {bar}, {p}"

    def check_the_lens_ends_at_the_logits(self):
        self.b.click(f"#chip-{self.page.prompt_len + 2}")
        rows = self.b.js("""return [...document.querySelectorAll('#lens tbody tr')].map((row) =>
            [...row.children].map((cell) => cell.querySelector('.text')?.textContent ?? cell.textContent))""")
        assert [row[0] for row in rows] == [str(layer) for layer in range(len(self.attention))]
        best = self.b.texts("#best tbody th")[:3]
        assert rows[-1][2:] == best, f"the last layer's best are the model's: {rows[-1]}, {best}"
        ids = [id for id, _ in self.page.steps[2]["top_k"]]
        chosen = self.page.ids[self.page.prompt_len + 2]
        if chosen in ids:
            same_text(rows[-1][1], str(ids.index(chosen) + 1))

    def check_a_click_on_the_steps_chooses_one(self):
        n = len(self.page.steps)
        width, left = self.b.js("return [chart.width, chart.left]")
        self.b.hover("#steps", left + (width - left) / n * 3.3, 20)
        chromium.ActionChains(self.b.driver).click().perform()
        assert "step 3" in self.b.text("#token-facts"), self.b.text("#token-facts")

    def check_a_link_shows_the_same(self):
        self.b.click("#head-3-1")
        self.b.js("document.activeElement.blur()")
        self.b.key("f", "m", "m", "t", "Right", "+")
        self.b.select("#sort", "previous")
        self.b.wait("location.hash === hashOfState()")
        seen = """return [location.hash, map.canvas.toDataURL(), JSON.stringify(state), byId('heads').textContent,
            chips.map((chip) => chip.className + getComputedStyle(chip).backgroundColor), byId('token-panel').textContent]"""
        before = self.b.js(seen)
        for name in ("layer=3", "head=1", "first=hidden", "mode=difference", "theme=dark", "sort=previous", "window="):
            assert name in before[0], before[0]
        self.b.reload()
        assert self.b.js(seen) == before, "what is shown after a reload differs"
        # Another address is followed too; what is not there is not chosen.
        self.b.js("location.hash = 'layer=99&head=7&token=9999&sort=none&mode=x&window=a,b,c&theme=%3Cscript%3E'")
        self.b.wait("state.mode === 'run'")
        same_text(self.chosen_head(), "Layer 0, head 4")

    def check_dark_and_light(self):
        def brightness():
            page = self.color(self.b.js("return getComputedStyle(document.body).backgroundColor"))
            ink = self.color(self.b.js("return getComputedStyle(document.body).color"))
            return luminance(page), luminance(ink), luminance(self.b.cells()[0][-1])
        page, ink, cells = brightness()
        assert page > 200 and ink < 60 and cells > 200, (page, ink, cells)
        self.b.click("#theme")
        page, ink, cells = brightness()
        assert page < 60 and ink > 200 and cells < 60, (page, ink, cells)

    def check_the_map_is_saved_as_png(self):
        self.b.click("#png")
        path = self.b.downloads / "attention-L0-H0.png"
        end = time.monotonic() + 20
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
        file = path.read_bytes()
        assert file[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", file[16:24])
        differing = self.b.driver.execute_async_script("""const done = arguments[1];
            const image = new Image();
            image.onload = () => {
              const canvas = document.createElement('canvas');
              Object.assign(canvas, {width: image.width, height: image.height});
              const context = canvas.getContext('2d');
              context.drawImage(image, 0, 0);
              const [w, h] = [map.canvas.width, map.canvas.height];
              const a = context.getImageData(0, image.height - h, w, h).data;
              const b = map.context.getImageData(0, 0, w, h).data;
              done([image.width, w, a.filter((value, i) => value !== b[i]).length]);
            };
            image.src = 'data:image/png;base64,' + arguments[0];""", base64.b64encode(file).decode())
        assert differing == [width, width, 0], differing
        assert height > self.b.js("return map.canvas.height"), "a line says what it is"

    def check_a_second_run_is_compared(self):
        self.b.click("#head-4-1")  # int4 changes little in the first layer
        self.b.select("#mode", "difference")
        cells = self.b.cells()
        same = self.color(self.b.js("return `rgb(${along(signed.light, 0.5)})`"))
        of_sign = {"+": [], "−": [], "the same": []}
        for query, row in enumerate(cells):
            for key, (red, green, blue) in enumerate(row[:query + 1]):
                sign = "the same" if [red, green, blue] == same else "+" if red > blue else "−"
                of_sign[sign].append((query, key))
        for sign, found in of_sign.items():
            assert len(found) > 5, f"int4 changes the attention in both ways, but not everywhere: {of_sign}"
            for query, key in found[::max(1, len(found) // 3)]:
                shown = self.b.hover_cell(query, key).split(": ", 1)[1]
                assert shown.startswith(sign), (query, key, shown, sign)
                change, first, _, second, _ = [0.0] * (sign == "the same") + numbers_of(shown)
                wanted = self.attention[4][1][query][key]
                assert abs(first / wanted - 1) <= self.error + 1e-4, (shown, wanted)
                assert sign == "the same" or abs(abs(second - first) / change - 1) < 0.06, shown
                assert sign == "the same" or (second > first) == (sign == "+"), shown
                self.b.select("#mode", "against")
                assert f"{second:.4g}" in self.b.hover_cell(query, key)
                self.b.select("#mode", "difference")
        kl = self.b.js("""return chips.slice(data.prompt_len).map((chip) =>
            Number(getComputedStyle(chip, '::before').opacity))""")
        assert all(0 <= value <= 1 for value in kl) and any(value > 0 for value in kl), kl
        assert "KL" in self.b.text("#token-facts")
        assert self.b.texts("#best td.other span"), "its ten best stand beside"

    def check_zoom(self):
        self.b.js("document.activeElement.blur()")
        self.b.key("+")
        size = self.b.js("return state.window.size")
        assert size == round(len(self.page.ids) / 2), size
        text = self.b.hover_cell(len(self.page.ids) - 1, 0)  # the lower left cell as it is now
        window = self.b.js("return state.window")
        wanted = (window["query"] + size - 1, window["key"])
        assert abs(int(text.split()[0]) - wanted[0]) <= 1 and f"reads {wanted[1]} " in text, (text, wanted)
        self.b.key("0")
        assert self.b.js("return state.window") is None

    def check_help_and_config(self):
        self.b.js("document.activeElement.blur()")
        self.b.key("?")
        assert self.b.find("#help").is_displayed()
        assert f"{self.error * 100:.2g} %" in self.b.text("#help")
        self.b.key("j", "Escape")
        assert not self.b.find("#help").is_displayed()
        same_text(self.chosen_head(), "Layer 0, head 0")
        self.b.click("#show-config")
        assert "[sampler]" in self.b.text("#config-text")
        self.b.key("Escape")

    def check_the_run_and_its_cache(self):
        assert self.page.stop_reason in self.b.text("#stop")
        same_text(self.b.text("#replay"), self.b.js("return data.run.replay"))
        said = self.b.text("#cache")
        assert f"{self.page.prompt_len} prefilled" in said, said
        assert f"{len(self.page.steps) - 1} decoded" in said, said
        self.b.click("#copy")
        self.b.wait("byId('copy').textContent === 'Copied'")

    def check_the_command_gives_the_same_run(self):
        command = shlex.split(self.b.text("#replay"))
        again = subprocess.run([self.page.ng_run, *command[1:]], capture_output=True, text=True, cwd=ROOT)
        assert again.returncode == 0, again.stderr
        same_text(again.stdout, self.page.answer)

    def check_controls_have_names_and_a_visible_focus(self):
        controls = self.b.all("button, select, input, [tabindex]")
        named = [control for control in controls if control.is_displayed()]
        assert len(named) > 12
        for control in named:
            assert control.accessible_name.strip(), control.get_attribute("outerHTML")
        reached = set()
        for _ in range(2 * len(named)):
            self.b.key("Tab")
            reached.add(self.b.js("return document.activeElement.id"))
            assert self.b.js("""const e = document.activeElement;
                return e === document.body || getComputedStyle(e).outlineStyle !== 'none'"""), reached
        wanted = {"chips", "heads", "map", "sort", "hide-first", "png", "steps", "theme", "show-help", "copy"}
        assert wanted <= reached, wanted - reached

    def check_sizes(self):
        for width, height in ((1280, 720), (390, 844), (1920, 1080)):
            self.b.size(width, height)
            self.no_overflow(width)
            if width >= 1280:
                assert self.b.js("return document.documentElement.scrollHeight") <= height, "one screen"
        self.b.size(1280, 720)

    def no_overflow(self, width):
        assert self.b.js("return document.documentElement.scrollWidth") <= width
        wide = self.b.js("""return [...document.querySelectorAll('section, header, footer, #map')].filter((e) => {
            const {left, right} = e.getBoundingClientRect();
            return left < 0 || right > arguments[0];
            }).map((e) => e.className || e.id)""", width)
        assert not wide, f"beyond the right edge of {width}: {wide}"


class HostileChecks(Checks):
    """The page of a model whose tokens are markup, commands, text from right to left and broken bytes."""

    def check_hostile_tokens_are_text(self):
        same_text(self.b.js("return window.pwned ?? 'nobody was'"), "nobody was")
        assert not self.b.has_dialog()
        assert not self.b.all("#chips img, #chips script, #chips b, iframe, img")
        shown = self.b.js("return chips.map((chip) => chip.textContent)")
        for text in pages.HOSTILE_SHOWN:
            assert text in shown, f"{text!r} is not among {shown[:20]}"
        for width, height in ((1280, 720), (390, 844)):
            self.b.size(width, height)
            self.no_overflow(width)
            heights = self.b.js("return [...new Set(chips.map((chip) => chip.offsetHeight))]")
            assert len(heights) == 1, f"a token makes its line higher: {heights}"
            lefts = self.b.js("return chips.slice(0, 12).map((chip) => chip.getBoundingClientRect().left)")
            if width == 1280:
                assert lefts[:4] == sorted(lefts[:4]), "tokens stand in their order"
        self.b.size(1280, 720)
        for i in range(len(pages.HOSTILE)):
            self.b.js("choose({token: arguments[0]})", i)
        assert not self.b.has_dialog() and not self.b.all("#token-panel img, #token-panel script")

    def check_it_says_what_is_left_out(self):
        left_out = self.b.js("return attention.left_out")
        assert left_out, "nothing is left out"
        note = self.b.find("#left-out")
        assert note.is_displayed() and str(left_out[-1]) in note.text, note.text
        assert self.b.js("return attention.why") in note.text
        shown = {name for name in self.b.texts("#heads .name")}
        assert not shown & {f"L{layer}" for layer in left_out}


class SurvivalChecks:
    """The same of the page of a run of which tokens leave the cache."""

    def __init__(self, page, browser):
        self.page = page
        self.b = browser

    def place(self, row, token):
        width, height, n = self.b.js("return [survival.width, survival.rowHeight, survival.T]")
        return (token + 0.5) / n * width, (row + 0.5) * height

    def hover(self, row, token):
        self.b.js("survival.canvas.scrollIntoView({block: 'center'})")
        self.b.hover("#survival", *self.place(row, token))

    def some_cells(self):
        n = len(self.page.dropped[0])
        return [(row, token) for row in range(0, len(self.page.dropped), 7) for token in range(0, n, 13)]

    def check_hover_says_when_a_token_left(self):
        n_heads = self.b.js("return survival.heads")
        for row, token in self.some_cells():
            self.hover(row, token)
            said = self.b.text("#survival-pair")
            left_at = int(self.page.dropped[row][token])
            assert f"layer {row // n_heads}, kv head {row % n_heads}: " in said, said
            assert f" at {token} " in said, said
            assert said.endswith(f"left when there were {left_at} tokens" if left_at >= 0 else "has not left"), said

    def check_colours_say_it_too(self):
        pixels = """const {canvas, width, context} = survival;
            const all = context.getImageData(0, 0, canvas.width, canvas.height).data;
            const at = ([x, y]) => 4 * (Math.floor(y * canvas.width / width) * canvas.width + Math.floor(x * canvas.width / width));
            return arguments[0].map((place) => [...all.slice(at(place), at(place) + 3)])"""
        self.b.js("choose({token: 1})")
        colors = {}
        cells = [(row, token) for row, token in self.some_cells() if token != 1]
        for (row, token), color in zip(cells, self.b.js(pixels, [self.place(row, token) for row, token in cells])):
            colors.setdefault(int(self.page.dropped[row][token]), set()).add(tuple(color))
        assert all(len(of) == 1 for of in colors.values()), colors
        assert len({color for of in colors.values() for color in of}) == len(colors) > 3, colors
        lights = [luminance(next(iter(colors[left_at]))) for left_at in sorted(colors) if left_at >= 0]
        assert lights == sorted(lights, reverse=True), "what left later is not darker"

    def check_a_click_chooses_the_token_and_keys_the_head(self):
        self.hover(3, 20)
        chromium.ActionChains(self.b.driver).click().perform()
        assert self.b.js("return [state.token, survival.row]") == [20, 3]
        self.b.js("survival.canvas.focus()")
        self.b.key("Down", "Down", "Up", "Right")
        assert self.b.js("return [state.token, survival.row]") == [21, 4]

    def check_the_title_counts_what_left(self):
        all_cells = [left_at for row in self.page.dropped for left_at in row]
        share = 100.0 * sum(left_at >= 0 for left_at in all_cells) / len(all_cells)
        assert f"{share:.1f} %" in self.b.text("#survival-title"), self.b.text("#survival-title")


def run_checks(checks, browser, path):
    failed = 0
    own = [name for name in vars(type(checks)) if name.startswith("check_")]
    for name in own:
        browser.start_again(path, "theme=light")
        try:
            getattr(checks, name)()
            problems = browser.errors() + [f"a request of {url}" for url in browser.requests()]
            assert not problems, problems
        except Exception:  # of Selenium too
            failed += 1
            browser.open(path)
            print(f"FAILED {name}")
            traceback.print_exc(limit=-3, file=sys.stdout)
    print(f"{type(checks).__name__}: {len(own) - failed} of {len(own)} hold")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ng_run")
    parser.add_argument("--large", action="store_true", help="measure large pages")
    line = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        browser = chromium.Browser(folder)
        try:
            if line.large:
                import large
                return large.measure(line.ng_run, browser, folder)
            browser.size(1280, 720)
            failed = 0
            for kind, page in ((Checks, pages.demo(line.ng_run, folder)), (HostileChecks, pages.hostile(line.ng_run, folder)),
                               (SurvivalChecks, pages.budget(line.ng_run, folder))):
                browser.open(page.path, "theme=light")
                failed += run_checks(kind(page, browser), browser, page.path)
            return 1 if failed else 0
        finally:
            browser.quit()


if __name__ == "__main__":
    sys.exit(main())
