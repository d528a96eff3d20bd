"""What states and evidence mean, in words for somebody on call."""

from __future__ import annotations

from airflow_kafka_offsets.offsets.windows.snapshots import Evidence

STATES = {
    "pinned": "Its ranges are pinned, and no load has begun.",
    "loading": "A load was submitted and may be running; no failure has been recorded.",
    "failed": "Every attempt to load it is known to have failed. Clear the Airflow run to try again.",
    "counted": "A load has written and counted its rows, but they aren't published yet.",
    "lost": "Kafka deleted some of its records before they were loaded.",
    "published": "Its rows are published, but the verify task hasn't recorded a verdict yet.",
    "verified": "Published, and proved: what was read, what was written and the log agree.",
    "hole": "These offsets are between published windows, and no window has them.",
    "overlap": "Another published window contains some of the same offsets.",
    "revised": "The window was pinned again; the newest published revision counts.",
}

EVIDENCE = {
    Evidence.MATCHED: "there is a record at or after the instant",
    Evidence.LOG_END: "there was no record at or after the instant, so it is the end of the log",
    Evidence.LOG_START: "the log starts there; earlier records, if there were any, are gone",
    Evidence.NEW_PARTITION: "the partition was added later, and its log starts there",
    Evidence.CLAMPED: "the offset is limited by a neighbouring snapshot that was stored earlier",
    Evidence.MATCHED_MARKER: "there is a transaction marker or an aborted record; later records may be older",
    Evidence.COMMITTED: "a group committed that offset",
    Evidence.CHOSEN: "the user chose that instant as the start of an added topic",
}
