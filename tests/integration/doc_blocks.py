"""What the docs show in Python, block by block, and running a block as a reader would who pastes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from dev import ROOT

FENCE = re.compile(
    r"^( *)```python\n(?P<code>.*?)^\1```\n(?:\n\1```text\n(?P<printed>.*?)^\1```\n)?", re.DOTALL | re.MULTILINE
)
"""A block, indented where it belongs to a list, and the output that a block of text right below it shows."""

OF_SPARK = re.compile(r"from pyspark|airflow_kafka_offsets\.spark import|\(spark[,)]|\(Sink\)")
"""What a block has that is code of a Spark job."""

REQUESTS = ROOT / "docs" / "development" / "requests"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page.

    :param page: below the repository's root.
    :param number: of the page's blocks in Python, from 1.
    :param printed: what it prints by the page; None where the page doesn't say.
    """

    page: str
    number: int
    code: str
    printed: str | None

    @property
    def is_of_spark(self) -> bool:
        """It is run where a Spark session is."""
        return OF_SPARK.search(self.code) is not None

    @property
    def key(self) -> tuple[str, int]:
        return self.page, self.number

    def run(self, names: dict[str, Any], renamed: Mapping[str, str] | None = None) -> None:
        """Execute it.

        :param names: what its code finds, and where its own names go.
        :param renamed: what stands for an address or a topic of the page here.
        """
        exec(compile(replaced(self.code, renamed or {}), f"{self.page}, Python block {self.number}", "exec"), names)


def replaced(text: str, renamed: Mapping[str, str]) -> str:
    """A text in which other words stand for whole words of it."""
    for word, other in renamed.items():
        text = re.sub(rf"(?<![\w.]){re.escape(word)}(?!\w)", lambda _, other=other: other, text)
    return text


def blocks_of(page: Path) -> list[Block]:
    """The page's blocks, in order."""
    name = str(page.relative_to(ROOT))
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(name, number, dedent(each["code"]), each["printed"]) for number, each in enumerate(found, start=1)]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def guide_blocks() -> list[Block]:
    """Those of every page but the requests', which show a client."""
    return [block for page in PAGES if page.parent != REQUESTS for block in blocks_of(page)]
