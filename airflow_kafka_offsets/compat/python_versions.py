"""What Python 3.10 lacks; the official image of Spark 4.1 runs drivers with it. Not needed without it.

Airflow's side needs 3.11 or newer. Modules that a driver gets take from here what was new in 3.11.
"""

from __future__ import annotations

import sys
from datetime import timezone
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

__all__ = ["UTC", "Self", "StrEnum"]

UTC = timezone.utc
