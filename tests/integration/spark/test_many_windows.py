"""Several windows in one Spark application: several at once, in order, and each for itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerConflictError,
    LedgerCorruptError,
    SparkFailedError,
    UnprovenError,
    WindowsFailedError,
)
from airflow_kafka_offsets.ledger.counted import Counted, counted as counted_by
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.spark import DeltaSink, FileSink, PinnedWindow, load_windows, pinned_window, pinned_windows
from airflow_kafka_offsets.spark.session.conf import BatchWindow, RunConf, batch_to_bytes
from tests.integration.ledger.loads import publish_asked
from tests.integration.spark.conftest import Pin
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import FIVE_MS, manifest_of

COUNT, EACH, MINUTE_MS = 6, 10, 60_000
Batch = Callable[[], list[RunConf]]


def name(number: int) -> str:
    return window_id(FIVE_MS + number * MINUTE_MS, FIVE_MS + (number + 1) * MINUTE_MS)


@pytest.fixture
def told(flights: str, cluster_id: str, pin: Pin) -> list[RunConf]:
    """Windows of ten records each, in order of time, each with an attempt."""
    found = []
    for number in range(COUNT):
        window = manifest_of(
            [(flights, 0, number * EACH, (number + 1) * EACH)],
            start_ms=FIVE_MS + number * MINUTE_MS,
            end_ms=FIVE_MS + (number + 1) * MINUTE_MS,
        )
        found.append(pin(replace(window, cluster_id=cluster_id)))
    return found


@pytest.fixture
def batch(spark: SparkSession, told: list[RunConf], tmp_path: Path) -> Iterator[Path]:
    """The session as it is when these windows were submitted to it; the file that names them."""
    content = batch_to_bytes(
        [BatchWindow(each.manifest_uri, each.sha256, each.attempt or 0, each.commit) for each in told]
    )
    file = tmp_path / "batch.json"
    file.write_bytes(content)
    confs = {"batch": file.as_uri(), "batchSha256": digest(content)} | dict(told[0].kafka)
    for key, value in confs.items():
        spark.conf.set(f"spark.kafkaOffsets.{key}", value)
    yield file
    for key in confs:
        spark.conf.unset(f"spark.kafkaOffsets.{key}")


def counted(ledger: Ledger, number: int) -> list[Counted]:
    """What was counted of a window's only attempt."""
    ledger.read()
    window = ledger.window(name(number))
    return counted_by(ledger, window, window.attempts[-1].number)


@pytest.mark.usefixtures("batch")
class TestAtOnce:
    def test_each_window_is_proved_and_one_that_fails_holds_up_no_other(
        self, spark: SparkSession, our_ledger: Ledger, table: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        def load_one(window: PinnedWindow) -> None:
            rows = window.read()
            window.write(rows.limit(5) if window.manifest.window == name(2) else rows, FileSink(table))
            if window.manifest.window == name(4):
                raise ValueError("what belongs to the window is not done")

        with pytest.raises(WindowsFailedError, match="2 of 6 windows failed; the other 4 did not") as failed:
            load_windows(spark, load_one, at_once=3)
        assert [(each.window, type(each.error)) for each in failed.value.failed] == [
            (name(2), UnprovenError),
            (name(4), ValueError),
        ]
        proved = [number for number in range(COUNT) if any(each.verdict.proved for each in counted(our_ledger, number))]
        assert proved == [0, 1, 3, 5], "what an application failed at after it was proved doesn't count"
        noted = {}
        for number in (2, 4):
            (attempt,) = our_ledger.window(name(number)).attempts
            noted[number] = our_ledger.attempt(name(number), attempt.number).failure()
        assert noted[2] is not None
        assert noted[2].error == UnprovenError.__name__
        assert noted[4] is not None
        assert noted[4].error == SparkFailedError.__name__
        assert "ValueError" in noted[4].message
        assert "not done" not in noted[4].message, "it may be anything"
        said = capfd.readouterr().err
        assert 'raise ValueError("what belongs' in said, "where it happened"
        assert re.search(r"kafka-offsets: 4 of 6 windows done, 2 failed, 40 rows, in ", said)

    def test_windows_that_share_a_table_are_written_in_order_of_time(
        self, spark: SparkSession, our_ledger: Ledger, table: str
    ) -> None:
        load_windows(spark, lambda window: window.write(window.read(), DeltaSink(table)), at_once=COUNT)
        assert all(each.verdict.proved for number in range(COUNT) for each in counted(our_ledger, number))
        rows = spark.read.format("delta").load(table)
        assert {row["window"]: row["count"] for row in rows.groupBy("window").count().collect()} == {
            name(number): EACH for number in range(COUNT)
        }
        history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").orderBy("version").select("userMetadata").collect()
        written = [found[0] for row in history if (found := re.findall(r'"window": "(\w+)"', row[0] or ""))]
        assert written == [name(number) for number in range(COUNT)]

    def test_no_window_at_a_time_makes_no_sense(self, spark: SparkSession) -> None:
        with pytest.raises(ConfigurationError, match="at_once must be 1 or more"):
            load_windows(spark, lambda window: None, at_once=0)


class TestOneAfterAnother:
    def test_a_window_that_can_not_be_opened_is_left_out_and_told_in_the_end(
        self, spark: SparkSession, our_ledger: Ledger, batch: Path, table: str
    ) -> None:
        ledgers.begin(our_ledger, our_ledger.window(name(1)))
        again = ledgers.begin(our_ledger, our_ledger.window(name(1)))
        publish_asked(counted_by_another(our_ledger, name(1), again))
        later: list[str] = []

        def load_all() -> None:
            for window in pinned_windows(spark):
                later.append(window.manifest.window)
                window.write(window.read(), FileSink(table))

        with pytest.raises(WindowsFailedError, match="1 of 6 windows failed") as failed:
            load_all()
        assert later == [name(number) for number in range(COUNT) if number != 1]
        assert isinstance(failed.value.failed[0].error, LedgerConflictError)

    def test_pinned_window_opens_none_of_several(self, spark: SparkSession, batch: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"several windows.*load_windows"):
            pinned_window(spark)

    def test_another_file_is_refused(self, spark: SparkSession, batch: Path) -> None:
        batch.write_bytes(batch.read_bytes().replace(b'"format":1', b'"format": 1'))
        with pytest.raises(LedgerCorruptError, match="was changed: its sha256"):
            next(pinned_windows(spark))
        batch.unlink()
        with pytest.raises(LedgerCorruptError, match="There is no batch"):
            next(pinned_windows(spark))


def counted_by_another(ledger: Ledger, window: str, number: int) -> Counted:
    """What a driver of another attempt has counted."""
    from tests.integration.ledger.loads import store_result
    from tests.integration.ledger.results import result_of

    found = ledger.window(window)
    attempt = found.attempt(number)
    assert attempt is not None
    return store_result(ledger, found, result_of(ledger, found, attempt))
