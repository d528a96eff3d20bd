"""The page's modules, as they are joined in one file."""

from __future__ import annotations

import re
from collections import Counter

from airflow_kafka_offsets.page.file import MODULES
from dev import ROOT

STATIC = ROOT / "airflow_kafka_offsets" / "page" / "static"
DECLARED = re.compile(r"^(?:export )?(?:(?:async )?function (\w+)|(?:const|let) (.+))", re.MULTILINE)
EACH = re.compile(r"(?:^|, )(\w+) = ")


def test_no_two_modules_declare_the_same_name() -> None:
    """In one file they have one scope: a browser would run none of it."""
    names: list[str] = []
    for module in MODULES:
        for function, constants in DECLARED.findall((STATIC / module).read_text()):
            names += [function] if function else EACH.findall(constants)
    assert {"windowPanel", "MINUTE", "DAY", "LANE"} <= set(names)
    assert [name for name, times in Counter(names).items() if times > 1] == []
