"""What a failed load says: from the driver's note, or from the last lines of spark-submit."""

from __future__ import annotations

import json
import textwrap

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.errors import (
    KafkaOffsetsError,
    LedgerCorruptError,
    OffsetsError,
    SparkFailedError,
    StoreFailedError,
    UnprovenError,
    WindowsFailedError,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import MOST_BYTES, FailureNote, exit_line, note_of
from airflow_kafka_offsets.submission.spark_failure import last_words, printed_failure, spark_failure


def kinds_of(kind: type[KafkaOffsetsError]) -> list[type[KafkaOffsetsError]]:
    """A class and all below it."""
    return [kind, *(each for below in kind.__subclasses__() for each in kinds_of(below))]


EVERY_ERROR = [each for each in kinds_of(KafkaOffsetsError) if each.__module__ == errors.__name__]
SOMETIMES = (OffsetsError, WindowsFailedError)
"""Single ones of these may pass, and others not."""


def lines(text: str) -> list[str]:
    """Output as the provider keeps it: each line stripped."""
    return [each.strip() for each in textwrap.dedent(text).splitlines()]


class TestNote:
    def test_it_brings_class_and_message_to_the_task(self) -> None:
        note = FailureNote.from_bytes(note_of(UnprovenError("10 rows of 12\nare there")).to_bytes())
        assert isinstance(note.as_error(), UnprovenError)
        assert str(note.as_error()) == "UnprovenError: 10 rows of 12 are there"
        assert not note.as_error().retriable

    @pytest.mark.parametrize("name", ["OSError", "ResponseError", "shorten", "dataclass", "__doc__", ""])
    def test_a_name_that_does_not_say_whether_the_cause_may_pass_is_tried_again(self, name: str) -> None:
        found = FailureNote(name, "no").as_error()
        assert type(found) is SparkFailedError
        assert found.retriable

    @pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
    def test_each_error_is_tried_again_as_it_says_itself(self, kind: type[KafkaOffsetsError]) -> None:
        """Those that always say no come back as themselves."""
        found = FailureNote(kind.__name__, "no").as_error()
        if kind in SOMETIMES or kind("no").retriable:
            assert type(found) is SparkFailedError
            assert found.retriable
        else:
            assert type(found) is kind
            assert not found.retriable

    def test_one_that_somebody_else_wrote_is_one_short_line_without_control_characters(self) -> None:
        hostile = {"error": "Unproven\x1b[2JError", "message": "a\r\n\x1b]8;;http://x\x07" + "b" * 100_000}
        note = FailureNote.from_bytes(json.dumps(hostile).encode())
        assert note.message.isprintable()
        assert len(note.to_bytes()) < MOST_BYTES
        assert type(note.as_error()) is SparkFailedError

    def test_it_says_when_it_was_noted(self) -> None:
        before_ms = now_ms()
        noted_ms = FailureNote.from_bytes(note_of(UnprovenError("no")).to_bytes()).noted_ms
        assert noted_ms is not None
        assert before_ms <= noted_ms <= now_ms()

    @pytest.mark.parametrize("noted", [{}, {"noted_ms": None}, {"noted_ms": "soon"}, {"noted_ms": True}])
    def test_one_of_an_earlier_version_or_of_somebody_else_does_not(self, noted: dict[str, object]) -> None:
        found = FailureNote.from_bytes(json.dumps({"error": "E", "message": "no"} | noted).encode())
        assert found == FailureNote("E", "no", None)

    def test_a_message_of_any_letters_fits(self) -> None:
        assert len(note_of(UnprovenError("\U0001f600" * 10_000)).to_bytes()) > MOST_BYTES // 4
        assert len(note_of(UnprovenError("\U0001f600" * 10_000)).to_bytes()) <= MOST_BYTES

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"error": "E"}'])
    def test_another_file_is_corrupt(self, content: bytes) -> None:
        with pytest.raises(LedgerCorruptError):
            FailureNote.from_bytes(content)


class TestOutput:
    def test_the_ready_made_loads_last_line_is_found_before_sparks_shutdown(self) -> None:
        output = [
            exit_line(LedgerCorruptError("The manifest\nhas another hash.")),
            "26/11/22 20:54:55 INFO SparkContext: SparkContext is stopping with exitCode 0.",
        ]
        assert printed_failure(output) == FailureNote("LedgerCorruptError", "The manifest has another hash.")

    def test_of_the_ready_made_loads_last_line_nothing_else_is_said_when_another_try_makes_sense(
        self,
    ) -> None:
        output = [
            'Setting Spark log level to "WARN".',
            "WARN Utils: Service 'SparkUI' could not bind on port 4040. Attempting port 4041.",
            exit_line(StoreFailedError("Reading s3://lake/manifest.json failed: connection refused.")),
        ]
        found = spark_failure(output, AirflowException("Cannot execute: x. Error code is: 1."))
        assert type(found) is SparkFailedError
        assert str(found) == "StoreFailedError: Reading s3://lake/manifest.json failed: connection refused."

    @pytest.mark.parametrize("line", ["ConfigurationError: No broker is named.", exit_line(OSError("x"))[:-1], ""])
    def test_any_other_line_is_none_of_its(self, line: str) -> None:
        """Only with its mark, and naming an error."""
        assert printed_failure([line.removeprefix("kafka-offsets-load: ")]) is None

    def test_a_traceback_gives_its_exception_and_place(self) -> None:
        output = lines("""
            Traceback (most recent call last):
              File "/jobs/load.py", line 20, in <module>
                main()
                ~~~~^^
              File "/jobs/load.py", line 14, in main
                raise ValueError(name)
            ValueError: no carrier: XX
            26/11/22 20:54:55 INFO ShutdownHookManager: Shutdown hook called
        """)
        assert last_words(output) == 'ValueError: no carrier: XX (File "/jobs/load.py", line 14, in main).'

    def test_an_exception_of_java_keeps_what_java_said(self) -> None:
        output = lines("""
            Traceback (most recent call last):
              File "/spark/python/py4j/protocol.py", line 327, in get_return_value
                raise Py4JJavaError(
            py4j.protocol.Py4JJavaError: An error occurred while calling o42.save.
            : org.apache.spark.SparkException: Job aborted due to stage failure
            \tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
        """)
        assert "calling o42.save. : org.apache.spark.SparkException: Job aborted" in last_words(output)

    def test_java_alone_gives_its_exception(self) -> None:
        output = lines("""
            Exception in thread "main" org.apache.spark.SparkException: Master must start with yarn, spark, or local
            \tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1057)
        """)
        assert last_words(output) == "org.apache.spark.SparkException: Master must start with yarn, spark, or local."

    def test_anything_else_gives_the_last_lines(self) -> None:
        assert last_words(["a", "", "b"]) == "a / b."
        assert last_words(["It failed."]) == "It failed."
        assert last_words([]) == "nothing was printed."
