"""Local services for the demo, the tests and the benchmarks: real brokers, real records. Not part of the wheel."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
"""Everything that these modules make: jars, brokers, logs, downloaded records."""
