"""The studio in a real browser: 512 tokens × 12 layers × 12 heads, against the bounds that a page must keep."""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch
import uvicorn
from playwright.sync_api import Browser, sync_playwright

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from glassformer.view.flow_cells import MOST

from .measure import Row, row

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browser import MISSING, arguments, chromium

LSTM = {"kind": "lstm", "bidirectional": True, "num_layers": 2, "vocab_size": 200}
TOKENS, FEW, CLICKS, OVERVIEWS = 512, 32, 30, 3
WATCH = """
const seen = { clicked: 0, painted: 0, screen: "" };
window.seen = seen;
addEventListener("click", () => { seen.clicked = performance.now(); seen.screen = ""; }, true);
new MutationObserver((changes) => {
  for (const { target } of changes) {
    if (target.dataset?.painted !== "yes") continue;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      seen.painted = performance.now();
      seen.screen = target.className;
    }));
  }
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-painted"] });
"""
BODY = "(part) => performance.getEntriesByType('resource').filter((one) => one.name.includes(part)).at(-1)"
HOVER = """async (count) => {
  const shown = performance.getEntriesByType("resource").filter((one) => one.name.includes("/mosaic")).at(-1).name;
  const trace = shown.split("/mosaic")[0], times = [];
  await (await fetch(`${trace}/lens`)).json();
  for (let row = 0; row < count; row++) {
    const start = performance.now();
    await (await fetch(`${trace}/tensors/layers.0.attention.pattern?slice=0,0,${row}`)).arrayBuffer();
    times.push((performance.now() - start) / 1000);
  }
  return times;
}"""
PAN = """async () => {
  const stage = document.querySelector("#stage"), times = [];
  document.querySelector("#flow-flowLarger").click();
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 120; frame++) {
    stage.scrollLeft = (stage.scrollWidth - stage.clientWidth) * (0.5 - 0.5 * Math.cos(frame / 19));
    const now = await new Promise(requestAnimationFrame);
    times.push((now - last) / 1000);
    last = now;
  }
  return times;
}"""


@contextmanager
def serving(studio: Studio) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(create_app(studio), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def painted(page: Any, screen: str) -> float:
    """When a screen was on the glass, in milliseconds of the page's clock."""
    page.wait_for_function("(name) => seen.screen.includes(name)", arg=f"screen-{screen}", timeout=120_000)
    return float(page.evaluate("seen.painted"))


def overview(page: Any, address: str) -> float:
    """Seconds from the answer that names the trace to the painted mosaic."""
    page.goto(address)
    shown = painted(page, "atlas")
    answered = page.evaluate("performance.getEntriesByType('resource').find((one) => one.name.endsWith('/traces'))")
    return float(shown - answered["responseEnd"]) / 1000


def clicks(page: Any, count: int) -> list[float]:
    """Seconds from the click on a tile to the painted head, for tiles all over the mosaic."""
    found = []
    for number in range(count):
        tiles = page.evaluate("JSON.parse(document.querySelector('#mosaic').dataset.tiles)")
        x, y = tiles["corners"][number * 29 % len(tiles["corners"])]
        page.click("#mosaic", position={"x": x + tiles["wide"] / 2, "y": y + tiles["high"] / 2})
        shown = painted(page, "head")
        found.append((shown - page.evaluate("seen.clicked")) / 1000)
        page.evaluate("seen.screen = ''")
        page.go_back()
        painted(page, "atlas")
    return found


def flow(page: Any, address: str) -> dict[str, float]:
    """Seconds to the first paint of the page, from the answer that names the trace to the painted flow, and between
    frames while it is panned."""
    page.goto(address)
    shown = painted(page, "flow")
    first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    answered = page.evaluate("performance.getEntriesByType('resource').find((one) => one.name.endsWith('/traces'))")
    frames = sorted(page.evaluate(PAN))
    return {
        "first paint": float(first) / 1000,
        "flow": float(shown - answered["responseEnd"]) / 1000,
        "flow frame": frames[int(0.95 * (len(frames) - 1))],
    }


@contextmanager
def a_browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=arguments())
        yield browser
        browser.close()


