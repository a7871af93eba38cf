"""Text as it is written: pieces that never break a character, nor give away a part of a stop string."""

from collections.abc import Callable, Sequence

CONTEXT = 8  # tokens of a prompt: whether a word stands apart is told by what stands before it


class TextPieces:
    """The text of ids that come one by one.

    Joined, the pieces are what ids add to the text of the `context` before them; without a context, the text of the
    ids alone. Few ids are decoded at a time, however long the text.
    """

    def __init__(
        self, decode: Callable[[list[int]], str], *, context: Sequence[int] = (), stops: Sequence[str] = ()
    ) -> None:
        """`decode`: the text of ids. `stops`: strings that may end the text, and are then no part of it."""
        self.decode, self.stops = decode, stops
        self.ids = list(context[-CONTEXT:])
        self.known = len(self.ids)  # ids whose text is in `text`, or was taken
        self.text = ""  # not yet taken

    def push(self, token: int) -> None:
        self.ids.append(token)
        self._read(whole=True)

    def take(self) -> str:
        """What is certain by now: whole characters that begin no stop string."""
        ends = (size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size]))
        border = len(self.text) - max(ends, default=0)
        piece, self.text = self.text[:border], self.text[border:]
        return piece

    def finish(self, *, stopped: bool) -> tuple[str, str | None]:
        """What is left, and the stop string that was found: where one has `stopped` the text, what is before it."""
        self._read(whole=False)
        found = [(self.text.find(stop), stop) for stop in self.stops if stopped and stop in self.text]
        if not found:
            return self.text, None
        place, stop = min(found)
        return self.text[:place], stop

    def _read(self, *, whole: bool) -> None:
        before, after = self.decode(self.ids[: self.known]), self.decode(self.ids)
        if len(after) <= len(before) or (whole and after.endswith("\ufffd")):  # in the middle of a character
            return
        self.text += after[len(before) :]
        self.ids, self.known = self.ids[self.known :], len(self.ids) - self.known
