"""What a failed load says: from the driver's note, or from the last lines of spark-submit."""

from __future__ import annotations

import json
import textwrap

import pytest

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    ExclusiveCreateError,
    KafkaOffsetsError,
    LedgerConflictError,
    LedgerCorruptError,
    SparkFailedError,
    UnprovenError,
)
from airflow_kafka_offsets.offsets.failure import MOST_BYTES, FailureNote, note_of
from airflow_kafka_offsets.operators.spark_failure import last_words, printed_failure


def lines(text: str) -> list[str]:
    """Output as the provider keeps it: each line stripped."""
    return [each.strip() for each in textwrap.dedent(text).splitlines()]


class TestNote:
    def test_it_brings_class_and_message_to_the_task(self) -> None:
        note = FailureNote.from_bytes(note_of(UnprovenError("10 rows of 12\nare there")).to_bytes())
        assert isinstance(note.as_error(), UnprovenError)
        assert str(note.as_error()) == "UnprovenError: 10 rows of 12 are there"
        assert not note.as_error().retriable

    @pytest.mark.parametrize(
        "name", ["OSError", "LedgerError", "OffsetsError", "KafkaOffsetsError", "shorten", "dataclass", "__doc__", ""]
    )
    def test_a_name_that_does_not_say_whether_the_cause_may_pass_is_tried_again(self, name: str) -> None:
        found = FailureNote(name, "no").as_error()
        assert type(found) is SparkFailedError
        assert found.retriable

    @pytest.mark.parametrize("kind", [ConfigurationError, DataLossError, LedgerConflictError, ExclusiveCreateError])
    def test_an_error_that_does_not_pass_comes_back_as_itself(self, kind: type[KafkaOffsetsError]) -> None:
        found = FailureNote(kind.__name__, "no").as_error()
        assert type(found) is kind
        assert not found.retriable

    def test_one_that_somebody_else_wrote_is_one_short_line_without_control_characters(self) -> None:
        hostile = {"error": "Unproven\x1b[2JError", "message": "a\r\n\x1b]8;;http://x\x07" + "b" * 100_000}
        note = FailureNote.from_bytes(json.dumps(hostile).encode())
        assert note.message.isprintable()
        assert len(note.to_bytes()) < MOST_BYTES
        assert type(note.as_error()) is SparkFailedError

    def test_a_message_of_any_letters_fits(self) -> None:
        assert len(note_of(UnprovenError("\U0001f600" * 10_000)).to_bytes()) > MOST_BYTES // 4
        assert len(note_of(UnprovenError("\U0001f600" * 10_000)).to_bytes()) <= MOST_BYTES

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"error": "E"}'])
    def test_another_file_is_corrupt(self, content: bytes) -> None:
        with pytest.raises(LedgerCorruptError):
            FailureNote.from_bytes(content)


class TestOutput:
    def test_an_error_of_ours_is_found_before_sparks_shutdown(self) -> None:
        output = lines("""
            LedgerCorruptError: The manifest has another hash.
            26/11/22 20:54:55 INFO SparkContext: SparkContext is stopping with exitCode 0.
        """)
        assert printed_failure(output) == FailureNote("LedgerCorruptError", "The manifest has another hash.")

    def test_so_is_one_in_a_traceback(self) -> None:
        output = ["airflow_kafka_offsets.errors.ConfigurationError: No broker is named."]
        assert printed_failure(output) == FailureNote("ConfigurationError", "No broker is named.")

    def test_another_ones_is_not_ours(self) -> None:
        assert printed_failure(["ValueError: x", "py4j.protocol.Py4JError: y", "LedgerError: store away"]) is None

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
        assert last_words([]) == "nothing was printed."
