"""The argument tables of the reference: one for each operator, sensor and trigger, and each as its signature is."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from airflow_kafka_offsets import errors, task_groups
from airflow_kafka_offsets.cli.commands import COMMANDS, Command, Group
from airflow_kafka_offsets.client.connection.settings import USED_KEYS
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.get_provider_info import get_provider_info
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators import verified_windows
from airflow_kafka_offsets.operators.prepare_load import SparkCluster
from airflow_kafka_offsets.references import SnapshotRef, WindowRef
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.spark.values.formats import ValueFormat
from airflow_kafka_offsets.submission.prepared_load import PreparedLoad
from airflow_kafka_offsets.submission.tries import load_report
from dev import ROOT
from tests.unit.test_docs import prose

REFERENCE = ROOT / "docs" / "reference"
PAGES_AND_README = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = ("operators.md", "sensors.md")
SECTION = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \|(.+)\|$", re.MULTILINE)
SHARED = re.compile(r"^Shared: (.+?)\.$", re.MULTILINE | re.DOTALL)
SAID_IN_WORDS = {"deferrable": "`[operators] default_deferrable`", "application": "the ready-made load"}
"""Defaults that are a setting of Airflow's, and a path of this installation."""
NO_SETTING = {"KafkaSparkSubmitOperator": {"deferrable": "`False`"}}
"""Those that Airflow's setting doesn't reach: what it asks for isn't possible for every load."""
PROGRAM = {"application", "py_files", "packages", "arguments"}
"""What prepare returns of a program, beside what the function that makes the XCom names."""
INTERNAL = {"KafkaWaitTrigger", "KafkaWindowLoadedTrigger", "KafkaDriverEndedTrigger"} | {
    *("KafkaEdgeTrigger", "KafkaPollTrigger", "KafkaLookTrigger", "KafkaGroupSensor", "KafkaPipelineSensor"),
    *("KafkaPipelineOperator", "KafkaResolvingOperator"),
}
"""Triggers that our own tasks defer to, and bases of the others."""


class Documented(NamedTuple):
    """An argument as a table has it."""

    default: str
    templated: bool


