"""What Python 3.10 lacks; the official image of Spark 4.1 runs drivers with it. Not needed without it.

Airflow's side needs 3.11 or newer. Modules that a driver imports take from here what was new in 3.11.
"""

from __future__ import annotations

import re
import sys
from datetime import datetime, timezone
from typing import Any

if sys.version_info >= (3, 11):
    from enum import StrEnum  # novm
    from typing import Self  # novm
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Each member is also its value as text."""

        __str__ = str.__str__
        __format__ = str.__format__

    Self: Any = "Self"  # annotations are never evaluated

__all__ = ["UTC", "Self", "StrEnum", "from_iso"]

UTC = timezone.utc
_BASIC = re.compile(
    r"(?P<date>\d{4}-?\d\d-?\d\d)"
    r"(?:.(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def from_iso(text: str) -> datetime:
    """A datetime from ISO-8601 text. Before 3.11 ``datetime.fromisoformat`` took neither ``Z`` nor compact forms.

    :raises ValueError: when the text isn't ISO-8601.
    """
    return datetime.fromisoformat(text if sys.version_info >= (3, 11) else extended(text))


def extended(text: str) -> str:
    """ISO-8601 text in the only form that Python 3.10 reads; other text is returned unchanged."""
    found = _BASIC.fullmatch(text)
    if not found:
        return text
    day = found["date"].replace("-", "")
    date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
    if found["hour"] is None:
        return date
    fraction = (found["fraction"] or "0")[:6].ljust(6, "0")
    zone = (found["zone"] or "").replace("Z", "+0000").replace(":", "")
    zone = f"{zone[:3]}:{zone[3:] or '00'}" if zone else ""
    return f"{date}T{found['hour']}:{found['minute'] or '00'}:{found['second'] or '00'}.{fraction}{zone}"
