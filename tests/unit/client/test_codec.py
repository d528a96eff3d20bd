"""ListOffsets and OffsetFetch as bytes: what Kafka's own classes wrote, in both directions and every version."""

from __future__ import annotations

import doctest
import uuid
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_kafka_offsets.client import codec
from airflow_kafka_offsets.client.codec import LIST_OFFSETS, OFFSET_FETCH, ApiCodec, Header, MessageCodec
from tests.unit.client.requests.golden.frames import Frame, every, frames
from tests.unit.client.requests.golden.words import python_name

CODECS = {"list_offsets": LIST_OFFSETS, "offset_fetch": OFFSET_FETCH}
GOLDEN = [frame for api in CODECS for kind in ("request", "response") for frame in frames(api, kind)]


def codec_of(frame: Frame) -> MessageCodec:
    found: MessageCodec = getattr(CODECS[frame.api], frame.kind)
    return found


def named(value: Any) -> Any:
    """Kafka's JSON with Python's names."""
    if isinstance(value, dict):
        return {python_name(name): named(each) for name, each in value.items()}
    return [named(each) for each in value] if isinstance(value, list) else value


def without_ids(value: Any) -> Any:
    """Topic ids as Kafka's JSON doesn't have them."""
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name != "topic_id"}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


class TestGoldenFrames:
    @every(GOLDEN)
    def test_are_decoded_to_kafkas_fields(self, frame: Frame) -> None:
        decoded = codec_of(frame).decode(frame.bytes, frame.version, header=True)
        assert without_ids(decoded.fields) == without_ids(named(frame.fields))
        assert decoded.header == Header(7, "golden" if frame.kind == "request" else None)

    @every(GOLDEN)
    def test_are_encoded_byte_for_byte(self, frame: Frame) -> None:
        fields = codec_of(frame).decode(frame.bytes, frame.version, header=True).fields
        header = Header(7, "golden" if frame.kind == "request" else None)
        assert codec_of(frame).encode(fields, frame.version, header=header).hex() == frame.bytes.hex()

    @every(GOLDEN)
    def test_that_end_early_or_go_on_are_refused(self, frame: Frame) -> None:
        for flawed in (frame.bytes[:-1], frame.bytes + b"\0"):
            with pytest.raises(ValueError):  # the words differ
                codec_of(frame).decode(flawed, frame.version, header=True)


INT8, INT16 = st.integers(-(2**7), 2**7 - 1), st.integers(-(2**15), 2**15 - 1)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
BY_NAME = {
    "timestamp": INT64, "offset": INT64, "committed_offset": INT64, "isolation_level": INT8, "error_code": INT16,
    "require_stable": st.booleans(), "metadata": st.none() | TEXT, "name": TEXT, "group_id": TEXT,
    "member_id": st.none() | TEXT,
    "topic_id": st.uuids(), "old_style_offsets": st.lists(INT64, max_size=3),
    "partition_indexes": st.lists(INT32, max_size=3),
}  # fmt: skip


def messages(message_class: Any, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any fields of a version; what has no strategy by its name is a number of 32 bits."""
    return st.fixed_dictionaries(
        {
            name: st.lists(messages(field.data_class, version), max_size=3)
            if field.is_struct_array()
            else BY_NAME.get(name, INT32)
            for name, field in message_class.fields.items()
            if field.for_version_q(version)
        }
    )


class TestRoundTrips:
    @pytest.mark.parametrize("kind", ["request", "response"])
    @pytest.mark.parametrize("api", CODECS)
    @given(st.data())
    @settings(max_examples=100)
    def test_any_message_of_any_version_comes_back(self, api: str, kind: str, data: st.DataObject) -> None:
        message: MessageCodec = getattr(CODECS[api], kind)
        version = data.draw(st.sampled_from(message.versions))
        fields = data.draw(messages(message.message_class, version))
        header = Header(data.draw(INT32), data.draw(TEXT) if kind == "request" else None)
        assert message.decode(message.encode(fields, version), version).fields == fields
        again = message.decode(message.encode(fields, version, header=header), version, header=True)
        assert (again.fields, again.header) == (fields, header)


class TestRefusals:
    @pytest.mark.parametrize("api", CODECS.values())
    @pytest.mark.parametrize("version", [-1, 99])
    def test_a_version_that_there_is_none_of(self, api: ApiCodec, version: int) -> None:
        with pytest.raises(ValueError, match="has the versions 0 to"):
            api.request.encode({}, version)
        with pytest.raises(ValueError, match="has the versions 0 to"):
            api.response.decode(b"", version)

    def test_a_field_that_the_version_does_not_have(self) -> None:
        with pytest.raises(ValueError, match="version 1 has no isolation_level here"):
            LIST_OFFSETS.request.encode({"isolation_level": 1, "topics": []}, 1)

    def test_a_value_that_does_not_fit(self) -> None:
        topics = [{"name": "t", "partitions": [{"partition_index": 2**40, "timestamp": -1}]}]
        with pytest.raises(ValueError, match="can't be written"):
            LIST_OFFSETS.request.encode({"topics": topics}, 1)

    def test_a_header_of_another_request(self) -> None:
        frame = OFFSET_FETCH.request.encode({"group_id": "g", "topics": []}, 1, header=Header(1, "me"))
        with pytest.raises(ValueError):  # its body may not fit either
            LIST_OFFSETS.request.decode(frame, 1, header=True)

    def test_topic_ids_may_be_text(self) -> None:
        asked = {"group_id": "g", "topics": [{"topic_id": str(uuid.UUID(int=5)), "partition_indexes": [0]}]}
        frame = OFFSET_FETCH.request.encode({"groups": [asked]}, 10)
        assert OFFSET_FETCH.request.decode(frame, 10).fields["groups"][0]["topics"][0]["topic_id"] == uuid.UUID(int=5)


def test_the_example_is_right() -> None:
    assert doctest.testmod(codec).failed == 0
