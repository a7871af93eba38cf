"""The README and docs say what is so: their Python runs, their commands exist, their map is complete."""

import re
from typing import get_args

import pytest
from docs.generate import PAGES, ROOT, TABLES, filled
from docs.included import included
from docs.pictures import pictures

from glassformer.compare import EXPERIMENTS
from glassformer.models.decoder_only import PositionKind
from glassformer.train.optimiser import OptimiserName
from pages import FENCED, SET_UP, Shell, blocks, carry_out, commands, page_blocks

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
PARTS = ["The idea", "The formula", "The code", "Run it", "Look at it", "The law", "Exercises"]
PARTS += ["What an interviewer asks"]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


TOUR = [page for page in PAGES if page.parent == ROOT / "docs" / "tour"]
HOWTO = [page for page in PAGES if page.parent == ROOT / "docs" / "howto"]  # see test_howto
OTHERS = [page for page in PAGES if page not in TOUR + HOWTO and "zh" not in page.parts]  # Chinese: the same code
SHOWN = [page for page in OTHERS if blocks(page, "python") and page.name != "serving.md"]  # see tests/serve


LONG = ("pipelines.md", "training.md", "exporting.md")
MARKED = [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in SHOWN]


@pytest.mark.few(5)
@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page, minilm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python")).replace(HUB_NAME, str(minilm))
    exec(compile(code, page.name, "exec"), {"__name__": "docs"})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)  # (\[.*\])$", code, re.MULTILINE)
    for expected in promised:
        assert expected in printed


@pytest.mark.few(4)
@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.stem)
def test_a_page_of_the_tour_runs(page, glassformer, tmp_path, monkeypatch, capsys):
    """Its Python and its commands, in their order; what it says is printed is printed."""
    monkeypatch.chdir(tmp_path)
    carry_out(page, Shell(glassformer), capsys)


@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.stem)
def test_a_page_of_the_tour_runs_only_what_can_be_tested(page):
    """A command of another program is one that sets this one up."""
    others = [words for block in blocks(page, "sh") for words in commands(block) if words[0] != "glassformer"]
    assert [words for words in others if words[0] not in SET_UP] == []


INLINE = re.compile(r"`(glassformer [^`]*)`")  # a command in the middle of a sentence


@pytest.mark.parametrize("page", [page for page in PAGES if page in TOUR or page.name == "pipelines.md"])
def test_a_command_with_options_is_in_a_block_that_runs(page):
    said = [command.split() for command in INLINE.findall(FENCED.sub("", page.read_text("utf-8")))]
    meant = [words for words in said if any(word.startswith("-") for word in words)]
    assert [words for words in meant if not {"NAME=VALUE", "--help"} & {*words}] == []
    assert [block.file for block in page_blocks(page) if block.language == "sh" and block.file] == []  # to be run


@pytest.mark.parametrize("page", OTHERS + TOUR + HOWTO, ids=lambda page: page.name)
def test_a_command_that_is_shown_can_be_said(page):
    """Every option is known and has a value of its kind; a part of a command in a sentence, its name."""
    from typer.main import get_command

    from glassformer.cli.main import app

    inline = [command.split() for command in INLINE.findall(FENCED.sub("", page.read_text("utf-8")))]
    assert {words[1] for words in inline} - {"--help"} <= get_command(app).commands.keys()
    for words in [words for block in blocks(page, "sh") for words in commands(block) if words[0] == "glassformer"]:
        command, rest = get_command(app), words[1:]
        while rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        if "--help" not in rest:
            command.make_context(words[0], rest)


def test_code_is_included_by_name():
    page = ROOT / "docs" / "tour" / "some.md"
    name = "glassformer.blocks.recurrent"
    shown = included(f"{name}.RnnGates.step, tests.test_docs.test_every_table_stands_somewhere", page)
    assert "def step(self, given: Tensor, recalled: Tensor, past: Past) -> Past:\n" in shown  # without its noqa
    assert "\n    return (self.hidden(self.squash(given + recalled)),)\n" in shown
    assert "(../../src/glassformer/blocks/recurrent.py): `RnnGates.step` · [tests/test_docs.py]" in shown
    assert "def __init__" not in shown
    assert shown.count('"""') == 0
    assert "Outputs (B, T, W" in included(f"{name}.Recurrent.forward", page)  # a docstring of one line stays
    assert "dropout` acts between" not in included(f"{name}.Recurrent.__init__", page)
    with pytest.raises(
        ValueError, match=r"no 'stop' of 'RnnGates.stop' in src/.*recurrent.py; there is __init__, step"
    ):
        included(f"{name}.RnnGates.stop", page)
    with pytest.raises(ValueError, match=r"no file for 'glassformer.block.Recurrent'"):
        included("glassformer.block.Recurrent", page)


@pytest.mark.few(8)
@pytest.mark.parametrize(("path", "draw"), pictures().items(), ids=lambda one: getattr(one, "stem", ""))
def test_no_picture_is_stale(path, draw):
    """`make docs` draws them. A processor may round otherwise: few numbers, and those by little."""
    now, then = draw() + "\n", path.read_text("utf-8")
    assert NUMBER.sub("#", now) == NUMBER.sub("#", then)
    pairs = list(zip(NUMBER.findall(now), NUMBER.findall(then), strict=True))
    others = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(others) <= 0.02 * len(pairs)
    assert [(a, b) for a, b in others if abs(float(a) - float(b)) > (0.11 if "." in a + b else 1)] == []


