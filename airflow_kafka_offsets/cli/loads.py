"""``kafka-offsets ledger resolve``, ``begin`` and ``publish``: the steps of a load that a person takes. ``kafka-offsets
bundle`` writes the files that a driver needs when something else submits it."""

from __future__ import annotations

import getpass
import hashlib
import json
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from airflow_kafka_offsets.arguments import as_topics
from airflow_kafka_offsets.cli.connections import java_settings, kafka_client, new_ledger, stored_ledger
from airflow_kafka_offsets.cli.instants import instant
from airflow_kafka_offsets.cli.ledger import named_window
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_record, print_remark, print_rows
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, LedgerError, shorten
from airflow_kafka_offsets.ledger.counted import Counted, counted, left_to_publish
from airflow_kafka_offsets.ledger.entries import Attempted, Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import refuse_future
from airflow_kafka_offsets.pipelines import attempts, loads
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver
from airflow_kafka_offsets.runs.interval import RunInterval, pieces_of
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.submission.application import AUDIT_APPLICATION, BUNDLE_NAME, LOAD_APPLICATION, bundle

_RESOLVED = (Column("window"), Column("offsets"), Column("remark", folds=True, unless=(None,)))
_BEGUN = (Column("window"), Column("attempt"), Column("offsets"), Column("lost"), Column("published", unless=(None,)))
_PUBLISHED = (
    *(Column("window"), Column("published"), Column("run"), Column("rows"), Column("output"), Column("verdict")),
)
_FILES = (Column("file", folds=True), Column("used_as"), Column("bytes"), Column("sha256", folds=True))


@command
def resolve_windows(args: Any) -> int:
    """Pin the windows from a start to an end, and print one row per window. Either all are pinned, or none."""
    interval = RunInterval(instant(args.start), instant(args.end))
    refuse_future(interval.end_ms, now_ms(), "Give a past time as --end.")
    windows = [(interval.start_ms, interval.end_ms)]
    if args.split is not None:
        windows = pieces_of(interval, args.split, args.timezone, whole=True)
    topics = as_topics(args.topics, args.topic_pattern)
    ledger = new_ledger(args.ledger, args.pipeline)
    with kafka_client(args) as client:
        resolver = Resolver(client, ledger, topics, IsolationLevel.of(args.isolation), args.on_future_record)
        resolved = resolver.windows(windows)
    print_rows([_resolved_row(each) for each in resolved], args, _RESOLVED)
    return 0


def _resolved_row(resolved: ResolvedWindow) -> Row:
    manifest = resolved.pinned.manifest
    return {
        "window": manifest.window,
        "offsets": manifest.span,
        "manifest": resolved.pinned.uri,
        "sha256": resolved.pinned.sha256,
        "remark": " ".join(resolved.warnings) or None,
    }


@command
def begin_attempt(args: Any) -> int:
    """Begin an attempt, and print its number and what its driver has to be given; or the publication that there is."""
    ledger = stored_ledger(args)
    name = named_window(ledger, args)
    settings = java_settings(args)
    who = {"by_hand": getpass.getuser()}
    wanted = attempts.Wanted(ledger, name, ledger.window(name).manifest)
    begun = attempts.begin_each([wanted], lambda: kafka_client(args), who, args.on_data_loss)[wanted]
    if isinstance(begun, KafkaOffsetsError):
        raise begun
    published = begun if isinstance(begun, Published) else None
    conf = _confs(ledger, begun, settings.plain) if isinstance(begun, Attempted) else {}
    print_record(_begun_row(wanted.window, begun, conf), args, _BEGUN)
    if conf and args.output == "table":
        print(*("", *(f"--conf {shlex.quote(f'{name}={value}')}" for name, value in conf.items())), sep="\n")
    _tell(f"{ledger.pipeline} {name}", published, sorted(settings.secret))
    return 0


