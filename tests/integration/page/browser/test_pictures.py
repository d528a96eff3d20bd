"""The docs' pictures of the page are taken by these tests: ``make pictures`` keeps them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dev import ROOT
from dev.drawings import FOLDER
from tests.integration.page.browser.conftest import Open
from tests.integration.page.browser.orders import AGAIN, window

TAKEN = {
    "first-hours": ("p/flights_hourly", "main"),
    "pipelines": ("", "main"),
    "pipeline": ("p/shop", "main"),
    "offsets": ("p/shop/t/orders", "section.panel"),
    "window": ("p/shop/w/{again}", "section.panel"),
}
"""Where each is taken, and of what. ``page-waits.png`` is of a real wait, in ``test_waits.py``."""
WIDTHS = {"first-hours": 1280, "pipelines": 1280, "pipeline": 1280}

_AS_READERS_HAVE_IT = """
    for (const cell of document.querySelectorAll("dd"))
        if (cell.textContent.startsWith("file:"))
            cell.textContent = cell.textContent.replace(/^file:.*ledger/, "s3://lake/ledger");
    for (const row of document.querySelectorAll(".cards tbody tr"))
        if (!/^(shop|flights_hourly)/.test(row.textContent)) row.remove();
"""
"""No reader has the folder of this test, nor the pipelines of others."""

pytestmark = pytest.mark.timeout(900)


@pytest.mark.nightly("of what test_screens.py looks at; make pictures takes them")
@pytest.mark.parametrize("name", TAKEN)
def test_a_picture_is_taken(open_page: Open, pictures: Path, name: str) -> None:
    place, part = TAKEN[name]
    page = open_page(place.format(again=window(AGAIN)), WIDTHS.get(name, 1000))
    expect(page.locator(part)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.evaluate(_AS_READERS_HAVE_IT)
    page.locator(part).screenshot(path=pictures / f"page-{name}.png")


def test_the_docs_show_those_that_are_taken_and_no_others() -> None:
    taken = {f"page-{name}.png" for name in (*TAKEN, "waits")}
    assert {file.name for file in FOLDER.glob("page-*")} == taken
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert set(re.findall(r"pictures/(page-[\w-]+\.png)", shown)) == taken
