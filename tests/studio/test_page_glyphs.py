"""Chinese in a real browser: every character that the page says is drawn, and none as an empty box."""

import re

import pytest

from glassformer.inspect.flow_source import HOME
from studio.cases import TEXT

PAGE = HOME / "glassformer" / "studio" / "page"
NO_FONT = (
    "no font with Chinese characters is installed, so that pages show empty boxes: apt-get install fonts-wqy-microhei"
)
DRAWN = """(characters) => {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d", { willReadFrequently: true });
  canvas.width = canvas.height = 40;
  const family = getComputedStyle(document.body).fontFamily;
  return characters.map((one) => {
    pen.clearRect(0, 0, 40, 40);
    pen.font = `32px ${family}`;
    pen.fillText(one, 2, 32);
    return pen.getImageData(0, 0, 40, 40).data.filter((_, place) => place % 4 === 3).join();
  });
}"""


def test_every_character_has_a_shape_of_its_own(tour):
    words = "".join(path.read_text("utf-8") for path in [PAGE / "i18n.js", *sorted((PAGE / "i18n").glob("*.js"))])
    characters = sorted(set(re.findall(r"[\u4e00-\u9fff]", words)))
    assert len(characters) > 300
    page = tour("flow", model="bert", text=TEXT, lang="zh")
    box, *drawn = page.evaluate(DRAWN, ["\U000e0fff", *characters])
    if len(set(drawn)) == 1:
        pytest.skip(NO_FONT)
    assert [one for one, shape in zip(characters, drawn, strict=True) if shape == box] == []
    assert len(set(drawn)) == len(drawn)
