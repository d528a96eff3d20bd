"""What kafka-python logs of this client's own threads: nothing, as every failure comes back to the caller."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport


def test_work_that_takes_its_time_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """As decoding the lag of a thousand groups does. kafka-python warns of what blocks its loop for 0.1 s."""

    async def decode() -> str:
        time.sleep(0.3)
        return "decoded"

    with closing(Transport(ClientSettings.from_config({"bootstrap.servers": "127.0.0.1:1"}), 1)) as transport:
        assert transport.run(decode, Deadline.after(5)) == "decoded"
    assert caplog.messages == []
