"""What the conf says of stretches with extreme timestamps."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.spark.kafka.extreme_timestamps import layers, named, text_of


class TestConf:
    @pytest.mark.parametrize("text", ["", "t-0:17", "a.b-c_d-12:40-49", "t-0:1,t-0:3-4,t-1:0,u-0:2"])
    def test_reads_back_as_it_was_written(self, text: str) -> None:
        assert text_of(named(text)) == text

    def test_joins_stretches_that_touch_in_whatever_order(self) -> None:
        told = [LogRange("t", 0, 5, 9), LogRange("t", 1, 9, 10), LogRange("t", 0, 9, 12), LogRange("t", 0, 6, 7)]
        assert text_of(told) == "t-0:5-11,t-1:9"

    @pytest.mark.parametrize("text", ["t", "t-0", "t-0:", "t-0:1-", "t-x:1", "t-0:-5", "t-0:1;t-0:2"])
    def test_something_else_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ConfigurationError, match=r"extremeTimestamps names records as topic-partition:offset"):
            named(text)


class TestLayers:
    """One read by Spark takes one range of a partition."""

    def test_are_one_where_nothing_is_cut_out(self) -> None:
        ranges = [LogRange("t", 0, 0, 9), LogRange("t", 1, 3, 5)]
        assert layers(ranges, []) == [tuple(ranges)]
        assert layers([], []) == []

    def test_are_as_many_as_a_partition_has_pieces(self) -> None:
        ranges = [LogRange("t", 0, 0, 9), LogRange("t", 1, 3, 5), LogRange("t", 1, 7, 9)]
        cuts = [LogRange("t", 0, 2, 4), LogRange("t", 0, 6, 7)]
        assert layers(ranges, cuts) == [
            (LogRange("t", 0, 0, 2), LogRange("t", 1, 3, 5)),
            (LogRange("t", 0, 4, 6), LogRange("t", 1, 7, 9)),
            (LogRange("t", 0, 7, 9),),
        ]
