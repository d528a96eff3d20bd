"""The pinned read: exactly the records of a manifest, read by Spark's Kafka source in batch mode.

Spark gets only numbers, built from one set of rows: ``assign`` with the non-empty ranges, so that a partition added
later changes nothing (S17), and a start and an end offset for each, so that a task that runs twice reads the same
(S24).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from itertools import groupby, zip_longest
from operator import attrgetter

from pyspark.sql import DataFrame, Observation, SparkSession, functions as F

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.compat.spark_versions import splits_by_records
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    ExtremeTimestampError,
    LedgerCorruptError,
    WindowError,
)
from airflow_kafka_offsets.offsets.partitions import LogRange, pieces, span_of
from airflow_kafka_offsets.offsets.proof.run_result import UsedSchemas
from airflow_kafka_offsets.offsets.proof.split_plan import SplitPlan, is_small, split_plan
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.offsets.windows.topic_identity import Source
from airflow_kafka_offsets.spark.kafka.clients import KafkaClients, source_of
from airflow_kafka_offsets.spark.kafka.reader import (
    COLUMNS,
    HEADERS,
    exactly,
    first_unreadable,
    is_overflow,
    kafka_source,
    reader_options,
)
from airflow_kafka_offsets.spark.session.conf import ATTEMPT, RunConf
from airflow_kafka_offsets.spark.session.files import files_of
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, cores, hide_options, is_connect
from airflow_kafka_offsets.spark.window.counts import observe
from airflow_kafka_offsets.spark.window.ledger import RunLedger, SharedLog

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
        self.registry_options = conf.registry
        attempt = None if ledger is None else ledger.attempt(manifest)[1]
        self.lost: tuple[LogRange, ...] = () if attempt is None else attempt.lost
        """What Kafka no longer had of the window when the attempt began: it isn't read."""
        self.left = left_of(manifest, self.lost)
        """What is read."""
        self.span = span_of(self.left)
        self.has_driver = not is_connect(spark)
        self.tasks: Sequence[LogRange] = ()
        """The tasks that Spark makes for what :meth:`read` returned last."""
        self._conf = conf
        self._options: Mapping[str, str] = {}
        self._observation: Observation | None = None
        self.is_by_topic = False
        """Whether what :meth:`read` returned last is read topic by topic."""
        self._is_written = False
        self.rows_written = 0
        """How many rows this driver has written and proved, in all outputs."""
        self.turn: Callable[[AbstractSet[str]], AbstractContextManager[None]] | None = None
        """Waits until it may replace rows in some tables, if several windows are loaded at once (:mod:`.windows`)."""
        self.used_schemas: dict[tuple[str, tuple[str, ...]], UsedSchemas] = {}
        """The registered schemas that decode keys and values, by column and subjects."""

    @classmethod
    def open(cls, spark: SparkSession, conf: RunConf, logs: dict[str, SharedLog] | None = None) -> Self:
        """Read the manifest, and what the ledger's log says of the attempt.

        :param logs: as for :class:`.RunLedger`.

        :raises LedgerCorruptError: there is no manifest, or it isn't the one that was pinned.
        :raises LedgerConflictError: the attempt can't be published any more; see :meth:`.RunLedger.attempt`.
        """
        ledger = None if conf.attempt is None else RunLedger(spark, conf.manifest_uri, conf.attempt, conf.commit, logs)
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

    def read(self, *, by_topic: bool = False, **options: str) -> DataFrame:
        """The window's records, with the columns of Spark's Kafka source: key, value, topic, partition, offset,
        timestamp, timestampType, and headers if ``includeHeaders`` is true. What Kafka had lost when the attempt began
        is left out.

        Each action on the frame reads Kafka again (S25). A window without offsets gives a frame without rows, and Kafka
        isn't asked (S6).

        :param by_topic: read each topic on its own, for a sink with ``{topic}`` in its name: then each output's write
            reads its topic alone. Otherwise the window is read once and copied to the executors' disks, which is also
            what happens if offsets may be without a record.
        :param options: more options of Spark's Kafka source; they beat all others. Large ranges are split
            (:meth:`plan`) unless ``minPartitions`` or ``maxRecordsPerPartition`` is given here.
        :raises ConfigurationError: for an option that would change which records are read, and for brokers other than
            those of an earlier read.
        """
        self._observation = None
        self.is_by_topic = by_topic and not self.needs_count
        with self.failures_noted():
            rows = self.frame(options)
            if self.needs_count:
                rows, self._observation = observe(rows, self.manifest)
        return rows

    def plan(self, **options: str) -> SplitPlan:
        """The tasks that Spark makes for the window if :meth:`read` gets the same options.

        :param options: as for :meth:`read`; ``minPartitions="1"`` turns splitting off.
        :raises ConfigurationError: when ``minPartitions`` or ``maxRecordsPerPartition`` isn't a whole number above 0.
        """
        return split_plan(
            self.left,
            bytes_per_record=self._conf.bytes_per_record,
            cores=cores(self.spark),
            options=dict(self._conf.kafka) | options,
            by_records=splits_by_records(self.spark),
        )

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets of the window may be without a record: because the user allows it, or a topic is
        compacted."""
        return self.allow_gaps or any(topic.compacted for topic in self.manifest.topics.values())

    @property
    def needs_count(self) -> bool:
        """Whether the proof of what is written needs the count of what is read. A Spark Connect server may leave the
        count out of its answer, so such a client only reads these windows."""
        return bool(self.span) and self.may_have_gaps and self.has_driver

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
        if not self.left:
            headers = {name.lower(): value for name, value in chosen.items()}.get("includeheaders", "false")
            columns = COLUMNS + (HEADERS if headers.lower() == "true" else "")
            return self.spark.createDataFrame([], columns).coalesce(1)
        return self._read_topics() if self.is_by_topic else self._reads(self.left)

    def _read_topics(self) -> DataFrame:
        """Each topic on its own. Its name stands there as a constant, by which Spark sees what a filter needs not."""
        topics = groupby(self.left, attrgetter("topic"))
        reads = [self._reads(list(ranges)).withColumn("topic", F.lit(topic)) for topic, ranges in topics]
        return reduce(DataFrame.unionAll, reads)

    def _reads(self, ranges: Sequence[LogRange]) -> DataFrame:
        """Spark's source takes one range of a partition; an audit reads several, where it has to look."""
        hide_options(self.spark)
        layers = [list(filter(None, each)) for each in zip_longest(*pieces(ranges).values())]
        with kafka_source(self.spark):
            reader = self.spark.read.format("kafka").options(**self._options)
            return reduce(DataFrame.unionAll, [reader.options(**exactly(layer)).load() for layer in layers])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Explain Spark's errors about the window's records while they are read and written.

        :raises DataLossError: Kafka no longer has all records.
        :raises ExtremeTimestampError: a record has a timestamp that Spark can't read.
        """
        try:
            with kafka_source(self.spark):
                yield
        except JAVA_ERRORS as error:
            explained = self._record_error(error) or _data_loss(self.manifest, error)
            if explained is None:
                raise
            raise explained from error

    def _record_error(self, error: Exception) -> WindowError | None:
        """The error to raise if Spark failed on a record's timestamp; None if its error is about something else."""
        record = first_unreadable(self._reads, self.left) if is_overflow(error) else None
        if record is None:
            return None
        return ExtremeTimestampError(
            f"Window {self.manifest.window} has a record whose timestamp Spark can't read, because it lies more than "
            f"292,000 years from 1970: {record}. Nothing is published. Does a producer write nanoseconds? Once the "
            "record is deleted from Kafka (kafka-delete-records), on_data_loss='load_rest' loads the rest."
        )

    def observation(self) -> Observation:
        """The count of the rows of the last :meth:`read`; refused if nothing was read yet."""
        self._require_read()
        assert self._observation is not None, "a window that needs a count has it"
        return self._observation

    def clients(self) -> KafkaClients:
        """Kafka's own clients for the cluster that :meth:`read` reads; refused if nothing was read yet."""
        self._require_read()
        return KafkaClients(self.spark, self._options)

    def _require_read(self) -> None:
        if not self._options:
            raise ConfigurationError("Call read() first: what is written comes from its rows.")

    def source(self, *, is_read: bool) -> Source | None:
        """Where the records come from, as Kafka says now; refused if nothing was read yet. None if this driver doesn't
        ask: there are no records, or it is a client of Spark Connect, which can't.

        :param is_read: whether they were read by now. An answer from before the read proves nothing.
        :raises TopicChangedError: it is another cluster or topic, or may be.
        :raises UncheckedSourceError: when Kafka can't be asked.
        :raises AuthenticationError: when the brokers refuse the credentials.
        """
        if not (self.span and self.has_driver):
            return None
        outcome = "What was read may be other records; it isn't published." if is_read else "Nothing was read."
        return source_of(self.clients(), self.manifest, outcome)


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
