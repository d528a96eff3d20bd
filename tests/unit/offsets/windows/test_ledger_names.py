"""What the names in a ledger say of its windows."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import IntervalError
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window, window_extent, window_id

FIVE_MS, SIX_MS, SEVEN_MS = 1_795_237_200_000, 1_795_240_800_000, 1_795_244_400_000
FIVE, SIX = "20261121T050000000Z_20261121T060000000Z", "20261121T060000000Z_20261121T070000000Z"


class TestWindows:
    def test_a_window_is_named_by_its_ends(self) -> None:
        assert window_id(FIVE_MS, SIX_MS) == FIVE
        assert window_extent(SIX) == (SIX_MS, SEVEN_MS)

    @pytest.mark.parametrize("end_ms", [FIVE_MS, FIVE_MS - 1])
    def test_an_empty_or_inverted_window_has_no_name(self, end_ms: int) -> None:
        with pytest.raises(IntervalError, match="an end after its start"):
            window_id(FIVE_MS, end_ms)

    @pytest.mark.parametrize(
        "name",
        [
            "20269999T999999999Z_20261199T999999999Z",
            "20261121T050000000Z_20260231T060000000Z",
            f"{FIVE[:20]}{FIVE[:19]}",
            f"{FIVE[20:]}_{FIVE[:19]}",
            FIVE.replace("2026", "\u0662\u0660\u0662\u0666"),
            f"{FIVE}.r2",
            f"{FIVE}\n",
            "",
        ],
    )
    def test_what_no_two_instants_give_is_no_windows_name(self, name: str) -> None:
        assert not is_window(name)
        assert is_window(FIVE)