def sections(page: str) -> dict[str, str]:
    """The text below each heading, as far as the next one."""
    _, *parts = SECTION.split((REFERENCE / page).read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(section: str) -> dict[str, Documented]:
    """The first table of a section: its second is about one argument's values, or about XCom."""
    table = section.partition("| argument |")[2].partition("\n\n")[0]
    found = {}
    for name, rest in ROW.findall(table):
        default, second, *_ = (cell.strip() for cell in rest.split(" | "))
        found[name] = Documented(default, second == "yes")
    return found


def documented(page: str, name: str) -> dict[str, Documented]:
    """All arguments that a page gives a class: those that it shares, and its own."""
    section = sections(page)[name]
    shared_by_all = rows(sections(page)["Shared arguments of triggers" if "Trigger" in name else "Shared arguments"])
    shared = SHARED.search(section)
    names = re.findall(r"`(\w+)`", shared[1]) if shared else []
    own = rows(section)
    assert not own.keys() & set(names)
    return {each: shared_by_all[each] for each in names} | own


def parameters(kind: type) -> dict[str, inspect.Parameter]:
    """The named arguments that a class of ours, or its bases of ours, take."""
    found: dict[str, inspect.Parameter] = {}
    for each in kind.__mro__:
        if each.__module__.startswith("airflow_kafka_offsets.") and "__init__" in vars(each):
            own = inspect.signature(vars(each)["__init__"]).parameters
            found = {name: one for name, one in own.items() if one.kind is one.KEYWORD_ONLY} | found
    return found


def shown(parameter: inspect.Parameter) -> str:
    """A default as the tables write it."""
    if parameter.default is parameter.empty:
        return "required"
    if parameter.name in SAID_IN_WORDS:
        return SAID_IN_WORDS[parameter.name]
    if isinstance(parameter.default, str | StrEnum):
        return f"`{json.dumps(str(parameter.default))}`"
    if isinstance(parameter.default, timedelta):
        return f"`{parameter.default!r}`".replace("datetime.", "")
    return f"`{parameter.default!r}`"


def public_classes() -> Iterator[type]:
    """The operators, sensors and triggers that Airflow is told of."""
    info = get_provider_info()
    for room in ("operators", "sensors", "triggers"):
        for module in info[room][0]["python-modules"]:
            for name, each in inspect.getmembers(importlib.import_module(module), inspect.isclass):
                if each.__module__ == module and re.fullmatch(r"Kafka\w+(Operator|Sensor|Trigger)", name):
                    yield each


CLASSES = [each for each in public_classes() if each.__name__ not in INTERNAL]


def page_of(kind: type) -> str:
    return "operators.md" if kind.__name__.endswith("Operator") else "sensors.md"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
class TestArguments:
    def test_are_those_of_the_signature_with_its_defaults(self, kind: type) -> None:
        said = {name: each.default for name, each in documented(page_of(kind), kind.__name__).items()}
        defaults = {name: shown(each) for name, each in parameters(kind).items()}
        assert said == defaults | NO_SETTING.get(kind.__name__, {})

    def test_are_marked_where_they_are_templated(self, kind: type) -> None:
        said = documented(page_of(kind), kind.__name__)
        templated = set(getattr(kind, "template_fields", ())) & set(said)
        assert {name for name, each in said.items() if each.templated} == templated

    def test_the_page_names_its_module(self, kind: type) -> None:
        assert sections(page_of(kind))[kind.__name__].startswith(f"\n\n`{kind.__module__}`: ")


@pytest.mark.parametrize("kind", [KafkaPipeline, SparkCluster, TableLoad, ValueFormat], ids=lambda kind: kind.__name__)
def test_what_several_tasks_are_given_is_explained_like_their_arguments(kind: type) -> None:
    said = {name: each.default for name, each in rows(sections("operators.md")[kind.__name__]).items()}
    assert said == {name: shown(each) for name, each in inspect.signature(kind).parameters.items()}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_no_class_takes_more_than_eight_arguments_of_its_own(kind: type) -> None:
    own = inspect.signature(vars(kind)["__init__"]).parameters.values() if "__init__" in vars(kind) else ()
    assert sum(each.kind is each.KEYWORD_ONLY for each in own) <= 8


def test_no_other_page_explains_arguments() -> None:
    """A table of arguments is said once."""
    names = {each.__name__ for each in CLASSES}
    for page in (ROOT / "docs").rglob("*.md"):
        if page.parent == REFERENCE and page.name in PAGES:
            continue
        text = page.read_text(encoding="utf-8")
        headings = SECTION.split(text)
        tables = dict(zip(headings[1::2], headings[2::2], strict=True))
        assert [each for each in names & tables.keys() if "| argument |" in tables[each]] == [], page


@pytest.mark.parametrize("group", ["window", "increment"])
def test_a_task_groups_arguments_are_those_of_its_signature(group: str) -> None:
    name = f"kafka_{group}_load"
    named = inspect.signature(getattr(task_groups, name)).parameters.values()
    expected = {each.name: shown(each) for each in named if each.kind is each.KEYWORD_ONLY}
    own = {argument: each.default for argument, each in rows(sections("operators.md")[name]).items()}
    if group == "increment":
        window = rows(sections("operators.md")["kafka_window_load"])
        own |= {each: window[each].default for each in expected.keys() & window.keys() - own.keys()}
    assert own == expected


def commands(group: Group = COMMANDS, prefix: str = "") -> Iterator[tuple[str, Command]]:
    for each in group.commands:
        if isinstance(each, Group):
            yield from commands(each, f"{prefix}{each.name} ")
        else:
            yield f"{prefix}{each.name}", each


def options(command: Command) -> set[str]:
    return {flag for each in command.arguments for flag in each.flags if flag.startswith("--")}


def test_every_command_and_each_of_its_options_is_on_the_page() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for name, command in commands():
        assert f"`{name} " in page or f"`kafka-offsets {name} " in page, name
        assert [flag for flag in options(command) if flag not in page] == [], name


def test_the_default_of_an_option_is_one_of_its_words() -> None:
    chosen = [(name, arg) for name, command in commands() for arg in command.arguments if "choices" in arg.options]
    wrong = [(name, arg.flags) for name, arg in chosen if arg.options.get("default") not in arg.options["choices"]]
    assert chosen
    assert wrong == []


def unknown_in(words: list[str]) -> list[str]:
    """What a command line has that ours doesn't know; words in capitals stand for others."""
    place: Command | Group = COMMANDS
    for word in words:
        if isinstance(place, Command):
            flags = {flag for each in place.arguments for flag in each.flags}
            if word.startswith("--") and word.strip("[]()").partition("=")[0] not in flags:
                return [word]
        elif re.fullmatch("[a-z-]+", word):
            found = [each for each in place.commands if each.name == word]
            if not found:
                return [word]
            (place,) = found
    return []


@pytest.mark.parametrize("page", PAGES_AND_README, ids=lambda page: page.name)
def test_commands_within_sentences_exist_with_their_options(page: Path) -> None:
    text = re.sub(r"\n *", " ", prose(page))
    named = [each.removeprefix("kafka-offsets ") for each in re.findall(r"`((?:kafka-offsets|ledger) [^`]+)`", text)]
    assert {command: unknown for command in named if (unknown := unknown_in(command.split()))} == {}


def test_every_error_is_on_the_page() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    bases = {"KafkaOffsetsError", "ClusterError", "WindowError"}
    raised = {name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, KafkaOffsetsError)}
    assert {each for each in raised - bases if f"`{each}`" not in page} == set()


