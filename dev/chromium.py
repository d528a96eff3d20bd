"""A headless browser: the machine's Chromium, driven by Playwright.

If it is missing, the user is told what to install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from dev.programs import CHROMIUM


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, for the duration of the block.

    :raises SystemExit: this machine has none; the message says what to install.
    """
    # As root, it can't use its sandbox; it opens only pages of this machine.
    flags = ["--no-sandbox", "--force-color-profile=srgb"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM.found(), args=flags)
        try:
            yield browser
        finally:
            browser.close()
