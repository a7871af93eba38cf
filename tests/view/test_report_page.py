"""The report of an experiment: what was told is on the page in both languages, and nothing comes from outside."""

import re
from contextlib import ExitStack
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import borrowed, heard, unknown_styles
from glassformer.view.colours import PAPER
from glassformer.view.plots import Dot, PlotLine, ScatterPoint, dot_plot, heatmap, line_plot, scatter_plot
from glassformer.view.report import Column, Entry, Figure, Report, Section, Table, TableRow, Text, markdown, page
from tags import Reader

ATTACK = '<img src=x onerror="window.hacked=1">&\'</style></title></svg><script>window.hacked=1</script>'
CONTESTANTS = {
    "bag of words": (0.802, 0.1),
    "RNN": (0.784, 0.9),
    "GRU": (0.829, 1.1),
    "LSTM": (0.833, 1.2),
    "BiLSTM + attention": (0.846, 1.6),
    "CNN (Kim 2014)": (0.838, 0.7),
    "Transformer from scratch": (0.811, 3.1),
    "frozen MiniLM + head": (0.874, 22.7),
    "fine-tuned MiniLM": (0.915, 22.7),
    "LoRA": (0.912, 22.9),
}
SIZES = [100, 1_000, 10_000, 67_349]

texts = st.text(max_size=40) | st.just(ATTACK)


def seeds(name):
    return CONTESTANTS[name][0] + 0.004 * np.random.default_rng(len(name)).standard_normal(3)


def row(name):
    size = CONTESTANTS[name][1]
    scores, rest = seeds(name), [f"{size:.1f} M", f"{40 * size:.0f} s", "1.1 GB", "812", "0.001"]
    details = [
        [
            Entry(text=f"seed {seed}", link=f"cells/{name}/{seed}"),
            *(Entry(text=each) for each in [f"{score:.3f}", *rest]),
        ]
        for seed, score in enumerate(scores)
    ]
    mean = Entry(text=f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}", mark="best" if size > 22 else "bad")
    entries = [Entry(text=name, link=f"cells/{name}"), mean, *(Entry(text=each) for each in rest)]
    return TableRow(entries=entries, details=details)


def scores():
    said = Text("out of memory: 12.1 GB wanted, 8.0 GB there", "内存不足：需要 12.1 GB，只有 8.0 GB")
    failed = TableRow(entries=[Entry(text="BERT large", link="cells/BERT large"), Entry(text=said)], failed=True)
    titles = [
        "model 模型",
        "accuracy 准确率",
        "parameters 参数量",
        "training 训练时间",
        "memory 内存峰值",
        "texts/s 条/秒",
    ]
    columns = [Column(title=Text(*title.split())) for title in titles]
    why = Text("paired bootstrap against the first row", "与第一行的配对自助检验")
    return Table(columns=[*columns, Column(title=Text("p"), why=why)], rows=[*map(row, CONTESTANTS), failed])


def pictures():
    lines, dots, points = [], [], []
    for name, (score, size) in CONTESTANTS.items():
        curve = score - 0.3 * np.exp(-np.arange(4) * (0.5 if size < 10 else 1.3))
        lines.append(PlotLine(name=name, x=SIZES, y=curve, low=curve - 0.01, high=curve + 0.01))
        each = seeds(name)
        dots.append(Dot(name=name, value=each.mean(), low=each.min(), high=each.max(), points=each))
        points.append(ScatterPoint(name=name, x=size, y=score))
    table = [[21.5, 22.0, 24.1, 23.9], [27.2, 29.4, 30.3, np.nan], [28.8, 31.0, 33.6, 33.1]]
    layers, heads = ["1", "2", "4"], ["1", "2", "4", "8"]
    axes = {"x_axis": "training examples", "y_axis": "accuracy", "log_x": True}
    cost = {"x_axis": "million parameters", "y_axis": "accuracy", "log_x": True}
    grid = heatmap(table, rows=layers, columns=heads, title="BLEU by layers and heads", axes=("layers", "heads"))
    drawn = {
        "curves": (line_plot(lines, title="Learning curves", **axes), "By the number of examples", "随样本数的变化"),
        "scores": (dot_plot(dots, title="Accuracy on the test set", axis="accuracy"), "Three seeds", "三个种子"),
        "grid": (grid, "Layers and heads", "层数与头数"),
        "cost": (scatter_plot(points, title="Accuracy and size", **cost), "What a point costs", "准确率的代价"),
    }
    return [Figure(name=name, svg=svg, caption=Text(*caption)) for name, (svg, *caption) in drawn.items()]


