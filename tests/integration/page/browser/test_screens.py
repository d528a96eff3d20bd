"""What is on the screen: as wide as the window, in both themes, and what the commands say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest
from airflow.sdk import ObjectStoragePath
from playwright.sync_api import Browser, Locator, Page, expect

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.lineage import PREFIX
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from dev.airflow_services import AirflowServices
from tests.integration.ledger.loads import derive
from tests.integration.page.browser.conftest import THEMES, WIDTHS, Open, opened
from tests.integration.page.browser.orders import (
    AGAIN,
    FAILED,
    HOLE,
    HOURS,
    LOADING,
    LOST,
    LOST_OFFSETS,
    MESSAGE,
    PINNED,
    PROVED,
    PUBLISHED,
    hour_ms,
    make_orders,
    offset_at,
    window,
)
from tests.unit.offsets.builders import HOUR_MS, T0 as BUILT_T0

SCREENS = {
    "pipelines": "",
    "pipeline": "p/orders",
    "window": "p/orders/w/{again}",
    "offsets": "p/orders/t/orders",
    "record": f"p/orders/find?topic=orders&partition=3&offset={offset_at(3, 5) + 7}",
    "waits": "waits",
}

BACKFILLED_MS = BUILT_T0
"""Where the first hour of small pipelines starts."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def stopped(airflow_services: AirflowServices) -> str:
    """Nothing has been resolved for three hours."""
    root = (airflow_services.home / "ledger").as_uri()
    return make_orders(root, "stopped", {"orders": 1}, hours=range(HOURS - 8, HOURS - 3), trouble=False).pipeline


