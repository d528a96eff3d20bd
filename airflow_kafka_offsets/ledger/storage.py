"""Files on any store that fsspec reaches, with the one operation that the ledger relies on: exclusive creation.

A file appears with its whole content or not at all, and only one of two racing writers creates it. Local disks use a
hard link for that, object stores a conditional put. There is no lock and no server. What was created so is never
changed; :func:`replace_file` is for files that can be derived again.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ExclusiveCreateError, KafkaOffsetsError, StoreFailedError, or_error

_LOCAL = ("file", "local", "")
_S3 = ("s3", "s3a")
_AZURE = ("abfs", "abfss", "az", "adl")
_CONDITIONAL_PUT = (*_S3, "gs", "gcs", *_AZURE)
"""Stores whose fsspec file system supports a conditional put: recent versions of s3fs, gcsfs and adlfs. Creating a
ledger tests whether this one does."""
AT_A_TIME = 16
"""Small files requested at a time: on an object store, each takes a round trip or two."""
_MOST_TRIES = 15
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
"""Pauses before a file is created again grow from the one to the other: about five seconds for all of them."""
_TAKEN = (409, 412)
_LONGEST_LINE = 200
"""How much is shown of an error."""
_HADOOP_SCHEMES = {"gcs": "gs", "local": "file", "": "file"}

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LedgerPath:
    """A file or folder that keeps its file system: Airflow's own path looks up its connection on each access.

    :param fs: the file system.
    :param path: the path on that file system.
    :param protocol: the store's scheme.
    :param uri: the URI as the user gave it.
    """

    fs: Any
    path: str
    protocol: str
    uri: str

    @classmethod
    def of(cls, path: Any) -> Self:
        """The same place as another kind of path, which has UPath's interface."""
        return cls(path.fs, path.path.rstrip("/"), path.protocol, str(path).rstrip("/"))

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, name: str, /) -> Self:
        return replace(self, path=f"{self.path}/{name}", uri=f"{self.uri}/{name}")

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files below a pipeline's folder, as the ledger's log takes them: see :class:`.files.Files`.

    :param folder: the pipeline's folder.
    """

    folder: LedgerPath

    def names(self, folder: str) -> list[str]:
        return names(self.folder / folder)

    def read(self, name: str) -> bytes | None:
        return read(self.folder / name)

    def create(self, name: str, content: bytes) -> bool:
        return create_exclusive(self.folder / name, content)

    def replace(self, name: str, content: bytes) -> None:
        replace_file(self.folder / name, content)


def uri_for_spark(path: LedgerPath) -> str:
    """The URI that Spark is given for a path: with a scheme, and without the connection id before the ``@``. S3 stays
    ``s3``, as people and other engines spell it; the driver makes Hadoop's ``s3a`` of it."""
    parts = urlsplit(str(path))
    scheme = _HADOOP_SCHEMES.get(path.protocol, path.protocol)
    *before, place = parts.netloc.split("@")
    account = getattr(path.fs, "account_name", None)
    if path.protocol in _AZURE and "." in place and before:  # a host, as no container has a dot in its name
        scheme, place = "abfss", f"{before[-1]}@{place}"
    elif path.protocol in _AZURE and account:
        # fsspec takes the account from its connection, Hadoop from the URI.
        scheme, place = "abfss", f"{place}@{account}.dfs.core.windows.net"
    return urlunsplit(parts._replace(scheme=scheme, netloc=place))


def create_exclusive(path: LedgerPath, content: bytes) -> bool:
    """Create a file with this content, unless it exists.

    :returns: True when the file now holds exactly this content; False when it holds another writer's. If a first
        request succeeded but its response was lost, the retry finds its own content, and returns True.
    :param content: at least one byte: fsspec creates an empty object on S3 unconditionally, whatever the mode.
    :raises ExclusiveCreateError: when the store can't create exclusively.
    :raises StoreFailedError: when the store goes on answering that others are creating it, and there is no file.
    """
    if not content:
        raise ValueError(f"{path} can't be created exclusively without content.")
    for tries in range(_MOST_TRIES):
        if tries:
            # Half of it at random, so that writers that were refused together don't come back together.
            pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**tries)
            time.sleep(random.uniform(pause_s / 2, pause_s))
        try:
            _create(path, content)
        except ExclusiveCreateError:
            raise
        except Exception as error:  # adlfs passes Azure's own errors on, which aren't OSErrors
            # Not every store raises FileExistsError for a conflict: S3 has two codes for it, and its imitators others.
            stored = read(path)
            if stored is not None:
                return stored == content
            if not _is_refusal(error):
                raise
            # Another put of that name is in progress, or the writer that had created it has deleted it in between.
            refusal = error
        else:
            return True
    raise StoreFailedError(
        f"{path} couldn't be created in {_MOST_TRIES} tries: each time, the store answered that somebody else is "
        f"creating it ({refusal}), and then that there is no such file. Try again."
    ) from refusal


def replace_file(path: LedgerPath, content: bytes) -> None:
    """Create or replace a file that can be derived again. Readers see the old content or the new."""
    if path.protocol in _LOCAL:
        replace_local(Path(path.path), content)
    else:
        path.fs.pipe_file(path.path, content)


