"""The jars of packages: a real ``spark-submit`` resolves them, from a repository in a folder, and once only."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.submission.package_jars import PackageJars, Packages, jars_of
from airflow_kafka_offsets.submission.spark_program import SparkProgram
from dev.java import java_home
from tests.integration.airflow.conftest import LOCAL_SPARK, Context
from tests.integration.airflow.submit_commands.conftest import spark_connection

BINARY = str(Path(sys.executable).with_name("spark-submit"))
NOWHERE = "/nowhere/spark-submit"
SETTINGS = """<ivysettings><settings defaultResolver="folder"/><resolvers><ibiblio name="folder" m2compatible="true"
root="{root}"/></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><dependencies>{needs}</dependencies></project>"""
NEEDS = "<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version></dependency>"

ResolvePackages = Callable[..., PackageJars | None]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Maven repository: ``first`` needs ``second``, which has a Python module. Answers Ivy's settings for it."""
    folder = tmp_path_factory.mktemp("maven")
    root = folder / "repository"
    content: dict[str, tuple[str, str]] = {"first": ("a.class", "second"), "second": ("a.py", "")}
    for name, (inside, needs) in content.items():
        place = root / "org" / "example" / name / "1.0"
        place.mkdir(parents=True)
        (place / f"{name}-1.0.pom").write_text(POM.format(name=name, needs=NEEDS.format(name=needs) if needs else ""))
        with zipfile.ZipFile(place / f"{name}-1.0.jar", "w") as jar:
            jar.writestr(inside, "")
    settings = folder / "ivysettings.xml"
    settings.write_text(SETTINGS.format(root=root.as_uri()))
    return settings


@pytest.fixture(scope="module")
def packages(repository: Path) -> Packages:
    own = SparkProgram(BINARY).own_jars()
    assert own is not None
    confs = {"spark.jars.ivySettings": str(repository), "spark.jars.ivy": str(repository.with_name("ivy"))}
    return Packages(["org.example:first:1.0"], own[1].version, own[0], confs, confs)


@pytest.fixture
def jars_folder(tmp_path: Path) -> Path:
    """The setting."""
    return tmp_path / "jars"


def resolve(packages: Packages, binary: str, folder: Path) -> PackageJars | None:
    home = Path(str(pyspark.__file__)).parent
    environment = os.environ | {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(home)}
    return jars_of(packages, binary, environment, folder)


