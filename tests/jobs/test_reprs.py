"""How pipelines, runs and load reports show themselves: in a line, and in notebooks as HTML that brings its own all."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

import glassformer as gf
from browser import borrowed
from glassformer.hub.weights import LoadReport
from glassformer.jobs.train import Run
from glassformer.train.loop import Outcome, Progress

HOSTILE = '<script>alert("x")</script>'


class Page(HTMLParser):
    """Tags, attributes and text of a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def checked(shown):
    """What a notebook shows, in which nothing runs and nothing comes from elsewhere; colours are inherited."""
    html = shown._repr_html_()
    page = Page(html)
    assert not {"script", "style", "link", "iframe"} & set(page.tags)
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert "color:" not in html
    assert "#" not in html.replace("&#", "")
    return page


def test_a_pipeline_says_what_it_is(trained):
    folder = trained("text-classification/bert")
    pipe = gf.pipeline("sentiment-analysis", folder, top_k=2)
    assert repr(pipe).startswith("Pipeline(task: text-classification; model: bert, ")
    for fact in ("float32 on cpu", f"folder: {folder}", "options: top_k=2", "labels: negative, "):
        assert fact in repr(pipe)
    assert "\n" not in repr(pipe)
    page = checked(pipe)
    assert str(folder) in page.text
    assert f"{pipe.model.num_parameters():,} parameters" in page.text


def test_a_run_says_what_it_came_to(trained):
    folder = trained("text-classification/bert")
    progress, scores = Progress(step=2, seconds=1.5), {"dev": {"accuracy": 0.75, "loss": 1.25}}
    run = Run(folder, scores, Outcome(progress, 2, {}))
    assert repr(run) == f"Run(folder: {folder}; steps: 2 of 2, 1.5 s of training; dev: accuracy 0.7500, loss 1.2500)"
    page = checked(run)
    assert "accuracy 0.7500" in page.text
    assert len(page.links) == 1  # its curves
    stopped = Run(Path(HOSTILE), {}, Outcome(progress, 7, {}, stopped=15))
    assert "stopped after 2 of 7" in repr(stopped)
    assert HOSTILE in checked(stopped).text


def test_a_load_report_counts_and_lists_when_asked(minilm):
    report = gf.load(minilm, head="text-classification", labels=2).load_report
    assert repr(report) == f"LoadReport({report})"
    assert "2 new with random values: head.output.weight, head.output.bias" in repr(report)
    page = checked(report)
    assert "2 new with random values" in page.text
    assert "head.output.weight" in page.text
    assert HOSTILE in checked(LoadReport(unused=[HOSTILE])).text


def test_control_characters_are_spelt_out():
    run = Run(Path("a\x1b[31m\u202eb"), {}, Outcome(Progress(), 1, {}))
    report = LoadReport(unused=["a\x1b[31m\u202eb"])
    for shown in (repr(run), checked(run).text, repr(report), checked(report).text):
        assert r"a\x1b[31m\u202eb" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_can_be_read_on_light_and_on_dark(browser, trained, scheme):
    html = gf.pipeline("text-classification", trained("text-classification/bert"))._repr_html_()
    ink, paper = {"light": ("rgb(0, 0, 0)", "white"), "dark": ("rgb(230, 230, 230)", "black")}[scheme]
    with borrowed(browser) as page:
        page.set_content(f'<body style="color: {ink}; background: {paper}">{html}')
        for place in ("strong", "th", "td"):
            look = page.locator(place).first.evaluate(
                "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
            )
            assert look == [ink, "rgba(0, 0, 0, 0)"]