def test_every_picture_is_shown_and_is_drawn_by_a_function():
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]+\]\(([\w/.-]*pictures/[\w-]+\.svg)\)", page.read_text("utf-8"))
    }
    assert set(pictures()) == set((ROOT / "docs" / "pictures").glob("*.svg")) == shown


DOCS = [page for page in PAGES if "docs" in page.parts and page.name != "report.md"]  # a report is a run's own


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_page_shows_a_picture(page):
    """With words for who cannot see it."""
    assert re.search(r"^!\[[^\]]{8,}\]\([\w/.-]*pictures/[\w-]+\.svg\)$", page.read_text("utf-8"), re.MULTILINE)


def test_the_picture_of_the_commands_has_all_of_them():
    from docs.pictures.reference import reference_commands
    from typer.main import get_command

    from glassformer.cli.main import app

    drawn = re.findall(r'<text class="word"[^>]*>([\w-]+)</text>', reference_commands())
    assert {*drawn} >= get_command(app).commands.keys()


def test_the_recording_of_the_studio_is_short_and_small():
    """`make recording` makes it."""
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    path = ROOT / "docs" / "pictures" / "studio.webp"
    times = []
    with image.open(path) as found:
        for number in range(found.n_frames):
            found.seek(number)
            found.load()
            times.append(found.info["duration"])
        assert found.width >= 800
    assert path.stat().st_size <= 2_000_000
    assert 8_000 <= sum(times) <= 20_000
    assert all(
        "(docs/pictures/studio.webp)" in (ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh-CN.md")
    )


def test_the_example_of_the_readme_is_short():
    (example,) = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_the_models_and_their_blocks_are_as_few_lines_as_the_readme_says():
    files = [path for room in ("blocks", "models") for path in (ROOT / "src" / "glassformer" / room).rglob("*.py")]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) < 7000
    assert "fewer than seven thousand lines" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("experiment", "contestants"), [("positions", get_args(PositionKind)), ("optimisers", get_args(OptimiserName))]
)
def test_what_is_said_of_an_experiment_names_its_contestants(experiment, contestants):
    assert [one for one in contestants if one not in EXPERIMENTS[experiment].lower()] == []


def test_every_command_is_shown_and_every_shown_command_exists():
    from typer.main import get_command

    from glassformer.cli.main import app

    root = get_command(app)
    names = {
        f"{name} {sub}" if sub else name
        for name, command in root.commands.items()
        for sub in (command.commands if hasattr(command, "commands") else [None])
        if sub is None or not command.commands[sub].hidden
    }
    shell = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    shown = {
        " ".join(words.split())
        for words in re.findall(r"^glassformer ((?:tokenizer |compare |data )?[\w-]+)", shell, re.MULTILINE)
    }
    assert shown == names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_stale(page):
    """`make docs` writes what the code says of itself: rooms, files, heads, and which arch does which task."""
    assert filled(page) == page.read_text("utf-8")


def test_every_table_stands_somewhere():
    marks = re.findall(r"<!-- generated: (\w+) -->", "".join(page.read_text("utf-8") for page in PAGES))
    assert set(marks) == set(TABLES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    """To a file that is there, and to a heading of it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if not path.startswith(("http:", "https:", "mailto:")):
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site name them."""
    found = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading) for heading in found]
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [page for page in TOUR if page.name != "index.md"], ids=lambda page: page.stem)
def test_a_page_of_the_tour_has_all_its_parts(page):
    text = page.read_text("utf-8")
    number = int(page.stem[:2])
    assert text.startswith(f"# {number}. ")
    assert re.findall(r"^## (.+)$", FENCED.sub("", text), re.MULTILINE) == PARTS
    for sign in ("$$\n", "<!-- code: ", "```sh\n", "](../pictures/", "<summary>Answers</summary>", "assert "):
        assert sign in text, sign
    law = text.split("## The law")[1].split("## Exercises")[0]
    assert "tests/" in law, "the law names its test"
    asked = re.findall(r"^\*\*[^*]+\?\*\*", text.split("## What an interviewer asks")[1], re.MULTILINE)
    assert 3 <= len(asked) <= 6
    assert f"({page.name})" in (page.parent / "index.md").read_text("utf-8")


CHINESE = {page: ROOT / "docs" / page.relative_to(ROOT / "docs" / "zh") for page in PAGES if "zh" in page.parts}
CHINESE[ROOT / "README.zh-CN.md"] = ROOT / "README.md"


def skeleton(page):
    """What a page has in any language: headings, formulas, pictures, marks and code, of which comments may differ."""
    text = re.sub(r"(<!-- \w+: [^\n]*-->).*?<!-- end -->", r"\1", page.read_text("utf-8"), flags=re.DOTALL)
    signs = r"^#+(?= )|<!-- \w+: [^\n]*-->|^\$\$\n.*?\n\$\$$|[\w-]+\.svg|</?details>|^\d+\. "
    found = re.findall(signs, FENCED.sub("", text), re.MULTILINE | re.DOTALL)
    code = re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL)
    return found, [re.sub(r" *# .*$", "", block, flags=re.MULTILINE) for block in code]


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.stem)
def test_a_chinese_page_has_all_of_the_english_one(page):
    assert skeleton(page) == skeleton(CHINESE[page])
    assert re.search(r"[\u4e00-\u9fff]", page.read_text("utf-8"))


def test_every_page_of_the_tour_is_there_in_chinese():
    assert {page.name for page in CHINESE if page.parent.name == "tour"} == {page.name for page in TOUR}
