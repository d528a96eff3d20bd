"""The worked example of a sink of one's own, from the documentation."""

from __future__ import annotations

import importlib.util
import sys

from dev import ROOT

_SPEC = importlib.util.spec_from_file_location("postgres_sink", ROOT / "docs" / "guides" / "postgres_sink.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)

PostgresSink = _MODULE.PostgresSink
Transaction = _MODULE.Transaction
