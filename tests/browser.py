"""The browser that pages are tested in: `python tests/browser.py` says which one is here, and fails if none is."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
POPUPS = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")  # lists below an address bar
PLAYWRIGHTS = ("AimEnabled", "HttpsUpgrades", "LensOverlay", "MediaRouter", "OptimizationHints", "PaintHolding")
MISSING = (
    "no browser to test pages in: install Debian's (apt-get install chromium), or Playwright's own "
    "(playwright install chromium), or set CHROMIUM to the path of one"
)


def chromium() -> Path | None:
    """The path of a Chromium: the one that CHROMIUM names, one on the PATH, or Playwright's own."""
    if given := os.environ.get("CHROMIUM"):
        return Path(given)
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return Path(found)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return own if own.exists() else None


def arguments() -> list[str]:
    """Chromium refuses its sandbox to root, and a container has little shared memory.

    Every window, of which nobody sees any, would load its popups in a process of their own, for longer than most pages
    take; the switch that says so takes the place of Playwright's, and says what that does as well.
    """
    off = "--disable-features=" + ",".join(POPUPS + PLAYWRIGHTS)
    return ["--disable-dev-shm-usage", off, *(["--no-sandbox"] if os.geteuid() == 0 else [])]


@cache
def context(browser: Any, width: int = 1440, height: int = 900, paper: str = "light", url: str | None = None) -> Any:
    """The browser's context of these settings, kept: a fresh one starts a process and compiles every script anew."""
    return browser.new_context(base_url=url, color_scheme=paper, viewport={"width": width, "height": height})


@cache
def _spare(browser: Any, **settings: Any) -> list[Any]:
    return []


@contextmanager
def borrowed(browser: Any, **settings: Any) -> Iterator[Any]:
    """A tab of such a context that others had before: it costs half of what a new one does. After a fault none gets it.

    Its page is whatever they left in it; the mouse is in the corner.
    """
    spare = _spare(browser, **settings)
    tab = spare.pop() if spare else context(browser, **settings).new_page()
    tab.bring_to_front()  # one that lies behind another paints but once a second
    try:
        yield tab
    except BaseException:
        tab.close()
        raise
    tab.unroute_all()
    tab.mouse.move(0, 0)
    spare.append(tab)


@contextmanager
def heard(tab: Any, **handlers: Callable[[Any], object]) -> Iterator[None]:
    """Call these at the events of a tab: heard(tab, console=..., request=...)."""
    for event, handler in handlers.items():
        tab.on(event, handler)
    try:
        yield
    finally:
        for event, handler in handlers.items():
            tab.remove_listener(event, handler)


def unknown_styles(tab: Any) -> list[str]:
    """The declarations of a page's style sheets that the browser does not know, and so passes over without a word."""
    return list(
        tab.evaluate(
            r"""() => [...document.querySelectorAll("style")].flatMap(style =>
              [...style.textContent.matchAll(/[{;]\s*([-\w]+)\s*:\s*([^;{}]+)(?=[;}])/g)]
                .filter(([, name, value]) => !CSS.supports(name, value.trim()))
                .map(([, name, value]) => `${name}: ${value}`))"""
        )
    )


if __name__ == "__main__":
    print(chromium() or MISSING)
    sys.exit(0 if chromium() else 1)
