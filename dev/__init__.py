"""Local services for the demo, the tests and the benchmarks: real brokers, real records. Not part of the wheel."""

from __future__ import annotations

import logging
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
"""Everything that these modules make: jars, brokers, logs, downloaded records."""

# kafka-python's own producer, consumer and admin client, which fill topics and read them here, warn of each of their
# callbacks that takes 0.1 s: on a busy machine any does. The package's client has that turned off.
logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
