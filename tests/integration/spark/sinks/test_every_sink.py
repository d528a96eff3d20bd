"""What every sink promises, whatever it is: one specification, run on each."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.spark import Attempt, Sink, Written
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.sinks.conftest import EXPECTED, Holds, publish
from tests.integration.spark.sinks.faults import Died, dying
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of


class TestEverySink:
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

    @pytest.mark.parametrize("moment", ["before its write", "after its write"])
    def test_a_second_attempt_beside_the_first_never_doubles(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds, moment: str
    ) -> None:
        """S22: the first one has begun, and the second one is published before the first one writes, or after."""
        beside = open_window(manifest, "try-2")
        write = sink.write

        def overtaken(rows: DataFrame, attempt: Attempt) -> Written:
            if moment == "after its write":
                written = write(rows, attempt)
            sink.write = write  # type: ignore[method-assign]
            assert publish(beside, sink) == "try-2"
            return written if moment == "after its write" else write(rows, attempt)

        sink.write = overtaken  # type: ignore[method-assign]
        assert publish(open_window(manifest, "try-1"), sink) == "try-2"
        assert holds(sink, manifest) == EXPECTED

    def test_attempts_that_die_at_each_step_leave_what_the_next_one_can_finish(
        self, open_window: OpenWindow, manifest: Manifest, sink: Sink, holds: Holds
    ) -> None:
        """The first dies before its first step, the next one before its second, until one comes through; between steps
        nothing changes. The write of the rows is a step."""
        written = []
        for step in range(12):
            window = open_window(manifest, f"try-{step}")
            with contextlib.suppress(Died), dying(step, sink):
                written.append(publish(window, sink))
                break
        assert step > 3, "the note, the rows, the counts and committed.json are steps"
        assert publish(open_window(manifest, "try-again"), sink) == written[0]
        assert holds(sink, manifest) == EXPECTED
