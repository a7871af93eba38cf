"""The lines of a file or of stdin, as commands read them."""

import sys
from collections.abc import Iterator

from .output import echo_line


def lines_of(name: str) -> Iterator[str]:
    """Each line without its end, whatever the encoding or compression; what had to be mended is said on stderr."""
    from glassformer.data.report import ReadReport
    from glassformer.data.source import resolve

    if name == "-" and sys.stdin.isatty():  # whoever types waits for an answer to each line
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    report = ReadReport()
    for source in resolve([name]):
        for _, line in source.lines(report):
            yield line.rstrip("\r\n")
    for word in report.lines()[1:]:
        echo_line(word, err=True)
