"""Whether a tag may be released."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dev.release import problems

ROOT = Path(__file__).parents[2]
PACKAGE, CHANGELOG = (
    '"""Words."""\n\n__version__ = "1.2.3"\n',
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2027-01-31\n",
)


class TestProblems:
    def test_there_are_none_where_all_agree(self) -> None:
        assert list(problems("v1.2.3", PACKAGE, CHANGELOG)) == []

    @pytest.mark.parametrize(
        ("tag", "changelog", "said"),
        [
            ("v1.2.4", CHANGELOG.replace("1.2.3", "1.2.4"), "the package's version 1.2.3"),
            ("1.2.3", CHANGELOG, "must be v1.2.3"),
            ("v1.2.3", CHANGELOG.replace(" - 2027-01-31", ""), "no heading of 1.2.3 with a date"),
            ("v1.2.3", CHANGELOG.replace("1.2.3", "11213"), "no heading of 1.2.3"),
        ],
    )
    def test_what_does_not_agree_is_named(self, tag: str, changelog: str, said: str) -> None:
        (problem,) = problems(tag, PACKAGE, changelog)
        assert said in problem

    def test_the_package_has_a_version_to_compare_with(self) -> None:
        text = (ROOT / "airflow_kafka_offsets" / "__init__.py").read_text()
        version = re.search(r'__version__ = "([^"]+)"', text)
        assert version is not None
        assert list(problems(f"v{version[1]}", text, f"## [{version[1]}] - 2027-01-31")) == []


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda file: file.name)
def test_each_workflow_and_form_can_be_read(file: Path) -> None:
    """What their words mean is actionlint's to check, which runs there."""
    assert yaml.safe_load(file.read_text(encoding="utf-8"))