@pytest.fixture(scope="module")
def resolved_once(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the jars of the packages: each ``spark-submit`` takes seconds."""
    folder = tmp_path_factory.mktemp("once") / "jars"
    assert resolve(packages, BINARY, folder) is not None
    return folder


@pytest.fixture
def resolved(packages: Packages, resolved_once: Path, jars_folder: Path) -> ResolvePackages:
    """Resolves with a folder that has the jars of the packages already."""
    shutil.copytree(resolved_once, jars_folder)

    def run(packages: Packages = packages, binary: str = BINARY) -> PackageJars | None:
        return resolve(packages, binary, jars_folder)

    return run


def names(jars: PackageJars | None) -> list[str]:
    assert jars is not None
    return [jar.name for jar in jars.jars]


BOTH = ["org.example_first-1.0.jar", "org.example_second-1.0.jar"]


class TestResolvedOnce:
    def test_by_spark_submit_with_the_users_settings_and_then_by_nobody(self, resolved: ResolvePackages) -> None:
        found = resolved(binary=NOWHERE)
        assert names(found) == BOTH
        assert found is not None
        assert [jar.name for jar in found.python] == BOTH[1:], "Spark's own --packages gives those to Python too"
        assert found.missing == found.jars

    def test_without_what_is_excluded(self, resolved: ResolvePackages, packages: Packages) -> None:
        assert names(resolved(binary=NOWHERE)) == BOTH
        assert names(resolved(replace(packages, exclude="org.example:second"))) == BOTH[:1]

    @pytest.mark.parametrize("harm", ["torn", "gone", "added", "list"])
    def test_by_nobody_only_if_the_folder_is_whole(self, resolved: ResolvePackages, harm: str) -> None:
        found = resolved(binary=NOWHERE)
        assert found is not None
        jar = found.jars[0]
        content = jar.read_bytes()
        match harm:
            case "torn":
                jar.write_bytes(content[:-1])
            case "gone":
                jar.unlink()
            case "added":
                jar.with_name("other.jar").touch()
            case "list":
                jar.with_name("jars.json").write_text("[")
        assert resolved(binary=NOWHERE) is None

    def test_again_if_it_is_not_and_only_what_a_killed_process_left_is_deleted(
        self, resolved: ResolvePackages, jars_folder: Path
    ) -> None:
        found = resolved(binary=NOWHERE)
        assert found is not None
        jar = found.jars[0]
        content = jar.read_bytes()
        jar.write_bytes(content[:-1])
        left = jars_folder / f".{jar.parent.name}-killed"
        left.mkdir()
        (left / jar.name).touch()
        another = jars_folder / ".vscode-server"  # somebody may name his home
        another.mkdir()
        assert resolved() == found
        assert jar.read_bytes() == content
        assert not left.exists()
        assert another.exists()

    def test_what_spark_has_itself_is_told_apart(
        self, resolved: ResolvePackages, packages: Packages, repository: Path, tmp_path: Path
    ) -> None:
        """One process with Spark's own jars needs none of them again."""
        own = tmp_path / "spark"
        own.mkdir()
        (own / "second-1.0.jar").write_bytes(
            (repository.parent / "repository/org/example/second/1.0/second-1.0.jar").read_bytes()
        )
        (own / "first-1.0.jar").write_bytes(b"another one")
        found = resolved(replace(packages, spark_jars=own))
        assert found is not None
        assert [jar.name for jar in found.missing] == BOTH[:1]
        assert names(found) == BOTH


class TestLeftToSparkSubmit:
    @pytest.mark.parametrize("version", ["1.1-SNAPSHOT", "latest.release", "1.+", "[1.0,2.0)"])
    def test_versions_that_change(
        self, packages: Packages, jars_folder: Path, version: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        changing = replace(packages, coordinates=[f"org.example:first:{version}"])
        assert resolve(changing, NOWHERE, jars_folder) is None
        assert "versions among them may name other jars tomorrow" in caplog.text

    def test_with_settings_that_cant_be_read(
        self, packages: Packages, jars_folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        too_long = {"spark.jars.ivySettings": "x" * 5000}
        assert resolve(replace(packages, confs=too_long), NOWHERE, jars_folder) is None
        assert "spark-submit resolves the packages itself: " in caplog.text

    def test_for_a_user_without_a_home(self, packages: Packages, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        assert resolve(packages, NOWHERE, Path("~nobody-has-this-name/jars")) is None
        assert "spark-submit resolves the packages itself: Could not determine home directory" in caplog.text

    def test_packages_that_are_nowhere(
        self, packages: Packages, jars_folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        assert resolve(replace(packages, coordinates=["org.example:third:1.0"]), BINARY, jars_folder) is None
        assert "spark-submit resolves the packages itself: " in caplog.text
        assert "unresolved dependency: org.example#third;1.0: not found" in caplog.text

    def test_a_jar_whose_table_of_contents_is_damaged(
        self, packages: Packages, jars_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It ends as a whole one does."""
        caplog.set_level("INFO")
        jar, program = tmp_path / "damaged.jar", tmp_path / "spark-submit"
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("a.class", "")
        jar.write_bytes(jar.read_bytes().replace(b"PK\1\2", b"PK\0\0"))
        program.write_text(f"#!/bin/sh\necho Classpath elements:\necho file:{jar}\n")
        program.chmod(0o755)
        assert resolve(packages, str(program), jars_folder) is None
        assert "spark-submit resolves the packages itself: Bad magic number for central directory" in caplog.text
        assert [file.name for file in jars_folder.iterdir()] == [".lock"]

    def test_a_folder_where_others_may_write(
        self, packages: Packages, jars_folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each load takes longer for it, until somebody names another one."""
        jars_folder.mkdir()
        jars_folder.chmod(0o777)
        assert resolve(packages, NOWHERE, jars_folder) is None
        (line,) = caplog.records
        assert line.levelname == "WARNING"
        assert "others may write there" in line.getMessage()


_ONCE_MORE = pytest.mark.nightly("a resolution of its own; the classes above have such packages, the first test a load")


class TestALoad:
    """What the operator gives to ``spark-submit``."""

    @pytest.fixture(autouse=True)
    def spark(self, noted: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program that resolves as ``spark-submit`` does, and otherwise notes what it is given."""
        program, noting = noted.with_name("spark-submit"), noted.with_name("noting")
        program.rename(noting)
        program.write_text(f'#!/bin/sh\ncase "$*" in *VersionInfo*) exec {BINARY} "$@";; esac\nexec {noting} "$@"\n')
        program.chmod(0o755)
        own = SparkProgram(BINARY).own_jars()
        assert own is not None
        monkeypatch.setenv("SPARK_HOME", str(own[0].parent))
        monkeypatch.setenv("JAVA_HOME", str(java_home()))
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__JARS_FOLDER", str(tmp_path / "jars"))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
        # spark-defaults.conf, which the program reads by itself
        ivy = f"spark.jars.ivySettings {repository}\nspark.jars.ivy {tmp_path / 'ivy'}\n"
        (tmp_path / "spark-defaults.conf").write_text(f"{ivy}spark.jars.packages org.example:first:1.0\n")

    def words(self, window: dict[str, Any], context: Context, noted: Path, **arguments: Any) -> list[str]:
        task = KafkaSparkSubmitOperator(
            task_id="load",
            window=window,
            durable=False,
            **({"application_args": ["--output", "file:///t"]} | arguments),
        )
        task.execute(context)
        words: list[str] = json.loads(noted.read_text().splitlines()[-1])["words"]
        return words

    def test_has_the_jars_of_packages_as_files(
        self, window: dict[str, Any], context: Context, noted: Path, tmp_path: Path
    ) -> None:
        words = self.words(window, context, noted, jars="/own/a.jar")
        assert "--packages" not in words
        assert "spark.jars.packages=" in words
        own, *jars = words[words.index("--jars") + 1].split(",")
        assert own == "/own/a.jar"
        assert [Path(jar).name for jar in jars] == BOTH
        assert all(Path(jar).is_relative_to(tmp_path / "jars") for jar in jars)
        python, bundle = words[words.index("--py-files") + 1].split(",")
        assert (python, Path(bundle).name) == (jars[1], "airflow_kafka_offsets.zip")

    @_ONCE_MORE
    def test_of_packages_that_the_task_names(self, window: dict[str, Any], context: Context, noted: Path) -> None:
        words = self.words(window, context, noted, packages="org.example:second:1.0")
        assert "--packages" not in words
        assert [Path(jar).name for jar in words[words.index("--jars") + 1].split(",")] == BOTH[1:]

    def test_leaves_packages_to_the_driver_on_kubernetes(
        self, window: dict[str, Any], context: Context, noted: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spark_connection(monkeypatch, "k8s://https://127.0.0.1:6443")
        secret = {"spark.kubernetes.driver.secretKeyRef.KAFKA_OFFSETS_SECRETS": "kafka:json"}
        words = self.words(window, context, noted, packages="org.example:second:1.0", conf=secret)
        assert words[words.index("--packages") + 1] == "org.example:second:1.0"
        assert "--jars" not in words

    @_ONCE_MORE
    def test_names_packages_that_cant_be_resolved_here(
        self, window: dict[str, Any], context: Context, noted: Path
    ) -> None:
        words = self.words(window, context, noted, packages="org.example:third:1.0")
        assert words[words.index("--packages") + 1] == "org.example:third:1.0"
