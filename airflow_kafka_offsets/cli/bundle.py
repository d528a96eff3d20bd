"""``kafka-offsets bundle``: writes the files that a Spark driver needs when something else submits it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.printing import Column, command, print_rows
from airflow_kafka_offsets.submission.driver_bundle import AUDIT_APPLICATION, BUNDLE_NAME, LOAD_APPLICATION, bundle

_COLUMNS = (Column("file", folds=True), Column("used_as"), Column("bytes"), Column("sha256", folds=True))


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
    print_rows(rows, args, _COLUMNS)
    return 0
