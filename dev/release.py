"""Checks whether a tag, the package's version and the changelog agree: ``python dev/release.py v1.2.3``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_DATED = r"^## \[{}\] - \d{{4}}-\d{{2}}-\d{{2}}$"


def problems(tag: str, package: str, changelog: str) -> Iterator[str]:
    """What doesn't agree.

    :param tag: such as ``v1.2.3``.
    :param package: the text of the package's ``__init__.py``.
    :param changelog: the text of ``CHANGELOG.md``.
    """
    found = _VERSION.search(package)
    version = found[1] if found else "unknown"
    if tag != f"v{version}":
        yield f"the tag is {tag}, and the package's version {version}: the tag must be v{version}"
    if not re.search(_DATED.format(re.escape(tag.removeprefix("v"))), changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no heading of {tag.removeprefix('v')} with a date: ## [1.2.3] - 2027-01-31"


def main() -> None:
    """The command."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    package = (ROOT / "airflow_kafka_offsets" / "__init__.py").read_text(encoding="utf-8")
    found = list(problems(sys.argv[1], package, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    sys.exit("\n".join(found) or 0)


if __name__ == "__main__":
    main()
