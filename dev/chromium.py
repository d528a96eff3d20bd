"""A headless browser: the machine's Chromium, driven by Playwright.

If it is missing, it is installed if we are root on a Debian-like machine. Otherwise the user is told what to install.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from dev import debian

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium", "fonts-dejavu-core")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, for the duration of the block.

    :raises RuntimeError: this machine has none.
    """
    # As root, it can't use its sandbox; it opens only pages of this machine.
    flags = ["--no-sandbox", "--force-color-profile=srgb"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=flags)
        try:
            yield browser
        finally:
            browser.close()


@functools.cache
def _program() -> str:
    found = _find()
    if found is None and debian.install("Chromium", *_PACKAGES):
        found = _find()
    if found is None:
        raise RuntimeError(f"Chromium is needed: install it ({' '.join(_PACKAGES)} on Debian and its kin).")
    return found


def _find() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)
