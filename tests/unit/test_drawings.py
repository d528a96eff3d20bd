"""The docs' drawings are those that the program draws."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dev.drawings import DRAWINGS, FOLDER, WIDTH


@pytest.mark.parametrize("name", DRAWINGS)
def test_each_is_as_it_is_drawn_now(name: str) -> None:
    drawn = DRAWINGS[name]()
    assert (FOLDER / name).read_text(encoding="utf-8") == drawn
    svg = ElementTree.fromstring(drawn)
    assert svg.find("{*}title").text, "whoever can't see it is told what it shows"
    for box in svg.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.get("x", "0")) + float(box.get("width")) <= WIDTH
