"""The chart of a topic's offsets: its lines, its cursor, its zoom, and the same numbers as a table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from airflow.sdk import ObjectStoragePath
from playwright.sync_api import Page, expect

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from dev.airflow_services import AirflowServices
from tests.integration.ledger.loads import load, pin
from tests.integration.page.browser.conftest import Open
from tests.integration.page.browser.orders import HOURS, offset_at
from tests.patience import wait_until
from tests.unit.offsets.builders import HOUR_MS, T0 as BACKFILLED_MS, snapshot

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def backfilled(airflow_services: AirflowServices) -> str:
    """Three hours, resolved a year after they were."""
    ledger = Ledger(ObjectStoragePath((airflow_services.home / "ledger").as_uri()), "backfilled")
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    for hour in range(3):
        load(ledger, hour)
    return ledger.pipeline


@pytest.fixture(scope="module")
def huge(airflow_services: AirflowServices) -> str:
    """An hour whose last offset is the first one that no JavaScript number holds: 2^53 + 1."""
    ledger = Ledger(ObjectStoragePath((airflow_services.home / "ledger").as_uri()), "huge")
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    pin(ledger, *(snapshot_at(hour, 2**53 - 9 + 10 * hour) for hour in (0, 1)))
    return ledger.pipeline


def snapshot_at(hour: int, offset: int) -> OffsetSnapshot:
    taken = snapshot(
        {0: offset}, at_ms=BACKFILLED_MS + hour * HOUR_MS, resolved_at_ms=BACKFILLED_MS + (hour + 1) * HOUR_MS
    )
    log_start_offset = 2**53 - 9 if offset > 2**52 else 0
    ends = {"log_start_offset": log_start_offset, "high_watermark": offset, "last_stable_offset": offset}
    boundaries = {key: replace(each, **ends) for key, each in taken.boundaries.items()}
    return replace(taken, boundaries=boundaries)


_CHART_FILLS_ITS_FRAME = "document.querySelector('.uplot').clientWidth == document.querySelector('.frame').clientWidth"


def test_lag_is_told_in_offsets_and_in_time_with_its_trend(open_page: Open) -> None:
    """The log's end was seen a minute after the last hour, of which nothing is published yet; the hour before is."""
    panel = open_page("p/orders/t/orders").locator("section.panel")
    hour = sum(offset_at(partition, HOURS) - offset_at(partition, HOURS - 1) for partition in range(12))
    expect(panel).to_contain_text("the newest loaded one had ended 61 minutes before")
    expect(panel).to_contain_text("looked up 60 seconds after it had passed; usually it takes 60 seconds")
    expect(panel).to_contain_text(f"{hour / 3600:.3g} offsets/s")


@pytest.mark.nightly("a ledger of its own in the browser; the other tests show the chart")
def test_a_backfill_of_long_ago_has_the_width_of_the_chart(open_page: Open, backfilled: str) -> None:
    page = open_page(f"p/{backfilled}/t/t")
    for third in range(3):
        point_at(page, (third + 0.5) / 3)
        start, end = (iso_instant(BACKFILLED_MS + each * HOUR_MS)[11:16] for each in (third, third + 1))
        expect(page.locator(".charts .pointed")).to_contain_text(f"{start} to {end}, verified")


def test_the_cursor_says_all_values_at_a_moment_by_mouse_and_by_keyboard(open_page: Open) -> None:
    page = open_page("p/orders/t/orders")
    values = page.locator(".lines label")
    newest = sum(offset_at(partition, HOURS) + 60 for partition in range(12))
    expect(values.filter(has_text="Log end")).to_contain_text(f"{newest:,}")
    point_at(page, 0.5)
    said = page.locator(".charts .pointed")
    expect(said).to_contain_text(re.compile("^Seen .*offsets/s written.*Cursor: window "))
    expect(values.filter(has_text="Log end")).not_to_contain_text(f"{newest:,}")
    page.mouse.move(0, 0)
    page.locator(".u-over").first.focus()
    page.keyboard.press("Home")
    first = sum(offset_at(partition, 0) + 60 for partition in range(12))
    expect(values.filter(has_text="Log end")).to_contain_text(f"{first:,}")
    expect(values.filter(has_text="Not loaded, offsets")).to_contain_text("unknown")
    page.keyboard.press("End")
    expect(values.filter(has_text="Log end")).to_contain_text(f"{newest:,}")
    expect(values.filter(has_text="Newest loaded")).to_contain_text("61 minutes")


