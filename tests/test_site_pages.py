"""The site that `make site` builds: every link leads somewhere, and nothing comes from elsewhere."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from docs.generate import ROOT

from browser import heard

PATIENCE = 180_000  # milliseconds: the index of Chinese words takes a while beside other tests

pytestmark = pytest.mark.slow
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}

ADDRESS = re.compile(r"https?://([\w.-]*)")
COMMENT = re.compile(r"/\*.*?\*/|<!--.*?-->|\\3c !--.*?-->", re.DOTALL)  # of the theme: its licences
HOSTS = {  # that a file of the site may name, and why
    "www.w3.org": "namespaces of SVG and MathML: the names of these formats, which nobody asks for",
    "127.0.0.1": "the reader's own machine, in examples",
    "hf-mirror.com": "a value that one types, where names of models are to be found at a mirror",
}
# How much lower than what it belongs to a subscript ends, as a share of the size of letters.
LOWER = """() => [...document.querySelectorAll("msub")].map(({ children: [base, sub] }) => {
  const end = (one) => one.getBoundingClientRect().bottom;
  return (end(sub) - end(base)) / parseFloat(getComputedStyle(base).fontSize);
})"""
# Whether one of the fonts of formulas is here: its letters are not as wide as those of the last resort.
KNOWS_MATH = """() => {
  const pen = document.createElement("canvas").getContext("2d"), wide = (font) => {
    pen.font = `40px ${font}`;
    return pen.measureText("W∑∂xy").width;
  };
  const fonts = ["'STIX Two Math'", "'Latin Modern Math'", "'Cambria Math'", "'DejaVu Math TeX Gyre'"];
  return fonts.some((font) => wide(`${font}, monospace`) !== wide("monospace"));
}"""


class Links(HTMLParser):
    """What a page leads to, what it loads, and the ids in it."""

    def __init__(self, text):
        super().__init__()
        self.leads, self.loads, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.leads.append(found["href"])
        elif found.get(LOADS.get(tag, "")) and found.get("rel") != "canonical":
            self.loads.append(found[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="pip install 'glassformer[docs]' to build the site")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    """All but the one for what is missing, whose addresses begin at the root."""
    return {path: Links(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_leads_somewhere(pages):
    broken = []
    for page, links in pages.items():
        for link in links.leads + links.loads:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            known = not anchor or anchor.startswith("__") or (target in pages and anchor in pages[target].ids)
            if not target.is_file() or not known:
                broken.append(f"{page.name}: {link}")
    assert broken == []
    assert len(pages) > 30


def test_what_is_searched_and_the_page_of_what_is_missing_lead_somewhere(site, pages):
    listed = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    lost = Links((site / "404.html").read_text("utf-8"))
    found = [one["location"] for one in listed] + [link.removeprefix("/") for link in lost.leads + lost.loads]
    assert len(listed) > 300
    for link in found:
        path, _, anchor = link.partition("#")
        target = site / unquote(path or "index.html")
        target = target / "index.html" if target.is_dir() else target
        assert target.is_file(), link
        assert not anchor or anchor.startswith("__") or unquote(anchor) in pages[target].ids, link


def test_no_page_leads_or_asks_elsewhere(pages):
    links = {link for links in pages.values() for link in links.leads + links.loads}
    assert [link for link in links if urlsplit(link).netloc or urlsplit(link).scheme not in ("", "data")] == []


def test_no_file_names_another_host(site):
    """Of no kind: what is not a picture of dots is read whole, and of the theme's own files all but the licences."""
    named, kinds = {}, set()
    for path in (path for path in site.rglob("*") if path.is_file() and path.suffix not in (".png", ".webp")):
        text = path.read_text("utf-8")
        for host in ADDRESS.findall(COMMENT.sub("", text) if "assets" in path.parts else text):
            named.setdefault(host, set()).add(path.relative_to(site).as_posix())
        if "assets" in path.parts:
            assert re.findall(r"(?:url\(|@import)\s*[\"']?//", text) == [], path.name
        kinds.add(path.suffix)
    assert {host: files for host, files in named.items() if host not in HOSTS} == {}
    assert named.keys() == HOSTS.keys()
    assert kinds == {".html", ".js", ".css", ".json", ".svg"}


@pytest.fixture(params=["http", "file"])
def home(request, site):
    """The site's address: from a server, and from the folder itself."""
    if request.param == "file":
        yield site.as_uri()
        return
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def tab(browser):
    tab = browser.new_page()
    yield tab
    tab.close()


def test_in_a_browser_it_says_nothing_and_asks_nobody(home, tab):
    said, asked = [], []
    noise = {"console": lambda one: said.append(one.text), "pageerror": lambda one: said.append(str(one))}
    with heard(tab, **noise, request=lambda one: asked.append(one.url)):
        tab.goto(f"{home}/index.html")
        tab.goto(f"{home}/tour/01-rnn.html")
        formulas = tab.locator("math")
        assert formulas.count() > 10
        assert all(box["height"] > 4 for box in (one.bounding_box() for one in formulas.all()[:5]))
        lower = tab.evaluate(LOWER)
        assert len(lower) > 10
        if tab.evaluate(KNOWS_MATH):
            assert min(lower) > 0.1, "a subscript stands on the line"
        assert "formula" not in tab.locator("article").inner_text().split("The law")[1]  # no place is left
        tab.wait_for_load_state("networkidle")
        tab.locator(".md-search__input").first.press_sequentially("vanishing")
        tab.locator(".md-search-result__link").first.wait_for(timeout=PATIENCE)
    assert said == []
    assert [url for url in asked if not url.startswith((home, "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("page", "asked", "found"),
    [("index.html", "rotary", "tour/16-lineage.html"), ("zh/index.html", "遗忘门", "zh/tour/03-lstm.html")],
)
def test_what_is_searched_is_found(page, asked, found, home, tab):
    """A page that explains a word is among the first two, before code that has it; in Chinese too."""
    tab.goto(f"{home}/{page}")
    tab.locator(".md-search__input").first.press_sequentially(asked)
    tab.locator(f".md-search-result__item:nth-child(-n+2) > a[href*='/{found}']").first.wait_for(timeout=PATIENCE)
