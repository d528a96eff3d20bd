"""What the commands print in terminals of 80 to 120 columns, and in pipes, of topics with long names."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from tests.integration.airflow.conftest import T0_MS, Publish, Resolve, Run
from tests.integration.conftest import MakeTopic, Produce

DAY = ("2026-11-20T06:00:00Z", "2026-11-20T07:00:00Z")
RECORDS = 1_500


@pytest.fixture
def topic_name(topic: MakeTopic, produce: Produce) -> str:
    """A topic of two partitions with a long name."""
    name = topic(partitions=2, config={"retention.ms": "-1"})
    assert len(name) > 50
    produce(name, 0, [(T0_MS + n, None, b"x") for n in range(RECORDS)])
    return name


@pytest.fixture
def group(client: OffsetsClient, topic_name: str) -> str:
    commits = [CommittedOffset(topic_name, 0, 1_200, leader_epoch=0, metadata="by hand")]
    name = f"payments-to-lake-{topic_name[-8:]}"
    client.commit_offsets(name, CommittedOffsets(commits)).raise_for_errors()
    return name


@pytest.fixture
def window(topic_name: str, resolve: Resolve, publish: Publish) -> str:
    pinned = resolve(topic_name, *DAY)
    publish(pinned)
    return str(pinned["window"])


@pytest.fixture
def commands(topic_name: str, group: str, window: str) -> list[tuple[str, ...]]:
    """Every command that prints rows; none of them changes what the others say."""
    instants = ("--start", DAY[0], "--end", DAY[1])
    return [
        ("list", topic_name),
        ("list", topic_name, "--at", DAY[0]),
        ("list", "no.such", topic_name, "--partitions", "0"),
        ("lag", group),
        ("lag", group, "no-such-group"),
        ("reset", group, "--to", "earliest"),
        ("ledger", "list", "loads"),
        ("ledger", "show", "loads", window),
        ("ledger", "verify", "loads"),
        ("ledger", "find", "loads", topic_name, "0", "7"),
        ("ledger", "resolve", "loads", "--topics", topic_name, *instants),
        ("ledger", "publish", "loads", window),
        ("ledger", "begin", "loads", window),
        ("ledger", "reload", "loads", window, "--dry-run"),
        ("ledger", "void", "loads", window, "--dry-run", "--force"),
        ("ledger", "rewind", "loads", "--to", DAY[0], "--dry-run", "--force"),
    ]


ONE_RECORD = ("show", "find", "publish", "begin")
"""Commands of the ledger that print one record, with one field per line. Its values are whole."""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have commands print as to a terminal of so many columns."""

    def be(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return be


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_or_window_is_cut(
    run: Run, commands: list[tuple[str, ...]], window: str, terminal: Any, columns: int
) -> None:
    terminal(columns)
    for words in commands:
        _, out, _ = run(*words)
        if words[0] == "ledger" and words[1] in ONE_RECORD:
            assert re.search(f"^window: +{window}$", out, re.MULTILINE), f"{words}:\n{out}"
            continue
        assert max(map(len, out.splitlines()), default=0) <= columns, f"{words}:\n{out}"
        if words[0] == "ledger":
            assert window in out, f"{words}:\n{out}"
    assert any(word == str(RECORDS) for word in run("list", commands[0][1])[1].split())


def test_in_a_pipe_a_row_is_one_line_and_its_values_are_whole(
    run: Run, commands: list[tuple[str, ...]], topic_name: str
) -> None:
    for words in commands:
        if words[0] == "ledger" and words[1] in ONE_RECORD:
            continue
        out = run(*words)[1]
        rows = json.loads(run(*words, "-o", "json")[1] or "[]")
        assert len(out.splitlines()) == (len(rows) + 1 if rows else 0), f"{words}:\n{out}"
    assert all(topic_name in line for line in run("list", topic_name)[1].splitlines()[1:])


def test_json_has_all_fields_also_those_that_tables_leave_out(run: Run, group: str) -> None:
    (with_commit, without) = json.loads(run("lag", group, "-o", "json")[1])
    assert (with_commit["metadata"], with_commit["leader_epoch"]) == ("by hand", 0)
    assert (without["metadata"], without["leader_epoch"]) == ("", None)
    assert "by hand" not in run("lag", group)[1]