@pytest.mark.nightly("one more thing to do on a screen that the tests beside it show")
def test_a_drag_zooms_both_charts_and_a_button_leads_back(open_page: Open) -> None:
    page = open_page("p/orders/t/orders")
    back = page.get_by_role("button", name="Whole time")
    expect(back).to_be_disabled()
    whole = [drawing(page, place) for place in (0, 1)]
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(back).to_be_enabled()
    assert "/w/" not in page.url, "the end of a drag is no click"
    zoomed = [drawing(page, place) for place in (0, 1)]
    assert all(one != other for one, other in zip(whole, zoomed, strict=True))
    back.click()
    expect(back).to_be_disabled()
    page.mouse.move(0, 0)
    expect(page.locator(".charts .pointed")).to_contain_text("Last seen")
    assert [drawing(page, place) for place in (0, 1)] == whole


@pytest.mark.nightly("one more thing to do on a screen that the tests beside it show")
def test_a_line_can_be_switched_off(open_page: Open) -> None:
    page = open_page("p/orders/t/orders")
    whole = drawing(page, 0)
    page.get_by_label("Log end").uncheck()
    assert drawing(page, 0) != whole
    page.get_by_label("Log end").check()
    assert drawing(page, 0) == whole


@pytest.mark.nightly("one more thing to do on a screen that the tests beside it show")
def test_a_click_on_a_band_opens_its_window(open_page: Open) -> None:
    page = open_page("p/orders/t/orders")
    point_at(page, 0.5)
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("section.panel h2")).to_contain_text(" to ")


@pytest.mark.nightly("one more thing to do on a screen that the tests beside it show")
def test_a_narrower_window_keeps_it_inside_and_what_is_below_in_its_place(open_page: Open) -> None:
    page = open_page("p/orders/t/orders")
    height = page.locator(".frame").first.bounding_box()
    for width in (390, 2560, 700):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(".frame canvas").first).to_be_visible()
        wait_until(lambda: page.evaluate(_CHART_FILLS_ITS_FRAME), "the chart fills its frame")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        now = page.locator(".frame").first.bounding_box()
        assert now is not None
        assert height is not None
        assert now["height"] == height["height"]


def test_the_table_has_the_same_numbers(open_page: Open, orders: Ledger) -> None:
    page = open_page("p/orders/t/orders")
    page.get_by_text("The same numbers as a table").focus()
    page.keyboard.press("Enter")
    table = page.locator("details table")
    heads = table.locator("thead th").all_inner_texts()
    row = dict(zip(heads, table.locator("tbody tr").first.locator("td").all_inner_texts(), strict=True))
    newest = sum(offset_at(partition, HOURS) + 60 for partition in range(12))
    assert (row["Log end"], row["Newest behind by"]) == (f"{newest:,}", "61 minutes")


def test_offsets_of_any_size_are_exact(open_page: Open, huge: str) -> None:
    """JavaScript's own numbers would end with 992 and 994."""
    page = open_page(f"p/{huge}/t/t")
    expect(page.locator(".lines label").filter(has_text="Log end")).to_contain_text("9,007,199,254,740,993")
    page.get_by_text("The same numbers as a table").click()
    expect(page.locator("details tbody tr").last).to_contain_text("9,007,199,254,740,983")
    window = window_id(BACKFILLED_MS, BACKFILLED_MS + HOUR_MS)
    ranges = open_page(f"p/{huge}/w/{window}").locator("section.panel table").last
    expect(ranges).to_contain_text("9,007,199,254,740,983")


def point_at(page: Page, share: float) -> None:
    """The mouse, at a share of the chart's width."""
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + 60)


def drawing(page: Page, place: int) -> str:
    """What the canvas of a chart shows, once nothing changes any more."""
    read = f"document.querySelectorAll('.frame canvas')[{place}].toDataURL()"
    before = ""
    while (now := str(page.evaluate(read))) != before:
        before = now
        page.wait_for_timeout(100)
    return now
