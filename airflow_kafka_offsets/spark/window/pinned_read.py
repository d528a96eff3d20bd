"""The pinned read: exactly the records of a manifest, read by Spark's Kafka source in batch mode.

Spark gets only numbers, built from one set of rows: ``assign`` with the non-empty ranges, so that a partition added
later changes nothing (S17), and a start and an end offset for each, so that a task that runs twice reads the same
(S24).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.compat.spark_versions import splits_by_records
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    LedgerCorruptError,
    UnprovenError,
    WindowError,
)
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.left import left_of, span_of
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.offsets.proof.split_plan import SplitPlan, is_small, split_plan
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.kafka import extreme_timestamps as extreme
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.reader import (
    connector_required,
    cores,
    exactly,
    give_back_soon,
    hide_options,
    newer_source,
    reader_options,
)
from airflow_kafka_offsets.spark.kafka.source_check import SourceCheck
from airflow_kafka_offsets.spark.session.conf import ATTEMPT, EXTREME_TIMESTAMPS, RunConf
from airflow_kafka_offsets.spark.session.files import files_of
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, is_connect, require_driver
from airflow_kafka_offsets.spark.window.ledger import RunLedger
from airflow_kafka_offsets.spark.window.tally import UNREAD, ObservedRows, observe

_DATA_LOSS = ("KAFKA_DATA_LOSS", "Could not read records in offset")
"""How Spark says that an executor could not read a range: an error class in streaming, plain words in batch."""


class PinnedRead:
    """A window that a Spark session can read.

    :param ledger: the ledger as this driver of an attempt sees it; None for a session that may only read.
    """

    def __init__(self, spark: SparkSession, manifest: Manifest, conf: RunConf, ledger: RunLedger | None = None) -> None:
        self.spark = spark
        self.manifest = manifest
        self.ledger = ledger
        self.allow_gaps = conf.allow_gaps
        self.note_key = conf.note_key
        window, attempt = (None, None) if ledger is None else ledger.attempt(manifest)
        self.window: Window | None = window
        """The window as the ledger's log had it when this was opened."""
        self.lost: tuple[LogRange, ...] = () if attempt is None else attempt.lost
        """What Kafka no longer had of the window when the attempt began: it isn't read."""
        self.left = left_of(manifest, self.lost)
        """What is read."""
        self.span = span_of(self.left)
        self.proved_read: Tally | None = None
        """What :meth:`write` found was read, by this driver or by the one that is published."""
        self.tasks: Sequence[LogRange] = ()
        """The tasks that Spark makes for what :meth:`read` returned last."""
        self._conf = conf
        self._named = extreme.named(conf.extreme_timestamps)
        self._read_by_driver = extreme.within(self._named, self.left)
        self._layers = extreme.layers(self.left, self._read_by_driver)
        self._options: Mapping[str, str] = {}
        self._observed: ObservedRows | None = None
        self._is_written = False

    @classmethod
    def open(cls, spark: SparkSession, conf: RunConf) -> Self:
        """Read the manifest, and what the ledger's log says of the attempt.

        :raises LedgerCorruptError: there is no manifest, or it isn't the one that was pinned.
        :raises LedgerConflictError: the attempt can't be published any more; see :meth:`.RunLedger.attempt`.
        """
        ledger = None if conf.attempt is None else RunLedger(spark, conf.manifest_uri, conf.attempt, conf.commit)
        with nullcontext() if ledger is None else ledger.failures_noted():
            content = files_of(spark).read(conf.manifest_uri)
            if content is None:
                raise LedgerCorruptError(f"There is no manifest at {conf.manifest_uri}.")
            return cls(spark, Manifest.from_bytes(content, conf.sha256), conf, ledger)

    def begin_write(self) -> RunLedger:
        """The ledger, for this driver's only write.

        :raises ConfigurationError: the session has no attempt, or has written the window before.
        """
        if self.ledger is None:
            raise ConfigurationError(
                f"This session may read window {self.manifest.window}, but not write it, because it has no attempt at "
                f"it: the conf {ATTEMPT} isn't set. KafkaPrepareLoadOperator begins one, and so does kafka-offsets "
                f"ledger begin {self.manifest.pipeline} {self.manifest.window}, which says what to set."
            )
        if self._is_written:
            raise ConfigurationError(
                f"Window {self.manifest.window} was written before with this object: a driver writes it once. Open it "
                "again (pinned_window) to write it again."
            )
        self._is_written = True
        return self.ledger

    def failures_noted(self) -> AbstractContextManager[None]:
        """See :meth:`.RunLedger.failures_noted`; a session without an attempt notes nothing."""
        return nullcontext() if self.ledger is None else self.ledger.failures_noted()

    def read(self, *, counted: bool = False, **options: str) -> DataFrame:
        """The window's records, with the columns of Spark's Kafka source: key, value, topic, partition, offset,
        timestamp, timestampType, and headers if ``includeHeaders`` is true. What Kafka had lost when the attempt began
        is left out.

        Each action on the frame reads Kafka again (S25). A window without offsets gives a frame without rows, and Kafka
        isn't asked (S6).

        :param counted: count the records in the first action, as they pass, for :attr:`audit`. They are always counted
            if :meth:`write` needs it: if offsets may be without a record.
        :param options: more options of Spark's Kafka source; they beat all others. Large ranges are split
            (:meth:`plan`) unless ``minPartitions`` or ``maxRecordsPerPartition`` is given here.
        :raises ConfigurationError: for an option that would change which records are read, and for brokers other than
            those of an earlier read.
        """
        self._observed = None
        with self.failures_noted():
            rows = self.frame(options)
            if counted or self.needs_count:
                self._observed = observe(rows, self.manifest, self.left, may_have_gaps=self.may_have_gaps)
                rows = self._observed.rows
        return rows

    def plan(self, **options: str) -> SplitPlan:
        """The tasks that Spark makes for the window if :meth:`read` gets the same options; print it to see a table.
        Each range that the driver reads itself is one task.

        :param options: as for :meth:`read`; ``minPartitions="1"`` turns splitting off.
        :raises ConfigurationError: when ``minPartitions`` or ``maxRecordsPerPartition`` isn't a whole number above 0.
        """
        whole = split_plan(
            self.left,
            bytes_per_record=self._conf.bytes_per_record,
            cores=cores(self.spark),
            options=dict(self._conf.kafka) | options,
            by_records=splits_by_records(self.spark),
        )
        if not self._read_by_driver and len(self._layers) < 2:
            return whole
        # Spark splits each layer separately, with the same options.
        split = (task for layer in self._layers for task in split_plan(layer, options=whole.options).tasks)
        return replace(whole, tasks=(*split, *self._read_by_driver))

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets of the window may be without a record: because the user allows it, or a topic is
        compacted."""
        return self.allow_gaps or any(topic.compacted for topic in self.manifest.topics.values())

    @property
    def needs_count(self) -> bool:
        """Whether the proof of what is written needs the count of what is read. A Spark Connect server may leave the
        count out of its answer."""
        return bool(self.span) and self.may_have_gaps and not is_connect(self.spark)

    @property
    def may_be_split(self) -> bool:
        """Whether a split plan may divide the window, as far as anybody knows: if it is smaller than the smallest task,
        its plan needs no size of a record, and neither does that of the next window like it."""
        return not is_small(self.span, self._conf.bytes_per_record)

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """The window's records, not counted; options as for :meth:`read`."""
        plan = self.plan(**options)
        chosen = reader_options(self.manifest, self._conf.kafka, dict(plan.options) | dict(options))
        before, now = _brokers(self._options), _brokers(chosen)
        if self._options and before != now:
            raise ConfigurationError(
                f"This window was read from {before}, and now it is to be read from {now}: the proof asks one cluster "
                "where the rows came from. Open the window again to read it from another address."
            )
        self._options = chosen
        self.tasks = plan.tasks
        return self.again()

    def again(self) -> DataFrame:
        """The same records as :meth:`frame` returned last, with another read of Kafka."""
        frames = [self._spark_reads(layer) for layer in self._layers]
        if self._read_by_driver or not frames:
            frames += self._driver_reads()
        return reduce(DataFrame.unionAll, frames)

    def _spark_reads(self, ranges: Sequence[LogRange]) -> DataFrame:
        give_back_soon(self.spark)
        hide_options(self.spark)
        with newer_source(self.spark), connector_required(self.spark):
            return self.spark.read.format("kafka").options(**self._options, **exactly(ranges)).load()

    def _driver_reads(self) -> list[DataFrame]:
        """A frame with one task for each range that the driver reads; a single frame without rows if there are none."""
        given = {name.lower(): value for name, value in self._options.items()}
        headers = given.get("includeheaders", "false").lower() == "true"
        columns = extreme.columns(headers)
        if not self._read_by_driver:
            return [self.spark.createDataFrame([], columns).coalesce(1)]
        require_driver(self.spark, f"Reading the records of the conf {EXTREME_TIMESTAMPS}")
        if self.window is not None and self.window.loaded is not None:
            return [self._unasked(columns)]
        rows = extreme.DriverRows(self.spark, self.clients(), headers)
        return [rows.frame(stretch) for stretch in self._read_by_driver]

    def _unasked(self, columns: str) -> DataFrame:
        """A stand-in for the records of a published window that the driver would read: retention may have removed them,
        and :meth:`write` needs no rows. Anything else that runs on them fails."""
        why = (
            f"Window {self.manifest.window} is published, so the records of the conf {EXTREME_TIMESTAMPS} "
            "weren't read again: take its rows from read_published()."
        )
        row = self.spark.createDataFrame([()], "")
        schema = self.spark.createDataFrame([], columns).schema
        return row.select(*(F.raise_error(why).cast(field.dataType).alias(field.name) for field in schema)).coalesce(1)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Explain Spark's errors about the window's records while they are read and written.

        :raises DataLossError: Kafka no longer has all records.
        :raises ExtremeTimestampError: a record has a timestamp that Spark can't read.
        """
        try:
            with newer_source(self.spark), connector_required(self.spark):
                yield
        except JAVA_ERRORS as error:
            explained = self._record_error(error) or _data_loss(self.manifest, error)
            if explained is None:
                raise
            raise explained from error

    def _record_error(self, error: Exception) -> WindowError | None:
        """The error to raise if Spark failed on the records' timestamps; None if its error is about something else."""
        if not extreme.is_overflow(error) or is_connect(self.spark):
            return None
        left = chain.from_iterable(self._layers)
        return extreme.extreme_timestamp_error(
            self._spark_reads, self.clients(), self.manifest.window, left, more=bool(self._named)
        )

    @property
    def audit(self) -> Tally:
        """What was read, summed up by the action on the frame that :meth:`read` returned last. If :meth:`write` found
        this attempt published, and so read nothing, it is what the published driver read.

        Kafka is then asked whether it still has the topics that were resolved, which proves that these were read. A
        Spark Connect client can't ask: only ``KafkaVerifyWindowOperator`` can check that later.

        :raises ConfigurationError: when nothing was read yet, or it wasn't counted.
        :raises UnprovenError: when no action has read the rows.
        :raises KafkaOffsetsError: as :meth:`~airflow_kafka_offsets.spark.kafka.source_check.SourceCheck.after`.
        """
        if self.proved_read is not None:
            return self.proved_read
        found = self.observed().found() if self.span else Tally()
        if found is None:
            raise UnprovenError(UNREAD)
        if self.span and not is_connect(self.spark):
            self.source_check().after()
        return found

    def observed(self) -> ObservedRows:
        """The rows of the last :meth:`read` and their count; refused if there is none."""
        if not self._options:
            raise ConfigurationError("There is nothing to audit: call read() first, and write its rows.")
        if self._observed is None:
            raise ConfigurationError(
                "This window's read isn't counted, because what write() has written proves it. To audit rows that go "
                "elsewhere, have them counted: read(counted=True)."
            )
        return self._observed

    def clients(self) -> KafkaClients:
        """Kafka's own clients for the cluster that :meth:`read` reads."""
        return KafkaClients(self.spark, self._options)

    def require_read(self) -> None:
        """Refuse if nothing was read yet."""
        if not self._options:
            raise ConfigurationError("Call read() first: what is written comes from its rows.")

    def source_check(self) -> SourceCheck:
        """A check of the Kafka cluster that :meth:`read` reads; refused if nothing was read yet."""
        self.require_read()
        return SourceCheck(self.spark, self.manifest, self._options)


def _brokers(options: Mapping[str, str]) -> str | None:
    return {name.lower(): value for name, value in options.items()}.get("kafka.bootstrap.servers")


def _data_loss(manifest: Manifest, error: Exception) -> DataLossError | None:
    """What to raise if Spark says that records are missing from Kafka; None if its error says something else."""
    lines = (line.strip() for line in str(error).splitlines())
    said = next((line for line in lines if any(words in line for words in _DATA_LOSS)), None)
    if said is None:
        return None
    return DataLossError(
        f"Kafka no longer has every record of window {manifest.window}: retention, DeleteRecords or a "
        f"truncation removed some after it was resolved. Nothing is published. Spark said: {said}"
    )
