"""Local services for the demo, the tests and the benchmarks: real brokers, real records. Not part of the wheel."""

from __future__ import annotations

import logging
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
"""The folder for everything that these modules create: jars, broker data, logs, downloaded records."""

# kafka-python's producer, consumer and admin client, which are used here to fill and read topics, warn about each
# callback that takes 0.1 s. On a busy machine, any may. The package's own client has these warnings turned off.
logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