def ladder():
    """A report as it may be: ten contestants, three seeds, one more that failed."""
    return Report(
        title=Text("A ladder of text classifiers on SST-2", "SST-2 上的文本分类模型阶梯"),
        question=Text(
            "How much does each step from a bag of words to a fine-tuned Transformer buy?",
            "从词袋模型到微调的 Transformer，每一步带来多少提升？",
        ),
        facts=[(Text("data", "数据"), "sst2/train.tsv"), (Text("seeds", "随机种子"), "0, 1, 2")],
        findings=[
            Text(
                "Fine-tuned MiniLM is ahead of the best model from scratch by 6.9 ± 0.8 points (p = 0.001).",
                "微调的 MiniLM 比最好的从零训练的模型高 6.9 ± 0.8 个百分点（p = 0.001）。",
            ),
            Text("Between the two no difference is shown (p = 0.41).", "两者之间没有显著差异（p = 0.41）。"),
        ],
        sections=[
            Section(title=Text("Scores", "成绩"), tables=[scores()]),
            Section(title=Text("Pictures", "图"), figures=pictures()),
        ],
        command="glassformer compare ladder --data sst2/train.tsv --model ./minilm --seeds 3 --out ladder",
    )


def told(text, zh=""):
    """A report in which every text is this one."""
    both = Text(text, zh)
    row = TableRow(entries=[Entry(text=both, link="x/" + text), Entry(text=text, mark="best")], failed=True,
                   details=[[Entry(text=both), Entry(text=text, mark="bad")]])  # fmt: skip
    table = Table(columns=[Column(title=both, why=both), Column(title=both)], rows=[row])
    svg = dot_plot([Dot(name=text, value=1.0)], title=text, axis=text)
    picture = Figure(name="one", svg=svg, caption=both)
    section = Section(title=both, paragraphs=[both], tables=[table], figures=[picture])
    return Report(title=both, question=both, facts=[(both, text)], findings=[both], sections=[section], command=text)


@given(text=texts, zh=texts)
def test_every_text_stays_text_and_every_link_leads_to_a_file(text, zh):
    html = page(told(text, zh))
    html.encode()
    found, plain = Reader(html), Reader(page(told("x" * bool(text), "x" * bool(zh))))
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") or name in ("src", "style") for _, given in found.tags for name in given)
    links = [given["href"] for tag, given in found.tags if tag == "a"]
    assert [unquote(link, errors="replace") for link in links] == ["x/" + text.encode(errors="replace").decode()]
    assert all(re.fullmatch(r"x/[\w.~%/-]*", link, re.ASCII) for link in links)
    if text.isprintable():
        assert text in found.text
    if zh.isprintable():
        assert zh in found.text


@pytest.mark.parametrize("link", ["/etc/passwd", "//example.org/x"])
def test_a_link_that_is_not_relative_is_refused(link):
    table = Table(columns=[Column(title=Text("a"))], rows=[TableRow(entries=[Entry(text="x", link=link)])])
    report = Report(**{**vars(told("x")), "sections": [Section(title=Text("s"), tables=[table])]})
    with pytest.raises(ValueError, match="not relative"):
        page(report)


@pytest.mark.parametrize("count", [0, 3])
def test_a_row_of_too_many_entries_is_refused(count):
    table = Table(columns=[Column(title=Text("a"))] * 2, rows=[TableRow(entries=[Entry(text="x")] * count)])
    with pytest.raises(ValueError, match=f"a row of {count} entries in a table of 2 columns"):
        page(Report(**{**vars(told("x")), "sections": [Section(title=Text("s"), tables=[table])]}))


