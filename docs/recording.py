"""Records the studio for the README: `make recording` drives it in a real browser and writes docs/pictures/studio.webp.

Flow plays, a block opens down to one number, one head is looked at, and the page turns Chinese. For the Chinese part
the machine needs a font that has the signs, such as fonts-noto-cjk.
"""

from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.studio import MISSING, arguments, chromium, serving
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "pictures" / "studio.webp"
MODEL, TEXT = "bert-mini-en", "I want to drink a cup of [MASK]."
WIDTH, HEIGHT = 960, 720
TOKENS = 5  # that are played
LARGEST = 2_000_000  # bytes
POINTER = """() => {
  const dot = document.createElement("div");
  dot.style.cssText = "position:fixed;z-index:99;width:22px;height:22px;margin:-11px;border-radius:50%;" +
    "background:rgba(220,90,20,.45);border:2px solid rgba(220,90,20,.9);pointer-events:none;left:-50px";
  document.body.append(dot);
  addEventListener("mousemove", (event) => {
    dot.style.left = `${event.clientX}px`;
    dot.style.top = `${event.clientY}px`;
  }, true);
}"""


class Recording:
    """Pictures of a page, each with the milliseconds that it stays."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def take(self, milliseconds: int) -> None:
        self.frames.append(Image.open(BytesIO(self.page.screenshot())).convert("RGB"))
        self.times.append(milliseconds)

    def press(self, selector: str, *, shown: str | None = None, hold: int = 600) -> None:
        """Go to something and click it; then wait until something else is there."""
        where = self.page.locator(selector).first
        where.scroll_into_view_if_needed()
        where.hover()
        self.take(250)
        where.click()
        if shown is not None:
            self.page.wait_for_selector(shown)
        self.page.wait_for_timeout(500)
        self.take(hold)

    def save(self, path: Path) -> None:
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.times, loop=0, quality=72, method=6)


def record(page: Page, url: str) -> Recording:
    made = Recording(page)
    page.goto(f"{url}/?{urlencode({'screen': 'flow', 'model': MODEL, 'text': TEXT, 'lang': 'en'})}")
    page.wait_for_selector(".screen-flow[data-painted=yes]")
    page.evaluate(POINTER)
    made.take(900)
    made.press("#flow-play", hold=350)
    for _ in range(TOKENS):
        page.wait_for_timeout(1300)  # a step of the player
        made.take(350)
    page.click("#flow-play")
    made.press('.box[data-name="layers.1"]', shown='.frame[data-name="layers.1"]')
    made.press('.box[data-name="layers.1.attention"]', shown='.frame[data-name="layers.1.attention"]')
    pattern = "layers.1.attention.pattern"
    made.press(f'.box[data-name="{pattern}"]', shown=f'.details[data-node="{pattern}"]', hold=700)
    page.locator("#flow-matrix").scroll_into_view_if_needed()
    page.locator("#flow-matrix").focus()
    for key, cell in (("ArrowDown", "1,0"), ("ArrowRight", "1,1")):
        page.keyboard.press(key)
        page.wait_for_selector(f'.numbers[data-cell="{cell}"]')
        made.take(700)
    page.locator(".details").evaluate("(one) => one.scrollIntoView({ block: 'end' })")
    made.take(1300)
    made.press("#to-head", shown=".screen-head[data-painted=yes]", hold=700)
    page.locator("#matrix").hover()
    page.wait_for_timeout(300)
    made.take(900)
    page.get_by_label("Language").select_option("zh")
    page.wait_for_timeout(800)
    made.take(900)
    made.press("#to-flow", shown=".screen-flow[data-painted=yes]", hold=1500)
    return made


def main() -> None:
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with serving(Studio(ModelStore([f"zoo:{MODEL}"]), Traces())) as url, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=arguments())
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        record(page, url).save(OUT)
        browser.close()
    assert OUT.stat().st_size <= LARGEST, f"{OUT} has {OUT.stat().st_size:,} bytes: take fewer frames"
    print(f"{OUT.relative_to(ROOT)}: {OUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