@pytest.fixture(scope="module")
def derived(airflow_services: AirflowServices) -> str:
    """An hour from whose records a job has made three other rows."""
    ledger = Ledger(ObjectStoragePath((airflow_services.home / "ledger").as_uri()), "derived")
    ledger.create(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    derive(ledger, 0, rows=3)
    return ledger.pipeline


_CUT = """[...document.querySelectorAll("main *")]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== "visible")
    .map(each => each.outerHTML.slice(0, 200))"""
_CONTRAST = """
    const parts = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(each => each / 255)
        .map(each => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
        .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
    const behind = each => {
        const found = parts(getComputedStyle(each).backgroundColor);
        return found.length === 4 && found[3] === 0 ? behind(each.parentElement ?? document.body) : found;
    };
    const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
"""
_TOO_FAINT = f"""(() => {{ {_CONTRAST}
    const own = each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    return [...document.querySelectorAll("body *")]
        .filter(each => each.checkVisibility() && own(each) && !each.disabled)
        .filter(each => contrast(parts(getComputedStyle(each).color), behind(each)) < 4.5)
        .map(each => each.outerHTML.slice(0, 200));
}})()"""
_BADGES = f"""(() => {{ {_CONTRAST}
    return [...document.querySelectorAll(".badge")].map(each => contrast(behind(each), behind(each.parentElement)));
}})()"""

_NEXT_FRAME = "new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(shown)))"


@pytest.mark.parametrize("screen", SCREENS)
def test_no_screen_is_wider_than_its_window_and_each_has_its_theme(open_page: Open, screen: str) -> None:
    page = open_page(SCREENS[screen].format(again=window(AGAIN)))
    for width, theme in product(WIDTHS, THEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.evaluate(_NEXT_FRAME)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 29)")
        assert page.get_by_role("alert").count() == 0
        assert page.evaluate(_CUT) == [], "nothing has to be scrolled sideways to be read"
        assert page.evaluate(_TOO_FAINT) == [], "WCAG 2.2, level AA: 4.5 to 1, for all text"
        assert all(found > 1.2 for found in page.evaluate(_BADGES)), "a badge stands out from the page around it"


@pytest.fixture(scope="module")
def shown(airflow_services: AirflowServices, orders: Ledger, browser: Browser) -> Iterator[Page]:
    """The pipeline with trouble, for tests that only read, or put it in a state that the next one doesn't mind."""
    with opened(browser, f"{airflow_services.url}{PREFIX}/#/p/orders", 1280, "light") as page:
        yield page


class TestSaysWhatTheCommandsSay:
    def test_the_holes_of_a_pipeline_are_those_of_ledger_verify(self, shown: Page, orders: Ledger) -> None:
        problems = shown.locator(".problems li")
        titles = problems.evaluate_all("all => all.map(each => each.title)")
        claims = [claim for claim in verify(orders) if not claim.holds and claim.claim != "unpublished"]
        assert {claim.claim for claim in claims} == {"hole"}
        assert [words for words in titles if "no window" in words] == [claim.found for claim in claims]
        expect(problems.filter(has_text="No window has")).to_contain_text(
            "To load it: airflow backfill create --dag-id orders_hourly "
        )
        lost = f"Lost before it was loaded: {LOST_OFFSETS} offsets of window {hours_of(LOST)}."
        expect(problems.filter(has_text=lost)).to_have_count(1)

    def test_each_hour_is_in_the_state_that_it_came_to(self, shown: Page) -> None:
        states = {
            HOLE - 1: "verified",
            LOST: "verified",
            FAILED: "failed",
            LOADING: "loading",
            PROVED: "proved",
            PUBLISHED: "published",
            PINNED: "pinned",
        }
        for hour, state in states.items():
            expect(row_of(shown, hour).locator("td").nth(1)).to_contain_text(state)

    def test_what_was_lost_or_has_failed_leads_to_its_window(self, open_page: Open) -> None:
        page = open_page("p/orders")
        wrong = page.locator(".problems li")
        expect(wrong.filter(has_text="Failed:").get_by_role("link")).to_have_text(hours_of(FAILED))
        wrong.filter(has_text="Lost before").get_by_role("link").click()
        lost = page.locator("section.panel table").last.locator("tbody tr", has_text="orders-3")
        expect(lost.locator("td").nth(4)).to_have_text(str(LOST_OFFSETS))

    def test_a_hole_is_a_row_between_its_neighbours(self, shown: Page) -> None:
        rows = shown.locator(".windows tbody tr td:first-child").all_inner_texts()
        place = rows.index(hours_of(HOLE))
        assert [rows[place - 1], rows[place + 1]] == [hours_of(HOLE + 1), hours_of(HOLE - 1)]

    def test_numbers_stand_in_columns_and_a_topic_called_script_is_text(self, shown: Page) -> None:
        style = "all => all.map(each => getComputedStyle(each)).map(each => [each.textAlign, each.fontVariantNumeric])"
        styles = shown.locator(".windows td.rows").evaluate_all(style)
        assert {tuple(each) for each in styles} == {("right", "tabular-nums")}
        expect(shown.get_by_text("<script>").first).to_be_visible()
        assert shown.locator("main script").count() == 0

    def test_a_record_is_where_ledger_find_says(
        self, open_page: Open, orders: Ledger, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The last one is typed as the page shows it, with commas."""
        page, root = open_page("p/orders"), orders.uri.rpartition("/")[0]
        for hour in (HOLE, LOST, PINNED, FAILED, 5):
            offset = offset_at(3, hour) + 1
            with suppress(SystemExit):  # of a record in no window
                main(["ledger", "find", "orders", "orders", "3", str(offset), "--ledger", root, "-o", "json"])
            (said,) = json.loads(capsys.readouterr().out)
            page.get_by_label("Topic").select_option("orders")
            page.get_by_label("Partition").fill("3")
            page.get_by_label("Offset", exact=True).fill(f"{offset:,}" if hour == 5 else str(offset))
            page.get_by_role("button", name="Find", exact=True).click()
            panel = page.locator("section.panel")
            expect(panel.locator("h2")).to_have_text(f"orders-3, offset {offset:,}")
            if said["window"]:
                expect(panel.locator("dl").get_by_role("link").first).to_have_text(hours_of(hour))
            else:
                expect(panel).to_contain_text(f"it is between {hours_of(hour - 1)} and {hours_of(hour + 1)}")
            if hour == FAILED:
                expect(panel.get_by_role("link", name="orders_hourly, run scheduled__25, task load")).to_be_visible()
                expect(panel).to_contain_text("What was read or written differs from the manifest (UnprovenError)")
            assert f"find?topic=orders&partition=3&offset={offset}" in page.url, "it can be sent to a colleague"


class TestWindow:
    def test_one_that_was_loaded_again_says_which_attempt_counts_and_which_run_made_it(
        self, open_page: Open, orders: Ledger
    ) -> None:
        panel = open_page(f"p/orders/w/{window(AGAIN)}").locator("section.panel")
        published = orders.read().windows[window(AGAIN)].publication
        assert published is not None
        expect(panel).to_contain_text(f"attempt {published.attempt}")
        expect(panel).to_contain_text("read = written = log")
        attempts = panel.locator("section.attempt")
        expect(attempts).to_have_count(1)
        expect(attempts).to_contain_text(
            re.compile(r"published.*orders_hourly.*, try 1.*written, in 41 seconds", re.DOTALL)
        )
        link = panel.get_by_role("link", name="orders_hourly").first
        assert link.get_attribute("href") == f"../dags/orders_hourly/runs/scheduled__{AGAIN:02}/tasks/load"

    def test_rows_that_a_job_made_are_counted_but_of_no_partition(self, open_page: Open, derived: str) -> None:
        page = open_page(f"p/{derived}/w/{window_id(BACKFILLED_MS, BACKFILLED_MS + HOUR_MS)}")
        expect(page.locator("section.panel table").last.locator("tbody td").nth(4)).to_have_text("unknown")
        expect(page.locator(".windows td.rows:not(:empty)").first).to_have_text("3")

    def test_the_keyboard_opens_it_and_the_row_shows_which_is_open(self, open_page: Open) -> None:
        page = open_page("p/orders")
        row_of(page, PUBLISHED).get_by_role("link").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("section.panel h2")).to_have_text(hours_of(PROVED))
        assert page.evaluate("document.activeElement.className") == "panel"
        expect(page.locator(".windows tr[aria-current]")).to_contain_text(hours_of(PROVED))


class TestOnCall:
    """What somebody who is on call asks, answered from the page alone."""

    def test_what_is_late_and_by_how_much(self, open_page: Open) -> None:
        usual_ms = 5 * 60_000
        hours = (now_ms() - hour_ms(FAILED + 1) - usual_ms) // HOUR_MS
        late_by = f"({hours}|{hours + 1}) hours"  # an hour may pass while the page is read
        page = open_page("p/orders")
        late = page.locator(".problems li").first
        expect(late).to_contain_text(
            re.compile(f"Late by {late_by}: {hours_of(FAILED)}: its load failed; it was due at ")
        )
        expect(row_of(page, FAILED)).to_contain_text(re.compile(f"late by {late_by}"))
        expect(row_of(page, PUBLISHED)).to_contain_text("5 minutes")
        expect(row_of(page, PUBLISHED)).not_to_contain_text("late")
        pipelines = open_page("").locator("tbody tr")
        expect(pipelines.filter(has_text="orders, payments")).to_contain_text(re.compile(late_by))
        expect(pipelines.filter(has_text="flights_hourly")).to_contain_text(re.compile("no; (next due in|due now)"))

    def test_a_pipeline_that_has_published_nothing_says_so(
        self, airflow_services: AirflowServices, open_page: Open, stopped: str
    ) -> None:
        """``stopped`` is there before the page looks for a new pipeline: it looks every two seconds at most."""
        make_orders((airflow_services.home / "ledger").as_uri(), "begun", {"orders": 1}, hours=[PINNED])
        expect(open_page("p/begun").locator(".tiles")).to_contain_text("nothing published yet: no load has begun")

    def test_what_nobody_has_pinned_though_it_is_due_is_a_row(self, open_page: Open, stopped: str) -> None:
        """The last window ended three hours before the tests began, and another hour may pass meanwhile."""
        hours = (now_ms() - hour_ms(HOURS - 3)) // HOUR_MS
        page = open_page(f"p/{stopped}")
        row = page.locator(".windows tbody tr").first
        expect(row).to_contain_text(f"{hours_of(HOURS - 3)[:16]} to ")
        expect(row).to_contain_text(re.compile(f"no window yet; ({hours}|{hours + 1}) are due"))
        expect(row).to_contain_text(re.compile("late by ([2-9] hours|1[0-9]{2} minutes)"))
        expect(page.locator(".problems li").first).to_contain_text("no window is pinned for ")

    def test_why_a_load_failed_and_whether_clearing_it_helps(self, open_page: Open) -> None:
        page = open_page(f"p/orders/w/{window(FAILED)}")
        failure = page.locator("section.panel .failure")
        expect(failure).to_contain_text("What was read or written differs from the manifest (UnprovenError)")
        expect(failure).to_contain_text(MESSAGE)
        expect(failure).to_contain_text("Clearing the task helps only once the job or the sink is mended.")

    def test_since_when_a_load_is_running(self, open_page: Open) -> None:
        page = open_page(f"p/orders/w/{window(LOADING)}")
        running = re.compile(r"running for (1[2-9]|[2-9]\d) minutes")
        expect(row_of(page, LOADING)).to_contain_text(running)
        expect(page.locator("section.panel .attempt")).to_contain_text(running)

    def test_windows_and_dags_are_links_that_open_in_a_tab_of_their_own(self, open_page: Open) -> None:
        page = open_page("p/orders")
        expect(page.get_by_role("link", name="orders_hourly").first).to_have_attribute("href", "../dags/orders_hourly")
        with page.context.expect_page() as opened:
            row_of(page, LOST).get_by_role("link").click(button="middle")
        expect(opened.value.locator("section.panel h2")).to_have_text(hours_of(LOST))

    def test_the_list_comes_first_and_the_panel_beside_it(self, open_page: Open) -> None:
        """On a narrow screen, what was opened comes first: the list is long."""
        wide, narrow = (open_page(f"p/orders/w/{window(LOST)}", width) for width in (1280, 390))
        (listed, panel), (below, above) = (
            [page.locator(part).bounding_box() or {} for part in (".list", ".panel")] for page in (wide, narrow)
        )
        assert listed["x"] + listed["width"] <= panel["x"]
        assert abs(listed["y"] - panel["y"]) < 20
        assert above["y"] + above["height"] <= below["y"]


def hours_of(hour: int) -> str:
    """As the page writes an hour's extent."""
    start, end = (iso_instant(hour_ms(each))[:16].replace("T", " ") for each in (hour, hour + 1))
    return f"{start} to {end[11:] if start[:10] == end[:10] else '24:00'}"


def row_of(page: Page, hour: int) -> Locator:
    """The row of an hour's window."""
    return page.locator(".windows tbody tr").filter(has_text=hours_of(hour))
