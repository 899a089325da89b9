"""By hand: how long large pages take to open and to redraw. Random weights of the 135m shape."""
import statistics
import time

import made_up_models
import pages

SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 576,
         "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}
N_VOCAB = 4096
OPEN_S, REDRAW_MS = 2.0, 33.0

# One head after the other, each decoded anew and drawn until its pixels are read back, with a frame in between as a
# user's keys have it.
REDRAW = """const done = arguments[0];
(async () => {
  const times = [];
  for (let i = 1; times.length < 100; ++i) {
    const {layer, head} = tiles[i % tiles.length];
    kept.clear();
    await new Promise((frame) => requestAnimationFrame(() => setTimeout(frame)));
    const start = performance.now();
    choose({layer, head});
    map.context.getImageData(0, 0, map.canvas.width, map.canvas.height);
    times.push(performance.now() - start);
  }
  done(times);
})();"""


def measure(ng_run, browser, folder):
    made_up_models.write_shape(folder / "shape", SHAPE, N_VOCAB)
    slow = 0
    for n, limit, against in ((512, 60, False), (2048, 110, False), (2048, 110, True)):
        page = folder / "large.html"
        ids = " ".join(str(17 * i % (N_VOCAB - 300)) for i in range(n - 16))
        options = ["--against", "cache.codec=int8"] if against else []
        pages.run(ng_run, folder / "shape", "--prompt-ids", ids, "--run.max_new_tokens=16", "--view", page, "--view-limit",
                  limit * (2 if against else 1), *options)
        opened = []
        for _ in range(3):
            browser.driver.get("about:blank")
            start = time.monotonic()
            browser.driver.get(page.as_uri())
            browser.js("return map.context.getImageData(0, 0, map.canvas.width, map.canvas.height).data[0]")
            opened.append(time.monotonic() - start)
        browser.size(1280, 720)
        times = browser.driver.execute_async_script(REDRAW)
        requests = browser.requests()
        layers, heads = browser.js("return [layers.length, tiles.length]")
        print(f"T = {n}, {layers} layers, {heads} heads{', against' if against else ''}: {page.stat().st_size / 1e6:.1f} MB; "
              f"opens in {statistics.median(opened):.2f} s (of {', '.join(f'{t:.2f}' for t in opened)}); redraws in "
              f"{statistics.median(times):.1f} ms (median of {len(times)}; {min(times):.1f} to {max(times):.1f}); "
              f"{len(requests)} requests", flush=True)
        slow += statistics.median(opened) >= OPEN_S or statistics.median(times) >= REDRAW_MS or bool(requests)
    return 1 if slow else 0
