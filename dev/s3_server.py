"""An S3 server on this machine: moto's, with two operations changed to work like S3's.

A conditional put is atomic: moto checks first and then writes, so two writers could both win. And a list comes from a
sorted index: for each list, moto goes through all keys of a bucket, and it writes the answer slowly.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape

from dev.ports import HOST

_LAST = chr(0x10FFFF)
"""Sorts after every character that can follow in a name."""
_SUCCESS = ("200", "204")


class S3Application:
    """A WSGI application: S3, with buckets in memory that are addressed by path."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._names: dict[str, list[str]] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        bucket, _, key = unquote(environ["PATH_INFO"].lstrip("/")).partition("/")
        query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        with self._lock:
            if environ["REQUEST_METHOD"] == "GET" and not key and query.get("list-type") == "2" and self._has(bucket):
                answer = self._list(bucket, query).encode()
                start_response("200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(answer)))])
                return [answer]
            said: list[str] = []

            def start(status: str, headers: Any, *rest: Any) -> Any:
                said.append(status)
                return start_response(status, headers, *rest)

            answered = list(self._moto(environ, start))
            self._note(environ["REQUEST_METHOD"], bucket, key, query, said[0][:3] in _SUCCESS)
            return answered

    def _note(self, method: str, bucket: str, key: str, query: dict[str, str], done: bool) -> None:
        """Update the index to match the bucket."""
        names = self._names.get(bucket)
        if names is None or method in ("GET", "HEAD"):
            return
        at = bisect_left(names, key)
        there = names[at : at + 1] == [key]
        if not key or query:
            del self._names[bucket]  # several keys were deleted at once, or a multipart upload
        elif done and method == "PUT" and not there:
            insort(names, key)
        elif done and method == "DELETE" and there:
            del names[at]

    def _has(self, bucket: str) -> bool:
        from moto.s3.models import s3_backends

        return bucket in s3_backends[_ACCOUNT]["aws"].buckets

    def _list(self, bucket: str, query: dict[str, str]) -> str:
        from moto.s3.models import s3_backends

        keys = s3_backends[_ACCOUNT]["aws"].buckets[bucket].keys
        names = self._names.setdefault(bucket, sorted(keys))
        most, written = int(query.get("max-keys", 1000)), _writer(query.get("encoding-type"))
        after = query.get("continuation-token") or query.get("start-after") or ""
        page = list(_page(names, query.get("prefix", ""), query.get("delimiter", ""), after, most + 1))
        contents, folders = [], []
        for name, is_folder in page[:most]:
            if not is_folder:
                found = keys[name]
                contents.append(
                    f"<Contents><Key>{written(name)}</Key><LastModified>{found.last_modified_ISO8601}</LastModified>"
                    f"<ETag>{escape(found.etag)}</ETag><Size>{found.size}</Size>"
                    f"<StorageClass>{found.storage_class}</StorageClass></Contents>"
                )
            else:
                folders.append(f"<CommonPrefixes><Prefix>{written(name)}</Prefix></CommonPrefixes>")
        more = len(page) > most
        return "".join(
            (
                '<?xml version="1.0" encoding="UTF-8"?>',
                '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">',
                f"<Name>{bucket}</Name><Prefix>{written(query.get('prefix', ''))}</Prefix><MaxKeys>{most}</MaxKeys>",
                f"<KeyCount>{len(contents) + len(folders)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>",
                f"<EncodingType>{query['encoding-type']}</EncodingType>" if "encoding-type" in query else "",
                f"<NextContinuationToken>{escape(page[most - 1][0])}</NextContinuationToken>" if more and most else "",
                *contents,
                *folders,
                "</ListBucketResult>",
            )
        )


_ACCOUNT = "123456789012"
"""The account that moto uses for any access key."""


def _writer(encoding: str | None) -> Callable[[str], str]:
    return quote if encoding == "url" else escape


def _page(names: list[str], prefix: str, delimiter: str, after: str, most: int) -> Iterator[tuple[str, bool]]:
    """Names that begin with a prefix and follow a name, and whether each is a folder. If there is a delimiter, folders
    replace the names in them."""
    at = max(bisect_left(names, prefix), bisect_right(names, after) if after else 0)
    if delimiter and after.endswith(delimiter):
        at = max(at, bisect_left(names, after + _LAST))
    while most and at < len(names) and names[at].startswith(prefix):
        folder, found, _ = names[at][len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            yield f"{prefix}{folder}{found}", True
            at = bisect_left(names, f"{prefix}{folder}{found}{_LAST}", at)
        else:
            yield names[at], False
            at += 1
        most -= 1


@contextmanager
def serving(application: Any = None) -> Iterator[str]:
    """The endpoint of a server in this process.

    :param application: None for :class:`S3Application` itself.
    """
    server = make_server(application or S3Application())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{HOST}:{server.port}"
    finally:
        server.shutdown()
        server.server_close()


def make_server(application: Any, port: int = 0) -> Any:
    """Werkzeug's server for an application, on a free port unless one is given. It isn't serving yet."""
    from werkzeug.serving import WSGIRequestHandler, make_server as make

    class KeepsConnections(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    return make(HOST, port, application, threaded=True, request_handler=KeepsConnections)
