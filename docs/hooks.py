"""What `make site` does beside mkdocs: pages that read well in a repository read well in a browser too.

Mathematics becomes MathML, which browsers draw themselves. A link out of docs/ leads to a page that shows that file,
and the README is the first page. So a page is written once, in plain Markdown. The theme's files are cut down to what
the site uses: no address of another host is in them, and search works where the pages are opened from a folder too.
"""

import json
import re
from base64 import b64encode
from os.path import normpath, relpath
from pathlib import Path
from shutil import rmtree
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FIRST = {"README.md": "index.md", "README.zh-CN.md": "zh/index.md"}  # files at the root that are pages
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$|(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])", re.DOTALL | re.MULTILINE)
PLACE = "formula{}place"  # Markdown would read signs of a formula as its own, so it is put in afterwards
PLACES = re.compile(PLACE.format(r"(\d+)"))
WRAPPED = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff\uff00-\uffef])")  # Chinese has no spaces
COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)  # licences, which stay as they are
ADDRESS = re.compile(r"https?://(?!www\.w3\.org/)|\n//# sourceMappingURL=.*")  # those of w3.org are names of formats
UNUSED = ("**/*.map", "sitemap.xml*")  # for who works on the theme; for sites that have an address
# Browsers start no worker of a file, and read no file but scripts: so a script brings the worker's source, and makes it
# of that. It stands before the theme's script, which asks for the index as a script by itself.
WORKER = """if (location.protocol === "file:") {
  const source = URL.createObjectURL(new Blob([%s]));
  window.Worker = class extends Worker { constructor() { super(source); } };
}
"""
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README and every file outside docs/ that a page leads to."""
    waiting = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    waiting += [(name, (ROOT / name).read_text("utf-8")) for name in FIRST if (ROOT / name).is_file()]
    seen = {source for source, _ in waiting}
    for source, _ in waiting:
        if source in FIRST:
            files.append(_generated(config, FIRST[source], (ROOT / source).read_text("utf-8")))
    while waiting:
        source, text = waiting.pop()
        for part in CODE.split(text)[::2]:
            for _, link, _ in LINK.findall(part):
                path = _target(source, link)
                if path in seen or path.startswith("docs/") or not (ROOT / path).is_file():
                    continue
                seen.add(path)
                text = (ROOT / path).read_text("utf-8")
                files.append(_generated(config, _page(path), text if path.endswith(".md") else _shown(path, text)))
                waiting += [(path, text)] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links lead to pages of the site, formulas to places for them, and what is folded away is Markdown as well."""
    formulas: list[str] = []
    page.meta["formulas"] = formulas
    uri = page.file.src_uri
    source = next((name for name, at in FIRST.items() if at == uri), None)
    if uri.endswith(".py.md"):
        page.meta["search"] = {"boost": 1e-4}  # pages that explain a word come before code that has it
    source = source or (uri.removeprefix("source/") if uri.startswith("source/") else f"docs/{uri}")

    def link(found: re.Match[str]) -> str:
        path = _target(source, found[2])
        if not (ROOT / path).exists():
            return found[0]  # mkdocs says what is wrong with it
        return found[1] + relpath(_page(path), Path(uri).parent) + found[3]

    def formula(found: re.Match[str]) -> str:
        formulas.append(_mathml(found[1] or found[2], "block" if found[1] else "inline"))
        return PLACE.format(len(formulas) - 1)

    parts = CODE.split(WRAPPED.sub("", markdown))
    parts[::2] = [
        FORMULA.sub(formula, LINK.sub(link, part)).replace("<details>", '<details markdown="1">') for part in parts[::2]
    ]
    return "".join(parts)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    return PLACES.sub(lambda found: page.meta["formulas"][int(found[1])], html)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    return output.replace('<html lang="en"', '<html lang="zh"') if page.file.src_uri.startswith("zh/") else output


def on_post_build(config: MkDocsConfig) -> None:
    """Leave out what nobody asks for; an address without its scheme is one of the site itself, whoever would ask."""
    site = Path(config.site_dir)
    rmtree(site / "assets" / "javascripts" / "lunr")  # languages that are not searched in
    for path in [path for pattern in UNUSED for path in site.glob(pattern)]:
        path.unlink()
    for path in (site / "assets").rglob("*.js"):
        parts = COMMENT.split(path.read_text("utf-8"))
        parts[::2] = [ADDRESS.sub("", part) for part in parts[::2]]
        path.write_text("".join(parts), "utf-8")
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    (worker.parent / "file.js").write_text(WORKER % json.dumps(worker.read_text("utf-8")), "utf-8")
    index = (site / "search" / "search_index.json").read_text("utf-8")
    (site / "search" / "search_index.js").write_text(f"var __index = {index}", "utf-8")


def _mathml(latex: str, display: str) -> str:
    """Refused: what the converter does not know, and would show as it is written."""
    made = convert(latex.replace("{aligned}", "{align*}"), display=display)  # one name of the two is known to it
    if unknown := re.search(r"<m[ino]>(\\\w+|&)</m[ino]>", made):
        raise PluginError(f"{unknown[1]!r} in the formula {latex!r} is not known; write it in plain LaTeX")
    return made


def _target(source: str, link: str) -> str:
    """The file that a link leads to, from the root."""
    return Path(normpath(Path(source).parent / link)).as_posix()


def _page(path: str) -> str:
    """Where in docs a file of the repository has its page."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return FIRST.get(path) or f"source/{path.removesuffix('.md')}.md"


def _shown(path: str, text: str) -> str:
    if path.endswith(".ipynb"):
        return "\n\n".join(_cell(cell) for cell in json.loads(text)["cells"])
    return f"# {path}\n\n```{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n```\n"


def _cell(cell: dict[str, Any]) -> str:
    """A cell of a notebook as Markdown: its text, or its code with what that printed and drew."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        if "text" in output:
            parts.append(f"```text\n{''.join(output['text'])}```")
        elif svg := "".join(output["data"].get("image/svg+xml", "")):
            parts.append(f'<img alt="" src="data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}">')
    return "\n\n".join(parts)


def _generated(config: MkDocsConfig, uri: str, text: str) -> File:
    return File.generated(config, uri, content=text)
