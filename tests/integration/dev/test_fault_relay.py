"""Finding frames in a stream that comes in any pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from dev.fault_relay.frames import RESPONSE_HEAD, FrameSplitter

BODIES = st.lists(st.binary(min_size=4, max_size=40), max_size=6)
CHUNK_SIZES = st.lists(st.integers(1, 30), min_size=1)


class TestFrameSplitter:
    @given(bodies=BODIES, sizes=CHUNK_SIZES)
    def test_finds_every_frame_and_keeps_every_byte(self, bodies: list[bytes], sizes: list[int]) -> None:
        frames = [len(each).to_bytes(4, "big") + each for each in bodies]
        splitter = FrameSplitter(RESPONSE_HEAD)
        pieces = [piece for chunk in _chunks(b"".join(frames), sizes) for piece in splitter.split(chunk)]
        starts = [index for index, piece in enumerate(pieces) if piece.starts_frame]
        found = [
            b"".join(piece.content for piece in pieces[start:end]) for start, end in pairwise([*starts, len(pieces)])
        ]
        assert found == frames
        assert all(len(pieces[each].content) >= RESPONSE_HEAD.size for each in starts)


def _chunks(stream: bytes, sizes: list[int]) -> list[bytes]:
    """The stream in chunks of these sizes, over and over."""
    chunks = []
    while stream:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(stream[:size])
        stream = stream[size:]
    return chunks
