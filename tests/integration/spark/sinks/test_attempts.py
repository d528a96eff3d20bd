"""Attempts at one window in one table: the rows are those of the one that began last, and no other is published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, KafkaOffsetsError, LedgerConflictError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.attempts import outnumber
from airflow_kafka_offsets.spark import Attempt, Sink, read_published
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow, Pin
from tests.integration.spark.publishing import driver_of, load_rows, publish
from tests.integration.spark.sinks.conftest import (
    IS_ANOTHERS,
    another,
    attempt_of,
    publish as publish_rows,
    write_shown,
)
from tests.integration.spark.sinks.faults import interrupted
from tests.integration.spark.test_pinned_window import offsets
from tests.patience import PATIENCE_S
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of

NINE = {0: list(range(9))}
_OTHERS = pytest.mark.nightly("the other tables: test_every_sink.py has attempts side by side at each in make test")


def each_table(first: str) -> pytest.MarkDecorator:
    """Tables, and a sink of a user's, whose rows are replaced in place.

    :param first: the kind that ``make test`` takes: Delta where a table's own commits decide, SQLite, at a fifth of
        the cost, where the driver does.
    """
    others = [kind for kind in ("delta", "iceberg", "sqlite") if kind != first]
    kinds = [first, *(pytest.param(kind, marks=_OTHERS) for kind in others)]
    return pytest.mark.parametrize("sink", kinds, indirect=True)


@pytest.fixture
def nine(flights: str) -> Manifest:
    return manifest_of([(flights, 0, 0, 9)])


def in_place(spark: SparkSession, sink: Sink, manifest: Manifest) -> DataFrame:
    """What a table holds of a window, whoever wrote it."""
    return sink.current(spark, attempt_of(manifest))[0]


class TestSeveralDriversOfOneAttempt:
    """A submitter's own retry: one prepared load, whose driver is started twice."""

    @each_table("delta")
    def test_the_second_one_proves_no_rows_that_the_first_one_has_written(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, sink: Sink
    ) -> None:
        """S16: while the first one read, another cluster was behind the address, and it died before it counted its
        rows. They have the window's own offsets. The task's next attempt writes its own."""
        first = open_window(nine)
        with interrupted("airflow_kafka_offsets.spark.window.kept_records.count_run"):
            first.write(another(first.read()), sink)
        second = open_window(nine, driver_of(first).number)
        if sink.kind == "iceberg":  # what the first one has written lies on a branch of its own
            publish(second, second.write(second.read(), sink))
        else:
            with pytest.raises(CommitConflictError, match="it alone can prove"):
                second.write(second.read(), sink)
            publish_rows(open_window(nine), sink)
        rows = in_place(spark, sink, nine)
        assert (offsets(rows), rows.where(IS_ANOTHERS).count()) == (NINE, 0)

    @each_table("sqlite")
    @pytest.mark.parametrize("gaps", [False, pytest.param(True, marks=pytest.mark.nightly("with a count of the read"))])
    def test_the_second_one_returns_what_the_first_one_has_proved_and_reads_nothing(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, sink: Sink, gaps: bool
    ) -> None:
        """That died once it had said what it counted, before anybody published it."""
        first = open_window(nine, allow_gaps=gaps)
        proved = first.write(another(first.read()), sink)
        second = open_window(nine, driver_of(first).number, allow_gaps=gaps)
        assert second.write(second.read(**{"kafka.bootstrap.servers": "127.0.0.1:1"}), sink) == proved
        publish(second, proved)
        assert in_place(spark, sink, nine).where(IS_ANOTHERS).count() == 9

    @each_table("sqlite")
    def test_at_once_they_leave_each_record_once_and_one_is_published(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, sink: Sink
    ) -> None:
        """One of the two may fail, with a conflict: the other one's result is published."""
        first = open_window(nine)
        both = first, open_window(nine, driver_of(first).number)

        def load(window: PinnedWindow) -> object:
            try:
                return window.write(window.read(), sink)
            except CommitConflictError as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            ended = list(pool.map(load, both, timeout=3 * PATIENCE_S))
        written = [(each, result) for each, result in zip(both, ended, strict=True) if not _failed(result)]
        assert written
        for window, result in written:
            publish(window, result)  # type: ignore[arg-type]  # it hasn't failed
        assert offsets(in_place(spark, sink, nine)) == NINE

    def test_a_driver_that_another_one_overtakes_in_its_commit_is_refused(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, make_sink: Callable[[str], Sink]
    ) -> None:
        """Delta's transaction of the same number is a conflict, or is skipped."""
        sink = make_sink("delta")
        first = open_window(nine)
        beside = open_window(nine, driver_of(first).number)
        overwrite = sink._overwrite  # type: ignore[attr-defined]
        proved = []

        def overtaken(rows: DataFrame, attempt: Attempt, version: int | None) -> None:
            sink._overwrite = overwrite  # type: ignore[attr-defined]
            proved.append(beside.write(another(beside.read()), sink))
            overwrite(rows, attempt, version)

        sink._overwrite = overtaken  # type: ignore[attr-defined]
        with pytest.raises(CommitConflictError, match="Run the task again"):
            first.write(first.read(), sink)
        assert publish(beside, proved[0]).run == driver_of(beside).run
        assert in_place(spark, sink, nine).where(IS_ANOTHERS).count() == 9


def _failed(result: object) -> bool:
    return isinstance(result, KafkaOffsetsError)


class TestLateDrivers:
    """Of attempts that Airflow has given up on."""

    @each_table("sqlite")
    def test_one_that_begins_to_write_once_another_attempt_has_begun_reads_and_writes_nothing(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, sink: Sink
    ) -> None:
        late = open_window(nine)
        newer = open_window(nine)
        with pytest.raises(CommitConflictError, match=f"attempt {driver_of(newer).number} began later"):
            late.write(late.read(), sink)
        publish_rows(newer, sink)
        assert offsets(in_place(spark, sink, nine)) == NINE


