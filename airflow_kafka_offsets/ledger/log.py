"""A pipeline's log of commits, and the one loop that changes it. All races, crashes and clocks end here.

To change anything: read the state, decide, create the commit with the next number exclusively. If another writer took
that number, read what it committed and decide anew. So whoever gets a number has decided in full knowledge of all that
came before, and a commit is a step that happened or didn't. Delta Lake and Iceberg's catalogs commit the same way.

A commit repeats those since the checkpoint that it rests on: the newest commit and its checkpoint are all that a reader
needs, however long the log is.
"""

from __future__ import annotations

import gc
import gzip
import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import AnyEntry, entry_from_json, entry_to_json
from airflow_kafka_offsets.ledger.files import Files, checkpoint_file, commit_file, newest_commit
from airflow_kafka_offsets.ledger.state import Commit, State, fold
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.windows.manifest import digest

log = logging.getLogger(__name__)

_MOST_SINCE, _MOST_SINCE_BYTES = 50, 65_536
"""Most commits that one repeats, and most bytes of them. Then its writer makes a checkpoint."""
_LONGEST_PAUSE_S = 0.1


class RestsOn(NamedTuple):
    """What a reader needs besides a commit.

    :param checkpoint: number of the checkpoint that it rests on; 0 for the empty state.
    :param sha256: hash of that checkpoint's file; empty for the empty state.
    :param since: the commits between the two.
    """

    checkpoint: int = 0
    sha256: str = ""
    since: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A commit as it is stored.

    :param id: made for it alone, so that its writer recognises its own file.
    """

    id: str
    commit: Commit
    rests_on: RestsOn

    def to_bytes(self) -> bytes:
        since = [_entries_json(commit) for commit in self.rests_on.since]
        fields = {
            "format": plain_json.FORMAT,
            "id": self.id,
            "number": self.commit.number,
            "entries": _entries_json(self.commit),
            "rests_on": self.rests_on._asdict() | {"since": since},
        }
        return plain_json.text_of(fields).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of :meth:`to_bytes`.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            fields = json.loads(content)
            if fields["format"] != plain_json.FORMAT:
                raise ValueError(f"format {fields['format']!r}, this version reads {plain_json.FORMAT}")
            rests_on, number = fields["rests_on"], fields["number"]
            first = rests_on["checkpoint"] + 1
            since = tuple(_commit(first + place, each) for place, each in enumerate(rests_on["since"]))
            if first + len(since) != number:
                raise ValueError(f"commit {number} repeats {len(since)} commits from {first} on")
            below = RestsOn(first - 1, str(rests_on["sha256"]), since)
            return cls(str(fields["id"]), _commit(number, fields["entries"]), below)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"it is not a commit: {error!r}") from error


def _entries_json(commit: Commit) -> list[dict[str, Any]]:
    return list(map(entry_to_json, commit.entries))


def _commit(number: int, entries: Iterable[dict[str, Any]]) -> Commit:
    return Commit(number, tuple(map(entry_from_json, entries)))


def checkpoint_of(state: State) -> bytes:
    """A state as a file, which may be deleted at any time. A commit names the checkpoint that it rests on by its number
    and its hash. So one that is missing, torn, or forged is found out, and costs time alone: the commits before it are
    read instead."""
    return gzip.compress(plain_json.to_bytes(state), mtime=0)


def state_of(checkpoint: bytes) -> State:
    """The inverse of :func:`checkpoint_of`."""
    was_enabled = gc.isenabled()
    gc.disable()  # Python's collector would look through all rows again and again while they are made
    try:
        return plain_json.from_bytes(State, gzip.decompress(checkpoint), "a checkpoint")
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Head:
    """The state after the newest commit that was read, and what the next one may rest on."""

    state: State
    rests_on: RestsOn


class Log:
    """One pipeline's log.

    :param files: the files of its folder.
    :param where: the folder, for messages.
    :param at_least: the number of a commit that exists, if one is known; it saves a listing.
    """

    def __init__(self, files: Files, where: str, at_least: int = 0) -> None:
        self._files = files
        self._where = where
        self._at_least = at_least
        self._head = _Head(State(), RestsOn())

    def read(self) -> State:
        """The state now: what all commits add up to.

        :raises LedgerCorruptError: when a commit is damaged or missing.
        :raises LedgerConflictError: when the log is older than the commit that is known.
        """
        known = max(self._at_least, self._head.state.number)
        listed = newest_commit(self._files, known)
        if listed < known:  # the store lists late, or the log was restored from an older copy
            self._file(known, is_newest=True)
        self._advance(max(listed, known))
        return self._head.state

    def change(self, decide: Callable[[State], Sequence[AnyEntry]]) -> tuple[State, int]:
        """Commit what a decision says about the state, whatever other writers do meanwhile.

        :param decide: called again with each newer state, until its entries are committed, or there are none.
        :returns: the state afterwards, and the number of the commit; 0 if nothing had to be changed.
        :raises: what ``decide`` raises; nothing is committed then.
        """
        tries, is_new = 0, False
        while True:
            decided_on = self._head
            entries = self._decided(decide, decided_on.state, is_new)
            if entries:
                number = decided_on.state.number + 1
                if self._create(Commit(number, entries), decided_on):
                    return self._head.state, number
                tries += 1
                # Those who have waited longest pause least, so that nobody starves.
                time.sleep(random.uniform(0, _LONGEST_PAUSE_S / tries))
                self._advance(max(number, newest_commit(self._files, number)))
            elif is_new:
                return decided_on.state, 0
            else:
                self.read()
            is_new = True

    def _decided(
        self, decide: Callable[[State], Sequence[AnyEntry]], state: State, is_new: bool
    ) -> tuple[AnyEntry, ...]:
        """What is decided about a state. If nothing is, or it is refused, the state may just be old; if something is,
        only a state that is still the newest lets it be committed. So a listing is saved mostly."""
        if not is_new and not state.number:
            return ()
        try:
            return tuple(decide(state))
        except KafkaOffsetsError:
            if is_new:
                raise
            return ()

    def _create(self, commit: Commit, decided_on: _Head) -> bool:
        """Create a commit; False when its number is taken.

        :param decided_on: what it was decided on. The head itself may have moved on since: who decides may read.
        """
        rests_on = self._checkpointed(decided_on)
        made = CommitFile(uuid4().hex, commit, rests_on)
        state = fold(decided_on.state, [commit])
        if not self._files.create(commit_file(commit.number), made.to_bytes()):
            return False
        self._head = _Head(state, rests_on._replace(since=(*rests_on.since, commit)))
        return True

    def _checkpointed(self, head: _Head) -> RestsOn:
        """What the next commit rests on: a new checkpoint, if there is much since the last one; stored before a commit
        names it."""
        since = head.rests_on.since
        size = sum(len(plain_json.text_of(_entries_json(commit))) for commit in since)
        if len(since) < _MOST_SINCE and size < _MOST_SINCE_BYTES:
            return head.rests_on
        content = checkpoint_of(head.state)
        self._files.replace(checkpoint_file(head.state.number), content)
        return RestsOn(head.state.number, digest(content))

    def _advance(self, number: int) -> None:
        if number <= self._head.state.number:
            return
        newest, before = self._file(number, is_newest=True), self._head
        commits = (*newest.rests_on.since, newest.commit)
        known = {each.number: each for each in before.rests_on.since}
        shared = [each for each in commits if each.number in known]
        # What was read before is as good as the checkpoint, unless the log was restored from an older copy since.
        if shared and all(each == known[each.number] for each in shared):
            state = fold(before.state, [each for each in commits if each.number > before.state.number])
        else:
            state = self._state_at(newest)
        self._head = _Head(state, newest.rests_on._replace(since=commits))

    def _state_at(self, newest: CommitFile) -> State:
        """The state after a commit. If its checkpoint doesn't help, those before it are read."""
        commit, commits = newest, list[Commit]()
        while True:
            base, sha256, since = commit.rests_on
            commits = [*since, commit.commit, *commits]
            if not base:
                return fold(State(), commits)
            content = self._files.read(checkpoint_file(base))
            if content is not None and digest(content) == sha256:
                return fold(state_of(content), commits)
            log.info(
                "Checkpoint %s of %s is missing or was changed: older commits are read instead.", base, self._where
            )
            commit = self._file(base)

    def _file(self, number: int, *, is_newest: bool = False) -> CommitFile:
        name = commit_file(number)
        content = self._files.read(name)
        if content is None and is_newest:  # nothing lists it: somebody has said that it exists
            raise LedgerConflictError(
                f"{self._where} has no commit {number}, though an earlier task has seen it: the ledger was restored "
                "from an older copy since, made anew, or moved. Clear the task that resolves, and all after it."
            )
        if content is None:
            raise LedgerCorruptError(
                f"{self._where}/{name} is missing, though later commits exist: restore the file, from a backup or an "
                "earlier version of the object."
            )
        try:
            return CommitFile.from_bytes(content)
        except LedgerCorruptError as error:
            raise LedgerCorruptError(
                f"{self._where}/{name} is damaged: {error}. Restore it as it was, from a backup or an earlier version "
                "of the object."
            ) from error
