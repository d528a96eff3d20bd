"""Other users of kafka-python in the process: nothing that they had is another thing because of this client."""

from __future__ import annotations

import subprocess
import sys


def test_find_kafka_python_and_the_process_as_they_were() -> None:
    """Modules, classes and registries, log levels and handlers, the warnings that are shown, the environment, in a
    process of its own. A registry may have further entries, which are ours."""
    program = [sys.executable, "-m", "tests.unit.client.as_found"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr[-2000:]) == (0, "", "")
