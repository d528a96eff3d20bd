"""What the docs show, block by block, and running a block as a reader would who pastes it.

Blocks in Python are run by ``{client,airflow,spark}/test_doc_blocks.py``, commands by
``airflow/doc_commands/test_doc_commands.py``, and what is neither is read by ``tests/unit/test_doc_blocks.py``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from dev import ROOT

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>.*)\n(?P<code>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE)
"""A block, indented where it belongs to a list."""

OF_SPARK = re.compile(r"from pyspark|airflow_kafka_offsets\.spark import|\(spark[,)]|\(Sink\)")
"""What a block has that is code of a Spark job."""

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DOCS = ROOT / "docs"
REQUESTS = DOCS / "development" / "requests"
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES = [*BESIDE, *sorted(DOCS.rglob("*.md"))]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page.

    :param page: below the repository's root.
    :param language: as its fence has it.
    :param number: of the page's blocks in this language, from 1.
    :param printed: what it prints by the block of text right below it; None where there is none.
    """

    page: str
    language: str
    number: int
    code: str
    printed: str | None = None

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

    def commands(self) -> list[tuple[str, str]]:
        """The commands of a ``console`` block, each with what it prints; those of others, which print nothing here."""
        if self.language != "console":
            return [(line, "") for line in joined(self.code).splitlines()]
        _, *parts = re.split(r"^\$ (.+)\n", joined(self.code), flags=re.MULTILINE)
        return list(zip(parts[::2], [f"{each.rstrip()}\n" for each in parts[1::2]], strict=True))


def joined(code: str) -> str:
    """Shell code with a command a line."""
    return re.sub(r"\\\n *", "", code)


def words_of(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def replaced(text: str, renamed: Mapping[str, str]) -> str:
    """A text in which other words stand for whole words of it."""
    for word, other in renamed.items():
        text = re.sub(rf"(?<![\w.]){re.escape(word)}(?!\w)", lambda _, other=other: other, text)
    return text


def all_blocks(page: Path) -> list[Block]:
    """The page's blocks, in order. The output of one in Python is part of it."""
    name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = -2
    for each in FENCE.finditer(text):
        language, code, follows = each["language"], dedent(each["code"]), each.start() == end + 2
        if language == "text" and follows and found[-1].language == "python":
            found[-1] = Block(name, "python", found[-1].number, found[-1].code, code)
            continue
        found.append(Block(name, language, sum(one.language == language for one in found) + 1, code))
        end = each.end()
    return found


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in some languages; in Python by default."""
    return [each for each in all_blocks(page) if each.language in (languages or ("python",))]


def guide_blocks() -> list[Block]:
    """Those in Python of every page but CONTRIBUTING.md, and the requests', which show a client."""
    return [block for page in PAGES if page != CONTRIBUTING and page.parent != REQUESTS for block in blocks_of(page)]


def name_of(block: Block) -> str:
    """As a test's parameter is called."""
    return f"{block.page}-{block.language}-{block.number}"
