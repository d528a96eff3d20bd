"""The documentation: its links lead somewhere, its calls exist, and its errors are Kafka's."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_kafka_offsets.client.connection.wire import is_stale, named_error
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from dev import ROOT
from tests.unit.kafka_errors import SAID

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
REQUESTS = sorted((DOCS / "development" / "requests").glob("*.md"))
ASKED_OF_ANY_BROKER = ("find_coordinator.md", "metadata.md")
"""There is no place to look up again."""
FINAL = {
    **dict.fromkeys(("offset_commit.md", "offset_fetch.md"), ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")),
    **dict.fromkeys(("describe_configs.md", "metadata.md"), ("UNKNOWN_TOPIC_OR_PARTITION",)),
}
"""Errors that Kafka calls retriable, and that are the answer where these requests are concerned."""

OURS = ("airflow_kafka_offsets", "airflow.sdk")
"""What examples import that may move: the package, and the part of Airflow that it builds on."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(prose(page))
    }


def leads_nowhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if target.is_relative_to(DOCS / "api"):  # what the site has of the docstrings; its own test builds it
        return False
    return not target.exists() or (bool(anchor) and anchor not in anchors(target))


def python_blocks(page: Path) -> list[ast.Module]:
    """What a page shows in Python. A block that doesn't compile raises."""
    return [ast.parse(code) for kind, code in FENCE.findall(page.read_text(encoding="utf-8")) if kind == "python"]


def calls_of_the_client(block: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(block):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "client"
        ):
            yield node.func.attr, node


class ErrorRow(NamedTuple):
    """A row of a table of errors: what the page says, and what the client knows of this code."""

    name: str
    retriable: bool
    asked_again: bool
    how: str
    error: ResponseError


def error_rows(page: Path) -> Iterator[ErrorRow]:
    in_table = False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "error" or not line.startswith("|"):
            in_table = cells[0] == "error" and cells[1] == "code"
        elif in_table and not cells[0].startswith("---"):
            again, _, how = cells[3].partition(", ")
            yield ErrorRow(cells[0].strip("`"), cells[2] == "yes", again == "yes", how, named_error(int(cells[1]), ""))


def names_in(page: Path) -> set[str]:
    return {each.name for each in error_rows(page)}


OF_EVERY_REQUEST = names_in(DOCS / "development" / "requests" / "README.md")


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
class TestPages:
    def test_what_they_import_exists(self, page: Path) -> None:
        for block in python_blocks(page):
            for node in ast.walk(block):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(OURS):
                    module = importlib.import_module(node.module)
                    assert [each.name for each in node.names if not hasattr(module, each.name)] == []

    def test_their_links_lead_somewhere(self, page: Path) -> None:
        links = [link for link in LINK.findall(prose(page)) if "://" not in link]
        assert [link for link in links if leads_nowhere(page, link)] == []


class TestIndexes:
    def test_the_documentation_names_each_of_its_pages(self) -> None:
        linked = LINK.findall((DOCS / "README.md").read_text(encoding="utf-8"))
        pages = {str(page.relative_to(DOCS)) for page in PAGES if page not in REQUESTS} - {"README.md"}
        assert pages <= set(linked)

    def test_the_requests_name_each_of_their_pages(self) -> None:
        index = DOCS / "development" / "requests" / "README.md"
        linked = {link.partition("#")[0] for link in LINK.findall(index.read_text(encoding="utf-8"))}
        assert {page.name for page in REQUESTS} - {"README.md"} <= linked

    def test_the_requests_name_each_call_of_the_client(self) -> None:
        index = (DOCS / "development" / "requests" / "README.md").read_text(encoding="utf-8")
        named = set(re.findall(r"`(\w+)`", index))
        calls = {name for name, _ in inspect.getmembers(OffsetsClient, inspect.isfunction) if not name.startswith("_")}
        assert calls - {"close"} <= named


@pytest.mark.parametrize("page", REQUESTS, ids=lambda page: page.name)
class TestExamples:
    def test_what_they_call_exists_with_these_arguments(self, page: Path) -> None:
        for block in python_blocks(page):
            for name, call in calls_of_the_client(block):
                signature = inspect.signature(getattr(OffsetsClient, name))
                keywords = {each.arg: None for each in call.keywords if each.arg}
                signature.bind(None, *call.args, **keywords)


@pytest.mark.parametrize(
    "page", [page for page in REQUESTS if "| error |" in page.read_text(encoding="utf-8")], ids=name_of
)
class TestErrorTables:
    def test_names_and_flags_are_kafkas(self, page: Path) -> None:
        rows = list(error_rows(page))
        assert rows
        assert [row for row in rows if (row.name, row.retriable) != (row.error.name, row.error.retriable)] == []

    def test_lack_nothing_that_a_broker_may_say(self, page: Path) -> None:
        if page.name in SAID:
            assert SAID[page.name].must() - names_in(page) - OF_EVERY_REQUEST == set()

    def test_name_nothing_that_nobody_says(self, page: Path) -> None:
        if page.name in SAID:
            place = SAID.get(SAID[page.name].place)
            of_the_place = place.may() if place else set()
            assert names_in(page) - SAID[page.name].may() - of_the_place - OF_EVERY_REQUEST == set()

    def test_what_is_asked_again_is_what_may_pass(self, page: Path) -> None:
        final = FINAL.get(page.name, ())
        wrong = [each for each in error_rows(page) if each.asked_again != (each.retriable and each.name not in final)]
        assert wrong == []

    def test_a_place_is_looked_up_again_when_it_may_be_the_wrong_one(self, page: Path) -> None:
        asked_again = [each for each in error_rows(page) if each.asked_again and page.name not in ASKED_OF_ANY_BROKER]
        assert [each for each in asked_again if ("looked up again" in each.how) != is_stale(each.error)] == []


def test_each_request_has_a_table_of_its_errors() -> None:
    """The two without one are an index, and a page about several requests."""
    without = {page.name for page in REQUESTS} - set(SAID)
    assert without == {"README.md", "committed_and_high_watermark.md"}
    assert [page for page in SAID if not names_in(DOCS / "development" / "requests" / page)] == []


def test_every_outcome_is_explained() -> None:
    page = DOCS / "reference" / "semantics.md"
    assert [each for each in ListOutcome if f"| `{each}` |" not in page.read_text(encoding="utf-8")] == []


class TestTheMapOfTheRooms:
    CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    PACKAGE = ROOT / "airflow_kafka_offsets"

    def test_names_each_room(self) -> None:
        rooms = {each.parent.relative_to(self.PACKAGE) for each in self.PACKAGE.rglob("__init__.py")} - {Path()}
        inner = {Path("client/requests/messages")}
        assert {each for each in rooms - inner if f"`{each}/`" not in self.CONTRIBUTING} == set()

    def test_names_nothing_that_is_not_there(self) -> None:
        map_ = self.CONTRIBUTING.partition("## The rooms")[2].partition("## Docs")[0]
        places = re.findall(r"`([a-z_]+(?:/[\w.]*)+|\w+\.py)`", map_)
        assert len(places) > 40
        assert [each for each in places if not ((self.PACKAGE / each).exists() or (ROOT / each).exists())] == []
