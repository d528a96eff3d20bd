"""kafka-python's messages, and ours, against frames that Apache Kafka's own classes wrote."""

from __future__ import annotations

import pytest

from tests.unit.client.requests.golden.frames import CLASSES, FOLDER, Frame, encoded, every, frames
from tests.unit.client.requests.golden.words import in_kafkas_words, in_pythons_words

_OLDEST = {"share_group_describe": 1}
"""Where it isn't version 0."""


class TestFiles:
    def test_every_file_is_of_an_api_that_is_tested(self) -> None:
        assert {path.stem for path in FOLDER.glob("*.json")} == CLASSES.keys()

    @pytest.mark.parametrize("api", CLASSES)
    def test_every_version_that_is_spoken_has_its_frames(self, api: str) -> None:
        for kind, message_class in zip(("request", "response"), CLASSES[api], strict=True):
            versions = {frame.version for frame in frames(api, kind)}
            assert versions == set(range(_OLDEST.get(api, 0), message_class.max_version + 1))


class TestClasses:
    """kafka-python's message classes, and those that :mod:`.requests.messages` adds to them."""

    @every([frame for api in CLASSES for frame in frames(api, "response")])
    def test_reads_what_kafka_wrote(self, frame: Frame) -> None:
        response = frame.decode()
        assert response.header.correlation_id == 7
        assert in_kafkas_words(response, frame.fields) == frame.fields

    @every([frame for api in CLASSES for frame in frames(api, "response")])
    def test_reads_to_the_last_byte_and_writes_the_same_again(self, frame: Frame) -> None:
        assert bytes(frame.decode().encode(header=True)).hex() == frame.bytes.hex()

    @every([frame for api in CLASSES for frame in frames(api, "request")])
    def test_writes_what_kafka_writes(self, frame: Frame) -> None:
        fields = in_pythons_words(frame.message_class, frame.fields)
        assert encoded(frame.message_class[frame.version](**fields)).hex() == frame.bytes.hex()
