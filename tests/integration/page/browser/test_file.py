"""The page as a file, in a real browser: without a server, and with all modules in one."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from airflow_kafka_offsets.page.file import page_file
from tests.integration.page.browser.conftest import opened
from tests.integration.page.browser.orders import FAILED, make_orders, window


def test_it_shows_what_is_wrong_and_the_window_that_was_asked_for(browser: Browser, tmp_path: Path) -> None:
    ledger, file = make_orders((tmp_path / "ledger").as_uri()), tmp_path / "page.html"
    file.write_text(page_file(ledger, window(FAILED)), encoding="utf-8")
    with opened(browser, file.as_uri(), 1280, "light") as page:
        expect(page.locator(".problems li").first).to_contain_text("its load failed")
        expect(page.locator("section.panel")).to_contain_text("UnprovenError")