def test_every_class_has_its_acls() -> None:
    page = (REFERENCE / "connections.md").read_text(encoding="utf-8")
    tasks = [each.__name__ for each in CLASSES if not each.__name__.endswith("Trigger")]
    assert [each for each in tasks if f"`{each}`" not in page] == []


def test_every_connection_key_and_setting_is_on_the_page() -> None:
    page = (REFERENCE / "connections.md").read_text(encoding="utf-8")
    assert [each for each in USED_KEYS if f"`{each}`" not in page] == []
    (section,) = get_provider_info()["config"]
    settings = get_provider_info()["config"][section]["options"]
    assert [each for each in settings if f"`[{section}] {each}`" not in page] == []


def test_the_ready_made_load_takes_the_arguments_of_a_table_load_as_options() -> None:
    """So that the page need not explain them twice; dead letters are a value of ``--bad-records``."""
    source = (ROOT / "airflow_kafka_offsets" / "spark" / "table_load.py").read_text(encoding="utf-8")
    taken = re.findall(r"add_argument\(\s*\"(--[a-z-]+)\"", source)
    named = {f"--{name.replace('_', '-')}" for name in inspect.signature(TableLoad).parameters}
    assert named - {"--dead-letters"} == set(taken)


@pytest.mark.parametrize("room", ["guides", "reference"])
def test_users_meet_no_case_ids(room: str) -> None:
    for page in (ROOT / "docs" / room).glob("*.md"):
        assert re.findall(r"\b(?!S3\b)[ES][1-9]\d?\b", page.read_text(encoding="utf-8")) == [], page


def returned(function: Any) -> set[str]:
    """The keys of the dictionary that a function makes."""
    tree = ast.parse(dedent(inspect.getsource(function)))
    return {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@pytest.mark.parametrize(
    ("operator", "keys"),
    [
        ("KafkaResolveWindowOperator", {"version"} | {each.name for each in fields(WindowRef)}),
        ("KafkaSparkSubmitOperator", returned(load_report)),
        ("KafkaVerifyWindowOperator", returned(verified_windows._report) | {"source", "tiling"}),
        ("KafkaOffsetSnapshotOperator", {"version"} | {each.name for each in fields(SnapshotRef)}),
        ("KafkaPrepareLoadOperator", returned(PreparedLoad.to_json) - {"version"} | PROGRAM),
    ],
)
def test_xcom_keys_are_those_that_an_operator_returns(operator: str, keys: set[str]) -> None:
    xcom = sections("operators.md")[operator].partition("XCom")[2]
    assert keys - set(re.findall(r"`(\w+)`", xcom)) == set()
    table = re.findall(r"^\| (`.+?) \|", xcom, re.MULTILINE)
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} - keys == set()