class TestReload:
    @each_table("sqlite")
    def test_takes_the_place_of_the_rows_that_were_published(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, sink: Sink
    ) -> None:
        """An application that was mended."""
        first = open_window(nine)
        load_rows(first, another(first.read()), sink)
        publish_rows(open_window(nine, again=True), sink)
        rows = in_place(spark, sink, nine)
        assert (offsets(rows), rows.where(IS_ANOTHERS).count()) == (NINE, 0)

    def test_has_a_table_refused_by_readers_until_it_is_published(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, ledger_uri: str, table_sink: TableSink
    ) -> None:
        publish_rows(open_window(nine), table_sink)
        window = open_window(nine, again=True)
        assert offsets(read_published(spark, ledger_uri)) == NINE, "nothing has been replaced yet"
        result = window.write(window.read(), table_sink)
        with pytest.raises(CommitConflictError, match="The window is being loaded again, or that load has failed"):
            read_published(spark, ledger_uri)
        publish(window, result)
        assert offsets(read_published(spark, ledger_uri)) == NINE

    @pytest.mark.nightly("a table whose history is short; the test above refuses one by its history")
    def test_whose_commit_the_tables_history_has_forgotten_is_refused_all_the_same(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        nine: Manifest,
        ledger_uri: str,
        table_sink: TableSink,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        publish_rows(open_window(nine), table_sink)
        with monkeypatch.context() as patch:
            patch.setattr(TableSink, "newest_of", lambda *_: {})
            assert offsets(read_published(spark, ledger_uri)) == NINE, "no later attempt has begun"
        window = open_window(nine, again=True)
        window.write(window.read(), table_sink)
        monkeypatch.setattr(TableSink, "newest_of", lambda *_: {})
        with pytest.raises(CommitConflictError, match=f"may hold those of attempt {driver_of(window).number}"):
            read_published(spark, ledger_uri)


_OTHER_NUMBERS = pytest.mark.nightly("a copy is found by the driver's name, whatever its number: once in make test")


class TestCopiesOfALedger:
    """Both have the same identity, and the same numbers for different attempts."""

    @pytest.fixture
    def copy(self, ledger: Path, nine: Manifest, pin: Pin, tmp_path: Path) -> Ledger:
        """One that was made once the window was pinned."""
        pin(nine)
        shutil.copytree(ledger, tmp_path / "copy" / "flights")
        return ledgers.ledger_in(tmp_path / "copy" / "flights")

    @pytest.mark.parametrize(
        "ahead",
        [
            pytest.param(0, id="by the same number"),
            pytest.param(3, id="by a higher one", marks=_OTHER_NUMBERS),
            pytest.param(-1, id="by a lower one", marks=_OTHER_NUMBERS),
        ],
    )
    def test_what_one_has_loaded_the_other_one_neither_replaces_nor_takes_for_its_own(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        pin: Pin,
        nine: Manifest,
        copy: Ledger,
        table_sink: TableSink,
        ahead: int,
    ) -> None:
        window = copy.window(nine.window)
        for _ in range(max(0, ahead)):
            ledgers.begin(copy, window)
        theirs = copy.pinned(window)
        told = replace(pin(nine), manifest_uri=theirs.uri, attempt=ledgers.begin(copy, window), commit=0)
        loaded = PinnedWindow.open(spark, told)
        loaded.write(loaded.read(), table_sink)
        if ahead < 0:
            pin(nine)
        ours = open_window(nine)
        with pytest.raises(LedgerConflictError, match="which this ledger doesn't know: there is a copy of the ledger"):
            ours.write(another(ours.read()), table_sink)
        assert table_sink.rows(spark).where(IS_ANOTHERS).count() == 0

    def test_one_that_outnumbers_the_other_replaces_its_rows(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        pin: Pin,
        nine: Manifest,
        ledger: Path,
        copy: Ledger,
        table_sink: TableSink,
    ) -> None:
        """As ``ledger reload --over`` makes it, of a ledger that was restored from before that attempt."""
        window = copy.window(nine.window)
        number = [ledgers.begin(copy, window) for _ in range(4)][-1]
        told = replace(pin(nine), manifest_uri=copy.pinned(window).uri, attempt=number, commit=0)
        loaded = PinnedWindow.open(spark, told)
        loaded.write(loaded.read(), table_sink)
        (run,) = copy.attempt(nine.window, number).runs()
        outnumber(ledgers.ledger_in(ledger), nine.window, number, run)
        ours = open_window(nine)
        ours.write(another(ours.read()), table_sink)
        assert table_sink.rows(spark).where(IS_ANOTHERS).count() == table_sink.rows(spark).count() > 0

    @pytest.mark.nightly("by a client that notes nothing; the test above has drivers")
    def test_rows_of_a_client_that_noted_nothing_go_by_their_number_alone(
        self, spark: SparkSession, open_window: OpenWindow, nine: Manifest, table_sink: TableSink
    ) -> None:
        """As one of Spark Connect: the ledger can't know it."""
        window = open_window(nine)
        client = attempt_of(window.manifest, driver_of(window).number - 1, is_noted=False)
        write_shown(table_sink, window.read().where("offset < 5"), client)
        publish_rows(open_window(nine), table_sink)
        assert offsets(table_sink.rows(spark)) == NINE
        late = attempt_of(window.manifest, 2**41, is_noted=False)
        write_shown(table_sink, window.read(), late)
        again = open_window(nine, again=True)
        with pytest.raises(CommitConflictError, match="which began after this one"):
            again.write(again.read(), table_sink)
