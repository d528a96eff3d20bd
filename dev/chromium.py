"""A browser without a window: the machine's Chromium, which Playwright drives.

Where it is missing on a Debian-like machine, and we are root, it is installed; anywhere else the user is told what to
install.
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
    """A browser, until the block is left.

    :raises RuntimeError: there is none on this machine.
    """
    # As root it has no sandbox of its own; it sees pages of this machine alone.
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