def _begun_row(window: Window, begun: Attempted | Published, conf: dict[str, str]) -> Row:
    is_attempt = isinstance(begun, Attempted)
    return {
        "window": window.name,
        "attempt": begun.number if is_attempt else None,
        "offsets": window.offsets,
        "lost": sum(each.span for each in begun.lost) if isinstance(begun, Attempted) else 0,
        "published": begun.attempt if isinstance(begun, Published) else None,
        "conf": conf,
    }


def _confs(ledger: Ledger, attempt: Attempted, reader: Any) -> dict[str, str]:
    window = ledger.window(attempt.window)
    return {
        driver_conf.MANIFEST: ledger.manifest_uri(window),
        driver_conf.SHA256: window.manifest,
        driver_conf.ATTEMPT: str(attempt.number),
        driver_conf.COMMIT: str(ledger.state.number),
    } | {f"{driver_conf.PREFIX}{name}": value for name, value in reader.items()}


def _tell(window: str, published: Published | None, secrets: list[str]) -> None:
    if published is not None:
        print_remark(
            f"No driver is needed: attempt {published.attempt} is published. To load the same range again, run "
            f"kafka-offsets ledger reload {window} first."
        )
        return
    if secrets:
        print_remark(
            f"The connection has credentials ({', '.join(secrets)}), which aren't shown: give them to the driver in "
            f"the variable {driver_conf.SECRETS_VARIABLE}, as JSON."
        )
    print_remark(
        "Give these confs to the driver. When it has written and counted, publish its rows with kafka-offsets ledger "
        f"publish {window}."
    )


@command
def publish_window(args: Any) -> int:
    """Publish a window, and print the publication that counts."""
    ledger = stored_ledger(args)
    window = ledger.window(named_window(ledger, args))
    if window.loaded is not None and args.result is None:
        print_record(_published_row(window, window.loaded, None), args, _PUBLISHED)
        return 0
    with kafka_client(args) as client:
        if args.result is not None:
            to_publish = loads.take_over(client, ledger, window, _read(args.result))
        else:
            to_publish = left_to_publish(ledger, window) or _nothing_to_publish(ledger, window)
        found = returned(loads.publish_each(lambda: nullcontext(client), {window.name: to_publish})[window.name])
    print_record(_published_row(window, found, to_publish), args, _PUBLISHED)
    return 0


def _published_row(window: Window, found: Published, counted: Counted | None) -> Row:
    ours = counted is not None and (counted.result.attempt, counted.result.run) == (found.attempt, found.run)
    return {
        "window": window.name,
        "published": found.attempt,
        "run": found.run,
        "rows": found.rows,
        "output": found.output,
        "verdict": str(counted.verdict) if counted is not None and ours else None,
    }


def _nothing_to_publish(ledger: Ledger, window: Window) -> NoReturn:
    numbers = [str(each.number) for each in window.attempts if counted(ledger, window, each.number)]
    if not numbers:
        raise LedgerError(
            f"Nothing has loaded window {window.name} yet: no attempt has counted it. Run its load first."
        )
    raise LedgerError(
        f"None of the attempts at window {window.name} that have counted ({shorten(numbers)}) is proved and may be "
        "published; of one whose application failed after that, not all may be done. Load the window again."
    )


def _read(place: str) -> RunResult:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        fields = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--result {place} can't be read as JSON: {error}.") from error
    return loads.handed_over(fields, f"--result {place}")


@command
def write_files(args: Any) -> int:
    """Write the files, and print one row per file."""
    folder, load, audit = Path(args.folder), Path(LOAD_APPLICATION), Path(AUDIT_APPLICATION)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, used_as, content in (
        (BUNDLE_NAME, "Python file (--py-files)", bundle()),
        (load.name, "application", load.read_bytes()),
        (audit.name, "application that audits", audit.read_bytes()),
    ):
        (folder / name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        rows.append({"file": str(folder / name), "used_as": used_as, "bytes": len(content), "sha256": sha256})
    print_rows(rows, args, _FILES)
    return 0