def _create(path: LedgerPath, content: bytes) -> None:
    if path.protocol in _LOCAL:
        create_local(Path(path.path), content)
    elif path.protocol in _AZURE:
        # Mode "xb" stages blocks first, which another writer's put discards.
        path.fs.pipe_file(path.path, content, overwrite=False)
    elif path.protocol in _CONDITIONAL_PUT:
        with path.fs.open(path.path, "xb") as file:
            file.write(content)
    else:
        raise ExclusiveCreateError(
            f"{path} is on a store ({path.protocol}) that can't create a file exclusively: two writers could both win. "
            f"Put the ledger on a local disk or on one of {', '.join(_CONDITIONAL_PUT)}."
        )


def require_exclusive_creation(folder: LedgerPath) -> None:
    """Test whether a store lets only one of two writers create a file. Its scheme doesn't tell: S3-compatible servers
    that ignore ``If-None-Match`` let both win, and keep the second one's content.

    :raises ExclusiveCreateError: naming the store, when it lets both win.
    :raises OSError: when it doesn't answer, or denies access: the test is then inconclusive, and a retry repeats it.
    """
    probe = folder / f".probe-{uuid4().hex}"
    refused = False
    try:
        _create(probe, b"first")
        try:
            _create(probe, b"second")
        except OSError as error:
            if not _is_refusal(error):
                raise
            refused = True
        stored = read(probe)
    finally:
        with suppress(Exception):  # permission to create doesn't imply permission to delete
            probe.fs.rm_file(probe.path)
    if not refused or stored != b"first":
        raise ExclusiveCreateError(
            f"{folder}: {_server(folder)} let two writers create the same file, because it ignores the "
            "condition of a put (If-None-Match), so two tasks could both create the same commit. "
            "Nothing was written. Update that server, or put the ledger on a store with conditional writes: AWS S3, "
            "Google Cloud Storage, Azure Storage, MinIO or a local disk."
        )


def _is_refusal(error: Exception) -> bool:
    """Whether a store's error says that the name is taken: status 412, and on S3 also 409 while another put of that
    name is in progress.

    adlfs and gcsfs raise FileExistsError, and so does s3fs for AWS's own wording; for others, s3fs raises an error
    whose cause is botocore's, with the response as a dictionary.
    """
    answer = getattr(error.__cause__, "response", None)
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, Mapping) else {}
    return isinstance(error, FileExistsError) or metadata.get("HTTPStatusCode") in _TAKEN


def _server(folder: LedgerPath) -> str:
    """The store in words, with its endpoint if it isn't the scheme's default."""
    endpoint = getattr(folder.fs, "endpoint_url", None) or getattr(folder.fs, "_endpoint", None)
    client = dict(getattr(folder.fs, "client_kwargs", None) or {})
    endpoint = client.get("endpoint_url") or endpoint
    return f"the store ({folder.protocol}, {endpoint})" if endpoint else f"the store ({folder.protocol})"


def read(path: LedgerPath) -> bytes | None:
    """A file's content; None when there is no such file."""
    # By default, s3fs asks for the size first, to read large files in parts: two round trips instead of one.
    options = {"max_concurrency": 1} if path.protocol in _S3 else {}
    try:
        content: bytes = path.fs.cat_file(path.path, **options)
    except FileNotFoundError:
        return None
    return content


def names(folder: LedgerPath) -> list[str]:
    """Names in a folder, in order; empty when there is no such folder. Drafts are left out."""
    folder.fs.invalidate_cache(folder.path)
    try:
        paths = folder.fs.ls(folder.path, detail=False)
    except FileNotFoundError:
        return []
    last_parts = (str(path).rstrip("/").rpartition("/")[2] for path in paths)
    return sorted(name for name in last_parts if name and not name.startswith(".") and name != folder.name)


def in_parallel(ask: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call a function for each of many files or folders in parallel, and return the results in order."""
    each = list(items)
    if len(each) < 2:
        return [ask(item) for item in each]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(ask, each))


def outcomes(ask: Callable[[T], R], items: Iterable[T]) -> dict[T, R | KafkaOffsetsError]:
    """Call a function for each of many items in parallel. An error of this package stands in the place of what it would
    have returned, so that one that fails doesn't hold up the others."""
    each = list(items)
    return dict(zip(each, in_parallel(lambda item: or_error(lambda: ask(item)), each), strict=True))


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that can't sync a folder."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


def create_local(path: Path, content: bytes) -> None:
    """Write a draft beside it, then link it: a link is atomic, and fails when the name is taken.

    :raises FileExistsError: when the name is taken.
    :raises ExclusiveCreateError: when the disk has no hard links.
    """
    _make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _sync(path.parent)
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise ExclusiveCreateError(
                f"The disk of {path} doesn't support hard links, which are needed to create files exclusively. Put "
                "the ledger on another disk, or on an object store."
            ) from error
        raise
    finally:
        draft.unlink(missing_ok=True)


def replace_local(path: Path, content: bytes) -> None:
    """Write a draft beside it, then rename the draft over it."""
    _make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_bytes(content)
    draft.replace(path)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, synced to disk, so that they survive a power cut like the file in them."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Sync a folder's names to disk: syncing a file doesn't guarantee its name."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(place)


def is_from_store(error: BaseException) -> bool:
    """Whether the store failed: the last module of this package in the traceback is the one that accesses files."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in modules if name.startswith("airflow_kafka_offsets.")]
    return bool(ours) and ours[-1] == __name__


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:_LONGEST_LINE].removesuffix(": ").rstrip(".")
