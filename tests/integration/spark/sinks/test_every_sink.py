"""What every sink promises, whatever it is: one specification, run on each."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Attempt, Sink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.sinks.conftest import (
    EXPECTED,
    FORMATS,
    KINDS,
    OTHER,
    Holds,
    attempt_of,
    publish,
    write_shown,
)
from tests.integration.spark.sinks.faults import Died, dying
from tests.integration.spark.stages import read_by_the_newer_interface
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of


@pytest.fixture
def short(flights: str) -> Manifest:
    return manifest_of([(flights, 2, 0, 9)])


ANOTHER_TABLE = pytest.mark.nightly("a table; files have attempts that die at each step")


class TestEverySink:
    @pytest.mark.parametrize("sink", [*KINDS, *FORMATS], indirect=True)
    def test_publishes_exactly_the_window_and_an_empty_revision_clears_it(
        self, open_window: OpenWindow, manifest: Manifest, flights: str, sink: Sink, holds: Holds
    ) -> None:
        """S6, S23: the neighbour's rows stay."""
        neighbour = manifest_of([(flights, 2, 125, 250)], start_ms=SIX_MS, end_ms=SEVEN_MS)
        publish(open_window(neighbour), sink)
        assert publish(open_window(manifest), sink) == "try-1"
        assert holds(sink, manifest) == EXPECTED

        none = tuple(replace(each, end_offset=each.start_offset) for each in manifest.ranges)
        emptied = open_window(replace(manifest, ranges=none, end_snapshot=9), "try-2")
        assert emptied.manifest.revision == 2
        assert publish(emptied, sink) == "try-2"
        assert holds(sink, emptied.manifest) == {}
        assert holds(sink, neighbour) == {2: list(range(125, 250))}

    @pytest.mark.nightly("every sink once more; test_pinned_window.py reads by that interface")
    @pytest.mark.parametrize("sink", [*KINDS, *FORMATS], indirect=True)
    def test_is_written_from_the_newer_interface_to_kafka(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink
    ) -> None:
        """Spark resolves the source again when rows are written. The session stays as it was."""
        window = open_window(manifest)
        with read_by_the_newer_interface(window.spark):
            publish(window, sink)

    @pytest.mark.parametrize(
        "moment",
        [
            "before its write",
            pytest.param("after its write", marks=pytest.mark.nightly("each sink once more, at another moment")),
        ],
    )
    def test_a_second_attempt_beside_the_first_never_doubles(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds, moment: str
    ) -> None:
        """S22: the first one has begun, and the second one is published before the first one writes, or after. In a
        table the first one is too late then, and on a branch always."""
        beside = open_window(manifest, "try-2")
        write = sink.write

        def overtaken(rows: DataFrame, attempt: Attempt) -> str | None:
            if moment == "after its write":
                written = write(rows, attempt)
            sink.write = write  # type: ignore[method-assign]
            assert publish(beside, sink) == "try-2"
            return written if moment == "after its write" else write(rows, attempt)

        sink.write = overtaken  # type: ignore[method-assign]
        first = open_window(manifest, "try-1")
        if (moment == "after its write" and sink.kind != "iceberg") or sink.keeps_attempts_apart:
            assert publish(first, sink) == "try-2"
        else:
            with pytest.raises(CommitConflictError):
                publish(first, sink)
        assert publish(open_window(manifest, "try-3"), sink) == "try-2"
        assert holds(sink, manifest) == EXPECTED

    @pytest.mark.parametrize(
        "sink",
        ["parquet", *(pytest.param(each, marks=ANOTHER_TABLE) for each in ("delta", "iceberg", "postgres"))],
        indirect=True,
    )
    def test_attempts_that_die_at_each_step_leave_what_the_next_one_can_finish(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds
    ) -> None:
        """The first dies before its first step, the next one before its second, until one comes through; between steps
        nothing changes. Steps are the changes of a store, the write of the rows, and what commits them to a table."""
        written = []
        for step in range(16):
            window = open_window(manifest, f"try-{step}")
            with contextlib.suppress(Died), dying(step, sink):
                written.append(publish(window, sink))
                break
        assert step > 2, "the note, the rows and the counts are steps"
        assert publish(open_window(manifest, "try-again"), sink) == written[0]
        assert holds(sink, manifest) == EXPECTED

    @pytest.mark.nightly("of revisions; test_publishes_exactly_the_window shows each sink")
    @pytest.mark.parametrize("sink", ["parquet", "delta"], indirect=True)
    def test_a_revision_with_fewer_records_of_the_same_snapshots_leaves_the_published_one_alone(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds
    ) -> None:
        """S23: a retry that was resolved after retention, while the first attempt lived on."""
        first, *others = manifest.ranges
        assert publish(open_window(manifest), sink) == "try-1"

        the_rest = open_window(replace(manifest, ranges=(replace(first, start_offset=50), *others)), "try-2")
        assert the_rest.manifest.revision == 2
        assert publish(the_rest, sink) == "try-1"
        assert holds(sink, manifest) == EXPECTED


@pytest.mark.nightly("of revisions; test_table_owner.py shows whose a table is")
@pytest.mark.parametrize("sink", ["delta", "iceberg", "postgres"], indirect=True)
def test_in_one_table_rows_give_way_to_newer_ones_of_the_same_ledger_alone(
    spark: SparkSession, open_window: OpenWindow, short: Manifest, sink: Sink
) -> None:
    window = open_window(short)

    def write(name: str, **facts: object) -> None:
        write_shown(sink, window.read(), attempt_of(short, name, **facts))

    write("second", revision=2, started_ms=2)
    write("third", revision=2, started_ms=3, earlier=frozenset({"second"}))
    with pytest.raises(CommitConflictError):
        write("late", revision=2, started_ms=1)
    with pytest.raises(LedgerConflictError, match=rf"of ledger {short.ledger_id} \(pipeline flights\)"):
        write("other", revision=3, ledger_id=OTHER)
    with pytest.raises(LedgerConflictError, match=rf"of ledger {short.ledger_id}"):
        sink.read(spark, attempt_of(short, ledger_id=OTHER))
    older = {"revision": 1, "manifest_sha256": "older", "started_ms": 4}
    for earlier in (frozenset({"another"}), frozenset()):
        # Delta looks into the table where there was an earlier attempt, and else goes by its own transactions.
        with pytest.raises(LedgerConflictError, match="in revision 2, by attempt third"):
            write("older", earlier=earlier, **older)
    assert offsets(sink.read(spark, attempt_of(short))) == {2: list(range(9))}
