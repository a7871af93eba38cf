"""Pages of the docs, carried out from top to bottom as a reader would: files are written, Python and commands run."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

INCLUDED = re.compile(r"<!-- code: .*?<!-- end -->", re.DOTALL)  # runs where it stands, in the source
FENCED = re.compile(r"^```.*?^```$|<!-- code: .*?<!-- end -->", re.DOTALL | re.MULTILINE)
PART = re.compile(r"^## (?P<section>[^\n]+)$|^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`([\w./-]+)`:\n\n\Z")  # what stands before a block that is to be saved
CAT = re.compile(r"\$\(cat ([\w./-]+)\)")
WRONG = "What goes wrong"  # the section whose commands fail
SET_UP = ("pip", "make")  # programs that set this one up: they are shown, and not run in a test


@dataclass(frozen=True)
class Block:
    """A block of a page: under which heading it stands, and, where the line before it names one, its file."""

    section: str
    language: str
    code: str
    file: str | None


@dataclass(frozen=True)
class Ran:
    """What a line of shell came to."""

    code: int
    out: str = ""
    err: str = ""


def text_of(page: Path) -> str:
    return INCLUDED.sub("", page.read_text(encoding="utf-8"))


def page_blocks(page: Path) -> list[Block]:
    """All blocks of a page in their order, but for code that is included from the source."""
    text, section, found = text_of(page), "", []
    for part in PART.finditer(text):
        section = part["section"] or section
        if part["code"] is not None:
            file = FILE.search(text[: part.start()])
            found.append(Block(section, part["language"], part["code"], file and file[1]))
    return found


def blocks(page: Path, language: str) -> list[str]:
    return [block.code for block in page_blocks(page) if block.language == language]


def lines_of(shell: str) -> list[list[str]]:
    """The words of each line of shell, its operators among them, without comments."""
    lines = []
    for line in shell.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="<>|&")
        lexer.whitespace_split = True
        lines.append(list(lexer))
    return [words for words in lines if words]


def commands(shell: str) -> list[list[str]]:
    """The words of each command of a block, without what the shell does with its variables, input and output."""
    stages = [stage for words in lines_of(shell) for stage in _split(words, ("|", "&&"))]
    return [_plain(stage)[0] for stage in stages]


def _split(words: Sequence[str], marks: Sequence[str]) -> list[list[str]]:
    return [list(part) for is_mark, part in groupby(words, lambda word: word in marks) if not is_mark]


def _plain(stage: Sequence[str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The words of one command; the files that < and > name; the variables that are set before it."""
    words, files, variables = list(stage), {}, {}
    while assigned := re.fullmatch(r"([A-Z_]+)=(.*)", words[0]):
        variables[assigned[1]] = assigned[2]
        words = words[1:]
    for mark in {"<", ">"} & set(words):
        place = words.index(mark)
        files[mark] = words[place + 1]
        words = words[:place] + words[place + 2 :]
    return words, files, variables


class Shell:
    """A shell of few words: pipes, <, >, &&, $(cat FILE) and NAME=VALUE.

    `glassformer` runs in this process, other programs by themselves. `changed` may give a command of ours other words
    before it runs: fewer steps, say.
    """

    def __init__(
        self, glassformer: Callable[..., tuple[int, str, str]], changed: Callable[[list[str]], list[str]] = list
    ) -> None:
        self._glassformer, self._changed = glassformer, changed

    def run(self, words: Sequence[str]) -> Ran:
        """One line, given by its words. It ends with the first command that fails."""
        ran = Ran(0)
        for line in _split(words, ("&&",)):
            piped, said = None, ran.err
            for stage in _split(line, ("|",)):
                ran = self._stage(stage, piped)
                piped, said = ran.out, said + ran.err
            ran = Ran(ran.code, ran.out, said)
            if ran.code:
                break
        return ran

    def _stage(self, stage: Sequence[str], piped: str | None) -> Ran:
        words, files, variables = _plain(stage)
        words = [CAT.sub(lambda found: Path(found[1]).read_text("utf-8").rstrip("\n"), word) for word in words]
        piped = Path(files["<"]).read_text("utf-8") if "<" in files else piped
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            words = self._changed(words) if words[0] in ("glassformer", "torchrun") else words
            ran = self._ours(words, piped, patch) if words[0] == "glassformer" else _others(words, piped)
        if ">" in files:
            Path(files[">"]).write_text(ran.out, "utf-8")
            return Ran(ran.code, "", ran.err)
        return ran

    def _ours(self, words: list[str], piped: str | None, patch: pytest.MonkeyPatch) -> Ran:
        typed = io.BytesIO((piped or "").encode("utf-8", "surrogateescape"))
        patch.setattr(sys, "stdin", io.TextIOWrapper(typed, "utf-8"))
        return Ran(*self._glassformer(*words[1:]))


def _others(words: Sequence[str], piped: str | None) -> Ran:
    program = [sys.executable, "-m", "torch.distributed.run"] if words[0] == "torchrun" else words[:1]
    done = subprocess.run(
        [*program, *words[1:]],
        input=piped,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        encoding="utf-8",
        errors="surrogateescape",  # what passes through a pipe may be anything
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def carry_out(page: Path, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """Do all that a page says, in the folder where we are; what it says is printed is printed.

    That is what stands behind a print, as `print(1 + 1)  # 2`, and the lines of a block of text right after commands or
    Python; in these … stands for anything. Commands under "What goes wrong" fail, all others do not. A block after a
    line that ends in a file's name and a colon is that file.
    """
    known: dict[str, Any] = {"__name__": "docs"}
    printed = ""
    for block in page_blocks(page):
        promised: list[str] = []
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.code, "utf-8")
        elif block.language == "python":
            capsys.readouterr()
            exec(compile(block.code, page.name, "exec"), known)
            printed = capsys.readouterr().out
            promised = re.findall(r"^print\(.*\)  # (.+)$", block.code, re.MULTILINE)
        elif block.language == "sh":
            ran = [shell.run(words) for words in lines_of(block.code) if words[0] not in SET_UP]
            unlike = [one for one in ran if bool(one.code) != (block.section == WRONG)]
            assert unlike == [], unlike
            printed = "\n".join(one.out + one.err for one in ran)
        elif block.language == "text":
            promised = block.code.splitlines()
        lacking = missing(promised, printed)
        assert lacking == [], f"{lacking} of:\n{printed}"


def missing(promised: Sequence[str], printed: str) -> list[str]:
    """The lines that are promised and not printed, whatever the blanks; … stands for anything."""
    said = [" ".join(line.split()) for line in printed.splitlines()]
    return [line for line in promised if line.strip() and not any(_says(one, line) for one in said)]


def _says(said: str, promised: str) -> bool:
    parts = [re.escape(" ".join(part.split())) for part in promised.split("…")]
    return re.fullmatch(r"\s*.*\s*".join(parts), said) is not None
