"""What can be set has a meaning, which help, pages and editors show as it stands in the code."""

import json
import re
import subprocess
import sys

import pytest
from docs import generate
from docs.generate import MARKED, ROOT, TABLES, WORDS, filled, sources, translated
from docs.settings import call_settings, settings_file
from docs.tables import found_commands, option_rows

from glassformer.cli.main import app
from glassformer.cli.task_help import SPELT
from glassformer.jobs.recipe import task_options
from glassformer.jobs.tasks import TASKS, task_class

CONTROL = re.compile(r"\x1b\[[\d;]*m")
FLAGS = {"set", "resume", "check", "json"}  # options of the command that are no settings


@pytest.fixture(scope="module")
def known():
    return settings_file()


def is_sentence(text):
    """One line that says something and is not too long to be read at a glance."""
    return text[:1].strip() and text.endswith((".", "…")) and "\n" not in text and len(text) <= 160


def test_every_setting_has_a_meaning(known):
    found = {
        f"{part}: {name}": one["meaning"] for part in ("common", "generation") for name, one in known[part].items()
    }
    for task, of in known["tasks"].items():
        found |= {f"{task}: {name}": one["meaning"] for name, one in of["own"].items()}
        found |= {f"{task}: columns": of["meanings"]["columns"]}
        found |= {f"{task} called: {name}": one["meaning"] for name, one in call_settings(task_class(task)).items()}
    assert [name for name, text in found.items() if not is_sentence(text)] == []


def test_every_option_of_a_command_has_a_meaning():
    found = {
        f"{name} {option}": told
        for name, command in found_commands(app, "glassformer")
        for option, (_, _, told) in option_rows(command.callback).items()
    }
    assert len(found) > 100
    assert [name for name, told in found.items() if not told.strip()] == []


def test_the_settings_are_those_that_a_recipe_takes(known):
    for task, of in known["tasks"].items():
        assert of["own"].keys() == task_options(task).keys()


def test_what_the_package_holds_is_current():
    for path, text in sources().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make docs"


def listed(page):
    """The names in the first column of a help page, as they are typed."""
    return {
        name.removeprefix("--")
        for names in re.findall(r"^│ ((?:--)?\w[\w-]*(?:, \w+)?) {2,}\S", page, re.MULTILINE)
        for name in names.split(", ")
    }


@pytest.mark.parametrize("task", TASKS)
def test_help_names_the_settings_of_a_task_and_no_others(task, known, glassformer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = glassformer("train", task, "--help")
    page = CONTROL.sub("", out)
    settings = {**known["common"], **known["tasks"][task]["own"]}
    assert code == 0
    assert max(map(len, page.splitlines())) <= 80
    assert {name.replace("-", "_") for name in listed(page)} == {*settings, *FLAGS, *SPELT.values()}
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", page).split())
    for name, one in known["tasks"][task]["own"].items():
        assert one["meaning"] in words, name


def test_help_of_another_name_and_of_a_recipe_is_that_of_the_task(glassformer, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "token-classification"\nlr = 1e-4\n', "utf-8")
    pages = [glassformer("train", name, "--help")[1] for name in ("ner", "token-classification", recipe)]
    assert pages[0] == pages[1] == pages[2]
    assert "word_column" in pages[0]
    assert glassformer("train", "--lr", "1", "token-classification", "--help")[1] == pages[0]


def test_help_of_a_wrong_name_says_what_is_near(glassformer):
    code, _, err = glassformer("train", "text-clasification", "--help")
    assert code == 1
    assert "did you mean 'text-classification'?" in err


def test_help_without_a_task_lists_the_tasks(glassformer):
    code, out, _ = glassformer("train", "--help")
    page = CONTROL.sub("", out)
    assert code == 0
    assert all(task in page for task in TASKS)


def test_help_of_a_task_does_not_load_torch():
    words = "['glassformer', 'train', 'translation', '--help']"
    script = (
        f"import sys; from glassformer.cli.main import main; sys.argv = {words}\n"
        "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "bpe_dropout" in done.stdout


def test_pages_of_another_language_have_its_words(tmp_path, monkeypatch):
    page = tmp_path / "zh" / "reference" / "generation.md"
    page.parent.mkdir(parents=True)
    page.write_text("<!-- generated: generation -->\n<!-- end -->\n", "utf-8")
    words = {"meaning": "含义", "Ids that are never written.": "永不生成的标记编号。"}
    (tmp_path / "words.json").write_text(json.dumps(words), "utf-8")
    monkeypatch.setattr(generate, "WORDS", tmp_path / "words.json")
    text = filled(page)
    assert "| setting | type | default | 含义 |" in text
    assert "| `suppress_tokens` | ids |  | 永不生成的标记编号。 |" in text
    assert "| `top_k` | int ≥ 0 |  | Choose among the k likeliest tokens. |" in text


REFERENCE = ROOT / "docs" / "reference"
CHINESE = sorted((ROOT / "docs" / "zh" / "reference").glob("*.md"))


def untranslated(text):
    """Lines, heads of columns and meanings, the last cells of rows, that have words and none of them Chinese."""
    found, before = [], ""
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        cells = re.split(r"(?<!\\) ?\| ?", line)[1:-1] if line.startswith("|") else [line]
        is_head = line.startswith("|") and not before.startswith("|")
        is_name = re.fullmatch(rf"## (glassformer .+|{'|'.join(TASKS)})", line)
        found += [] if is_name else cells if is_head else cells[-1:]
        before = line
    words = re.compile(r"[^\W\d_]{2}")
    return [one for one in found if words.search(re.sub(r"`[^`]*`", "", one)) and not re.search("[\u4e00-\u9fff]", one)]


def test_what_is_not_in_chinese_is_found():
    head = "| 设置 | type | 默认值 | 含义 |\n|---|---|---|---|\n"
    rows = "| `a` | true \\| false | `b` | A new one. |\n| `c` | text |  | 新的。 |\n| `d` | int |  | `e`, `f` |\n"
    text = (
        f"## Run\n\n## parity\n\n- takes: A text.\n\n```text\nglassformer demo\n```\n\n{head}{rows}\n- 输入：一段文本。"
    )
    assert untranslated(text) == ["## Run", "- takes: A text.", "type", "A new one."]


def test_the_whole_reference_is_there_in_chinese():
    assert {page.name for page in CHINESE} == {page.name for page in REFERENCE.glob("*.md")}


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.stem)
def test_all_that_a_chinese_page_shows_is_in_chinese(page):
    known = json.loads(WORDS.read_text("utf-8"))
    names = [found[3] for found in MARKED.finditer(page.read_text("utf-8")) if found[2] == "generated"]
    assert names or page.stem == "index"
    left = {name: untranslated(translated(TABLES[name](), known)) for name in names}
    assert not any(left.values()), f"docs/zh/words.json has no Chinese for {left}"
