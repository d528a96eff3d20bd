"""Ports for servers that start slowly."""

from __future__ import annotations

import subprocess
import sys

from dev import ROOT
from dev.ports import free_ports


def test_one_that_was_given_out_is_given_to_no_other_process_before_its_server_listens() -> None:
    first, second = free_ports(2)
    assert first != second
    program = f"from dev import ports; ports.RANGE = range({first}, {first + 1}); ports.free_ports(1)"
    other = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert f"no port of 127.0.0.1 from {first} to {first} is free" in other.stderr
