"""What states and evidence mean, in words for people who are on call."""

from __future__ import annotations

from airflow_kafka_offsets.offsets.windows.snapshots import Evidence

STATES = {
    "pinned": "Its ranges are pinned; no load has begun.",
    "loading": "A load was submitted and may be running; no failure of it was noted.",
    "failed": "Every attempt to load it is known to have failed. Clear the run.",
    "counted": "A load has written and counted its rows; they aren't published yet.",
    "lost": "Kafka has deleted some of its records before they were loaded.",
    "published": "Its rows count for readers; the verify task hasn't recorded its verdict yet.",
    "verified": "Published, and proved: what was read, what was written and the log agree.",
    "hole": "Published windows leave these offsets out, and no window has them.",
    "overlap": "Another published window has some of the same offsets.",
    "revised": "The window was pinned again; the newest published revision counts.",
}

EVIDENCE = {
    Evidence.MATCHED: "there is a record at or after the instant",
    Evidence.LOG_END: "there was no record at or after the instant: it is the end of the log",
    Evidence.LOG_START: "the log starts there; records before it, if there were any, are gone",
    Evidence.NEW_PARTITION: "the partition was added later: its log starts there",
    Evidence.CLAMPED: "a neighbouring snapshot that was stored earlier decides",
    Evidence.MATCHED_MARKER: "there is a transaction marker or an aborted record; later records may be older",
    Evidence.COMMITTED: "a group has committed that offset",
    Evidence.CHOSEN: "the user named the instant from which an added topic is loaded",
}