def test_a_page_says_early_who_made_it_and_needs_nothing_from_outside():
    html = page(ladder())
    assert b"made by glassformer" in html.encode()[:2000]
    assert set(re.findall(r"\w+://[^\"' ]*", html)) == {"http://www.w3.org/2000/svg"}
    for outside in ("url(", "@import", "src=", "unsafe", "<link"):
        assert outside not in html


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page; what the browser complains of, and what it asks for beside the page, is a fault."""
    stack, complaints, asked, opened = ExitStack(), [], [], []
    handlers = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }

    def go(html, width=1280, paper="light"):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        tab = stack.enter_context(borrowed(browser, width=width, height=800, paper=paper))
        stack.enter_context(heard(tab, **handlers))
        tab.goto(path.as_uri())
        opened.append(tab)
        return tab

    with stack:
        yield go
        assert (complaints, len(asked)) == ([], len(opened))


@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_in_both_languages(opened, paper, width):
    tab = opened(page(ladder()), width, paper)
    assert unknown_styles(tab) == []
    en, zh = "no difference is shown", "没有显著差异"
    for language, shown, hidden in (("English", en, zh), ("中文", zh, en)):
        tab.get_by_role("button", name=language).click()
        assert tab.get_by_text(shown).is_visible()
        assert not tab.get_by_text(hidden).is_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width  # wide parts scroll by themselves
        assert tab.title() == tab.locator("h1").inner_text()
    assert tab.evaluate("document.documentElement.lang") == "zh-Hans"
    colours = [
        tuple(int(PAPER[paper][name][place : place + 2], 16) for place in (1, 3, 5))
        for name in ("paper", "card", "bad")
    ]
    body, card, failed = (
        tab.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
        for where, what in (("body", "backgroundColor"), ("figure svg rect", "fill"), (".failed td", "color"))
    )
    assert [body, card, failed] == [f"rgb({red}, {green}, {blue})" for red, green, blue in colours]
    assert tab.locator(".failed").inner_text().startswith("失败")


def test_a_table_leads_to_the_runs_and_opens_its_seeds_by_the_keyboard(opened):
    tab = opened(page(ladder()))
    seed = tab.get_by_role("link", name="seed 1").first
    assert not seed.is_visible()
    tab.get_by_role("checkbox", name="single seeds").first.focus()
    tab.keyboard.press("Space")
    assert seed.is_visible()
    assert seed.get_attribute("href") == "cells/bag%20of%20words/1"
    assert tab.locator(".seeds:visible").count() == 1


def test_without_a_script_it_is_in_english(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page(ladder()), encoding="utf-8")
    calm = browser.new_context(java_script_enabled=False, locale="zh-CN")
    tab = calm.new_page()
    tab.goto(path.as_uri())
    assert tab.get_by_text("no difference is shown").is_visible()
    assert not tab.get_by_text("没有显著差异").is_visible()
    assert not tab.locator("#languages").is_visible()
    calm.close()


def test_a_chinese_browser_is_spoken_to_in_chinese(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page(ladder()), encoding="utf-8")
    chinese = browser.new_context(locale="zh-CN")
    tab = chinese.new_page()
    tab.goto(path.as_uri())
    assert tab.get_by_text("没有显著差异").is_visible()
    assert tab.get_by_role("button", name="中文").get_attribute("aria-pressed") == "true"
    chinese.close()


def test_what_is_told_does_not_run(opened):
    tab = opened(page(told(ATTACK, ATTACK)))
    assert tab.evaluate("window.hacked") is None


def test_markdown_has_the_findings_the_tables_and_the_figures():
    text = markdown(ladder())
    order = [
        "# A ladder",
        "- Fine-tuned MiniLM is ahead",
        "## Scores",
        "| model | accuracy",
        "![By the number",
        "- seeds: 0, 1",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    lines = text.splitlines()
    assert "![Layers and heads](grid.svg)" in lines
    assert lines[-3:] == ["```sh", ladder().command, "```"]
    (failed,) = (line for line in lines if "BERT large" in line)
    assert failed.startswith("| **failed** BERT large | out of memory")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(CONTESTANTS) + 1
    assert {line.count("|") for line in table} == {8}
    assert "微调" not in text
    assert "cells/" not in text


@given(text=texts)
def test_nothing_told_is_markup_in_markdown(text):
    lines = markdown(told(text)).splitlines()
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines if line.startswith("| ")} <= {3}
    outside = "\n".join(lines[: lines.index("## Do it again")])
    assert not re.search(r"(?<!\\)(?:\\\\)*<", outside)
