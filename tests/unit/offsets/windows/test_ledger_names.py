"""What the names in a ledger say of its windows."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import IntervalError
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    forgotten_marker,
    is_month,
    is_window,
    last_publications,
    live_revisions,
    month_of,
    published_again_marker,
    revision_folder,
    revisions_of,
    window_extent,
    window_id,
)

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

    def test_it_lies_in_the_folder_of_its_starts_month(self) -> None:
        assert month_of(FIVE) == "202611"
        assert is_month("202611")
        assert not is_month(FIVE)

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


class TestRevisions:
    NAMES = (
        SIX,
        f"{SIX}.r2",
        f"{FIVE}.r10",
        f"{FIVE}.r9",
        FIVE,
        f"{FIVE}.r9.forgotten",
        f"{FIVE}.p2",
        f"{FIVE}.p10",
        ".draft.0a1b",
        "notes.txt",
    )

    def test_the_first_one_has_the_windows_name_and_later_ones_a_number(self) -> None:
        assert [revision_folder(FIVE, number) for number in (1, 2, 10)] == [FIVE, f"{FIVE}.r2", f"{FIVE}.r10"]

    def test_all_are_found_in_order_of_their_numbers_whatever_else_lies_there(self) -> None:
        assert revisions_of(self.NAMES) == {FIVE: [1, 9, 10], SIX: [1, 2]}

    def test_folders_that_are_named_by_no_instants_are_none_of_them(self) -> None:
        stray = "20269999T999999999Z_20261199T999999999Z"
        names = [*self.NAMES, stray, f"{stray}.r2", f"{stray}.r2.forgotten", f"{stray}.p2"]
        assert revisions_of(names) == revisions_of(self.NAMES)
        assert live_revisions(names) == live_revisions(self.NAMES)
        assert last_publications(names) == last_publications(self.NAMES)

    def test_those_that_are_not_forgotten_count_by_window_in_order_of_time(self) -> None:
        assert list(live_revisions(self.NAMES).items()) == [(FIVE, [1, 10]), (SIX, [1, 2])]

    def test_a_window_may_have_as_many_publications_as_markers_tell(self) -> None:
        assert last_publications(self.NAMES) == {FIVE: 10}
        assert published_again_marker(FIVE, 10) in self.NAMES

    def test_a_window_of_which_all_are_forgotten_is_absent(self) -> None:
        markers = [forgotten_marker(SIX, number) for number in (1, 2)]

        assert live_revisions([*self.NAMES, *markers]).keys() == {FIVE}
