"""The demo's records. The CSV comes from a package registry, so this needs the network once."""

from __future__ import annotations

import functools
from collections import Counter
from datetime import date, datetime, timedelta

import pytest

from dev import flights
from dev.flights import Flight

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def all_flights() -> list[Flight]:
    return list(flights.flights())


class TestFlights:
    def test_are_336776(self, all_flights: list[Flight]) -> None:
        assert len(all_flights) == flights.FLIGHTS == 336_776

    def test_are_in_order_of_scheduled_departure(self, all_flights: list[Flight]) -> None:
        departures = [flight.scheduled_departure_ms for flight in all_flights]
        assert departures == sorted(departures)

    def test_agree_with_the_hour_that_the_csv_gives_in_utc(self, all_flights: list[Flight]) -> None:
        hour_ms = functools.cache(lambda text: int(datetime.fromisoformat(text).timestamp() * 1000))
        for flight in all_flights:
            assert flight.scheduled_departure_ms // HOUR_MS * HOUR_MS == hour_ms(flight.columns["time_hour"])


class TestCountByUtcDay:
    def test_agrees_with_the_timestamps_of_the_records_and_is_zero_on_a_day_without_any(
        self, all_flights: list[Flight]
    ) -> None:
        since_1970 = Counter(flight.scheduled_departure_ms // (24 * HOUR_MS) for flight in all_flights)
        days = {date(1970, 1, 1) + timedelta(days=each): count for each, count in since_1970.items()}
        none = {date(2012, 12, 31): 0}
        assert flights.count_by_utc_day(days | none) == days | none
