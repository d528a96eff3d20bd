"""Consumer status: Burrow's rules on a few samples."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.offsets.groups.consumer_status import ConsumerStatus, Sample, judge_partition

OK, BEHIND, STUCK, REWOUND = ConsumerStatus


class TestBurrowsRules:
    @pytest.mark.parametrize(
        ("samples", "status"),
        [
            ([(5, 10)], OK),  # one sample is no while
            ([(0, 10), (10, 10)], OK),  # caught up now
            ([(10, 10), (10, 20)], OK),  # was caught up a while ago: its next commit may be due
            ([(0, 10), (5, 12)], OK),  # getting nearer
            ([(0, 10), (5, 16), (9, 20)], BEHIND),  # commits, and never gets nearer
            ([(0, 10), (0, 12)], STUCK),
            ([(0, 10), (0, 10)], STUCK),  # behind without new records, and not reading
            ([(8, 10), (3, 12)], REWOUND),
            ([(8, 10), (3, 12), (7, 12)], REWOUND),  # not back where it was
        ],
    )
    def test_a_while_of_samples_is_judged(self, samples: list[tuple[int, int]], status: ConsumerStatus) -> None:
        assert judge_partition([Sample(*each) for each in samples]) is status

    def test_a_group_is_as_bad_as_its_worst_partition(self) -> None:
        assert max(OK, STUCK, BEHIND) is STUCK
