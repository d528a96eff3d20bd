"""What every sink promises, whatever it is: one specification, run on each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import Attempt, Sink
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import driver_of, load_rows
from tests.integration.spark.sinks.conftest import (
    EXPECTED,
    FORMATS,
    IS_ANOTHERS,
    KINDS,
    OTHER,
    Holds,
    Visible,
    another,
    attempt_of,
    publish,
    write_shown,
)
from tests.integration.spark.sinks.faults import Died, dying
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of


@pytest.fixture
def short(flights: str) -> Manifest:
    return manifest_of([(flights, 2, 0, 9)])


TOO_LATE = r"began after|is published|a later one was published"
ANOTHER_TABLE = pytest.mark.nightly("a table; files have attempts that die at each step")


class TestEverySink:
    @pytest.mark.parametrize("sink", [*KINDS, *FORMATS], indirect=True)
    def test_publishes_exactly_the_window_and_one_of_its_name_without_rows_clears_it(
        self, open_window: OpenWindow, manifest: Manifest, flights: str, sink: Sink, holds: Holds
    ) -> None:
        """S6, S23: the neighbour's rows stay."""
        neighbour = manifest_of([(flights, 2, 125, 250)], start_ms=SIX_MS, end_ms=SEVEN_MS)
        publish(open_window(neighbour), sink)
        publish(open_window(manifest), sink)
        assert holds(sink, manifest) == EXPECTED

        none = tuple(replace(each, end_offset=each.start_offset) for each in manifest.ranges)
        emptied = open_window(replace(manifest, ranges=none))
        publish(emptied, sink)
        assert holds(sink, emptied.manifest) == {}
        assert holds(sink, neighbour) == {2: list(range(125, 250))}

    @pytest.mark.parametrize(
        "moment",
        [
            "before its write",
            pytest.param("after its write", marks=pytest.mark.nightly("each sink once more, at another moment")),
        ],
    )
    def test_a_second_attempt_beside_the_first_never_doubles(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, visible: Visible, moment: str
    ) -> None:
        """S22: the first one has begun, and the second one begins and is published before the first one writes, or
        after. The first one is too late then, as its driver finds in the table or the log, or else its publisher."""
        write = sink.replace

        def overtaken(rows: DataFrame, attempt: Attempt) -> str | None:
            if moment == "after its write":
                written = write(rows, attempt)
            sink.replace = write  # type: ignore[method-assign]
            publish(open_window(manifest), sink)
            return written if moment == "after its write" else write(rows, attempt)

        sink.replace = overtaken  # type: ignore[method-assign]
        late = open_window(manifest)
        with pytest.raises((CommitConflictError, LedgerConflictError), match=TOO_LATE):
            load_rows(late, another(late.read()), sink)
        rows = visible(sink, manifest)
        assert (offsets(rows), rows.where(IS_ANOTHERS).count()) == (EXPECTED, 0)

    @pytest.mark.parametrize(
        "sink",
        ["parquet", *(pytest.param(each, marks=ANOTHER_TABLE) for each in KINDS[1:])],
        indirect=True,
    )
    @pytest.mark.parametrize("same", [False, True], ids=["attempts", "drivers of one attempt"])
    def test_those_that_die_at_each_step_leave_what_the_next_one_can_finish(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds, same: bool
    ) -> None:
        """The first dies before its first step, the next one before its second, until one comes through; between steps
        nothing changes. Steps are the changes of a store, the write of the rows, and what commits them to a table."""
        number = None
        for step in range(24):
            window = open_window(manifest, number if same else None)
            number = driver_of(window).number
            try:
                with dying(step, sink):
                    publish(window, sink)
                    break
            except Died:
                pass
            except CommitConflictError:
                if not same:
                    raise
                number = None  # what another driver has written stays until the next attempt
        assert step > 2, "the note, the rows and the counts are steps"
        assert holds(sink, manifest) == EXPECTED


@pytest.mark.nightly("of attempts in any order; test_table_owner.py shows whose a table is")
@pytest.mark.parametrize("sink", KINDS[1:], indirect=True)
def test_in_one_table_rows_give_way_to_higher_numbers_of_the_same_ledger_alone(
    spark: SparkSession, open_window: OpenWindow, short: Manifest, sink: Sink
) -> None:
    """A table has one ledger; a sink of one's own may hold those of several under keys of their own."""
    window = open_window(short)

    def write(number: int, **facts: object) -> None:
        write_shown(sink, window.read(), attempt_of(short, number, **facts))

    write(20)
    write(30)
    for number, run in ((10, "0000000a"), (30, "0000000b")):
        with pytest.raises(CommitConflictError):
            write(number, run=run)
    if isinstance(sink, TableSink):
        with pytest.raises(LedgerConflictError, match=rf"of ledger {short.ledger_id} \(pipeline flights\)"):
            write(40, ledger_id=OTHER)
    else:
        write(40, ledger_id=OTHER)
    rows, name = sink.current(spark, attempt_of(short))
    assert (offsets(rows), name) == ({2: list(range(9))}, "30-0000000a")
