"""New data: in words."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


class TestWords:
    @pytest.mark.parametrize("source", ["the log starts", "snapshot 7 as of latest", "the end of window w"])
    def test_what_it_counts_from_brings_its_own_article(self, source: str) -> None:
        since = FixedOffsets.of(source, [SeenOffset("t", 0, 5)])
        assert NewData(("t",), since).awaited == f"a record has arrived since {source}"
        assert OffsetsReached("g", since).awaited == f"the group has committed up to {source}"