def measured_in(browser: Browser, url: str, name: str, tokens: int, *, count: int, overviews: int) -> dict[str, float]:
    """Every figure of one model and a text of so many tokens."""
    generator = torch.Generator().manual_seed(0)
    ids = " ".join(map(str, torch.randint(5, 100, (tokens,), generator=generator).tolist()))
    address = f"{url}/?{urlencode({'screen': 'atlas', 'model': name, 'text': ids, 'lang': 'en'})}"
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(WATCH)
    seconds = [overview(page, address) for _ in range(overviews)]
    mosaic = page.evaluate(f"({BODY})('/mosaic').encodedBodySize")
    times = clicks(page, count)
    page.click("#mosaic")
    painted(page, "head")
    page.wait_for_selector("[data-exact]")
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in client.send("Performance.getMetrics")["metrics"]}
    figures = {
        "overview": statistics.median(seconds),
        "click p50": statistics.median(times),
        "click p95": sorted(times)[int(0.95 * (len(times) - 1))],
        "nodes": page.evaluate("document.querySelectorAll('*').length"),
        "heap": metrics["JSHeapUsedSize"] / 1e6,
        "mosaic bytes": mosaic / 1e3,
        "head bytes": page.evaluate(f"({BODY})('dtype=u8').encodedBodySize") / 1e3,
        "hover": statistics.median(page.evaluate(HOVER, count)),
    }
    few = urlencode({"screen": "flow", "model": name, "text": " ".join(ids.split()[:FEW]), "lang": "en"})
    figures |= flow(page, f"{url}/?{few}")
    page.close()
    return figures


def unrolled(browser: Browser, url: str, name: str) -> dict[str, float]:
    """The flow of a recurrent model, with a cell for each of as many tokens as are unrolled."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(WATCH)
    ids = " ".join(str(5 + number) for number in range(MOST))
    found = flow(page, f"{url}/?{urlencode({'screen': 'flow', 'model': name, 'text': ids, 'lang': 'en'})}")
    page.close()
    return {f"{name} {what}": found[what] for what in ("flow", "flow frame")}


BOUNDS = {  # a name of a figure: what it is, the most it may be, and its unit
    "overview": ("mosaic of all heads, from the trace on", 1.0, "s"),
    "click p50": ("head click to painted, median", 0.15, "s"),
    "click p95": ("head click to painted, 95 of 100", 0.15, "s"),
    "hover": ("one row of a head for a hover, after Lens was opened, median", 0.05, "s"),
    "first paint": ("first paint of the page", 1.0, "s"),
    "flow": ("flow of a short text, from the trace on", 1.0, "s"),
    "flow frame": ("a frame while the flow is panned, 95 of 100", 1 / 58, "s"),
    "lstm flow": (f"flow of an LSTM, two layers both ways, {MOST} cells each, from the trace on", 1.0, "s"),
    "lstm flow frame": ("a frame while that is panned, 95 of 100", 1 / 58, "s"),
    "nodes": ("elements of the page", 3000.0, "nodes"),
    "heap": ("heap of the page", 150.0, "MB"),
    "mosaic bytes": ("bytes of the mosaic", 600.0, "kB"),
    "head bytes": ("bytes of one head", 262.2, "kB"),
}


def looking(model: torch.nn.Module) -> torch.nn.Module:
    """A random model whose heads look somewhere: fresh weights would look everywhere alike."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("attention.query.weight", "attention.key.weight")):
                weight.mul_(4)
    return model


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "bert-base"
        gf.save(looking(gf.build("bert", "fill-mask")), where)
        gf.save(gf.build("glassformer-rnn", "text-classification", **LSTM), Path(folder) / "lstm")
        models = [str(where), str(Path(folder) / "lstm")]
        with serving(Studio(ModelStore(models), Traces(budget=8 << 30))) as url, a_browser() as browser:
            found = measured_in(browser, url, where.name, TOKENS, count=CLICKS, overviews=OVERVIEWS)
            found |= unrolled(browser, url, "lstm")
    return [
        row(f"studio, {TOKENS} tokens: {what}", found[name], bound, "the bound", unit)
        for name, (what, bound, unit) in BOUNDS.items()
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
