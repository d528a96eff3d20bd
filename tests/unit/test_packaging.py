"""What Airflow reads while it loads itself must import nothing of Airflow, and agree with the classes."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib

import pytest
import yaml

import airflow_kafka_offsets
from airflow_kafka_offsets.get_provider_info import get_provider_info
from airflow_kafka_offsets.public import PUBLIC
from dev import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REGISTRY = yaml.safe_load((ROOT / ".airflow-registry.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", ["airflow_kafka_offsets", "airflow_kafka_offsets.get_provider_info"])
def test_provider_metadata_imports_nothing_from_airflow(module: str) -> None:
    code = f"import sys, {module}; print(sorted(name for name in sys.modules if name.split('.')[0] == 'airflow'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_connection_type_agrees_with_the_hook() -> None:
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

    declared = get_provider_info()["connection-types"][0]
    assert declared["connection-type"] == KafkaOffsetsHook.conn_type
    assert declared["hook-name"] == KafkaOffsetsHook.hook_name


def test_a_choice_that_is_left_open_is_shown_in_words() -> None:
    """Airflow's form shows "null" otherwise, twice."""
    fields = get_provider_info()["connection-types"][0]["conn-fields"].values()
    schemas = [field["schema"] for field in fields if None in field["schema"].get("enum", [])]
    assert len(schemas) > 1
    for schema in schemas:
        assert schema["values_display"]["None"].endswith(" (default)")
        assert schema["enum"].count(None) == 1


def test_the_kafka_providers_type_and_scheme_are_left_alone() -> None:
    info = get_provider_info()
    assert [each["connection-type"] for each in info["connection-types"]] == ["kafka_offsets"]
    assert "asset-uris" not in info


class TestProviderRegistry:
    """``.airflow-registry.yaml``, from which Airflow's Provider Registry lists what a provider has."""

    def test_says_of_the_package_what_the_package_says_itself(self) -> None:
        info, urls = get_provider_info(), PYPROJECT["project"]["urls"]
        assert {key: value for key, value in REGISTRY.items() if isinstance(value, str)} == {
            "package-name": info["package-name"],
            "display-name": info["name"],
            "description": info["description"],
            "docs-url": urls["Documentation"],
            "source-url": urls["Source"],
        }

    @pytest.mark.parametrize("kind", ["hooks", "operators", "sensors", "triggers"])
    def test_lists_what_users_write_in_dags(self, kind: str) -> None:
        """Of the triggers those for watchers; the others belong to operators and sensors. No bases."""
        modules = [name for each in get_provider_info()[kind] for name in each["python-modules"]]
        public = {
            f"{module}.{name}"
            for module in modules
            for name, found in vars(importlib.import_module(module)).items()
            if name in PUBLIC["airflow_kafka_offsets"] and isinstance(found, type) and found.__module__ == module
            if name.endswith(kind[:-1].title())
        }
        assert {each["module"] for each in REGISTRY[kind]} == public
        assert all(each["description"] for each in REGISTRY[kind])

    def test_lists_the_task_groups(self) -> None:
        for each in REGISTRY["other"]:
            module, _, name = each["module"].rpartition(".")
            assert callable(getattr(importlib.import_module(module), name))
        groups = [name for name, module in PUBLIC["airflow_kafka_offsets"].items() if module == "task_groups"]
        assert len(REGISTRY["other"]) == len(groups)


def test_the_driver_bundle_is_small_and_complete(tmp_path: object) -> None:
    import zipfile
    from pathlib import Path

    from airflow_kafka_offsets.submission.application import bundle

    target = Path(str(tmp_path)) / "bundle.zip"
    target.write_bytes(bundle())
    tops = {"/".join(name.split("/")[:2]) for name in zipfile.ZipFile(target).namelist()}
    package = "airflow_kafka_offsets"
    assert tops == {
        f"{package}/{name}"
        for name in ("__init__.py", "arguments.py", "compat", "errors.py", "ledger", "offsets", "public.py", "spark")
    }
    assert target.stat().st_size < 320_000
    assert airflow_kafka_offsets.__version__
