"""Decoders: generated for every message and version of kafka-python, with a bound on the numbers in them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from airflow_kafka_offsets.client.connection.kafka_python import Framed, _decoder
from airflow_kafka_offsets.client.requests import messages as own


def messages() -> Iterator[Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if not module.name.rpartition(".")[2].startswith("generate"):
            importlib.import_module(module.name)
    for message in ApiMessage.__subclasses__():
        if message._class_version is None and message.max_version is not None:
            yield message


OWN = [each.response_class for name, each in vars(own).items() if name.endswith("Request")]
MESSAGES = [*sorted(messages(), key=lambda message: str(message.name)), *OWN]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message.name))
def test_one_is_made_of_every_version(message: Any) -> None:
    for version in range(message.max_version + 1):
        assert callable(_decoder(message, version))


def test_a_single_message_is_not_decoded_by_its_schema_alone() -> None:
    assert [message for message in MESSAGES if "decode" in vars(message)] == [ApiVersionsResponse]


@pytest.mark.parametrize("version", range(1, ApiVersionsRequest.max_version + 1))
def test_a_version_that_a_broker_does_not_know_is_told_in_version_0(version: int) -> None:
    request = ApiVersionsRequest(version=version)
    request.with_header()
    answer = ApiVersionsResponse(version=0, error_code=35, api_keys=[]).encode()
    decoded = Framed(request).get_response_class().decode(BytesIO(answer))
    assert (decoded.error_code, decoded.api_keys) == (35, [])
