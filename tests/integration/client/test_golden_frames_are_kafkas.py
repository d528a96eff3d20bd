"""The golden frames of the unit tests, made anew by Apache Kafka's own classes."""

from __future__ import annotations

from dev.golden_frames import differing_files


class TestGoldenFrames:
    def test_are_what_kafkas_own_classes_write(self) -> None:
        """A file named here was edited by hand, or its messages changed: run ``python -m dev.golden_frames``."""
        assert differing_files() == []
