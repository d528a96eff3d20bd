"""A schema registry, asked as Confluent's REST API says; Apicurio, Karapace and Redpanda answer the same requests.

A driver has nothing but the standard library, so this is urllib. What was registered under an id or a version never
changes, so a driver asks for each once, however many windows it loads. What a subject's versions mean for a window is
in :mod:`.subjects`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError, RegistryError, RegistryUnreachableError

URL, AUTHORIZATION, CA_LOCATION, VERIFY = ("registry.url", "registry.authorization", "registry.ca", "registry.verify")
"""Options of a run: the address, the value of the header ``Authorization`` (a secret), a file of certificate
authorities in PEM on the driver, and ``false`` to trust any certificate."""

_TIMEOUT_S = 15.0
_TRIES, _PAUSE_S = 3, 0.5
_LATER = (429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
_SUBJECT_UNKNOWN, _VERSION_UNKNOWN, _ID_UNKNOWN = 40401, 40402, 40403
_SHOWN = 300

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Reference:
    """What another schema calls a schema, and where that is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, as the registry has it.

    :param id: its number, which records name.
    :param guid: its other name, which records name in headers; None if the registry has none (before Confluent 8).
    :param version: its number in the subject; None if it was asked for by id.
    :param kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    """

    id: int
    guid: str | None
    version: int | None
    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], number: int | None, version: int | None) -> Self:
        """Read a registry's answer, which has the id if it was asked for a version. Raises AttributeError, KeyError,
        TypeError or ValueError when it is something else."""
        references = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in fields.get("references") or ()
        )
        kind = fields.get("schemaType") or "AVRO"
        number = int(fields["id"]) if number is None else number
        return cls(number, fields.get("guid"), version, kind, str(fields["schema"]), references)


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a registry is, and how to log in.

    :param authorization: value of the header ``Authorization``; None without a login.
    :param ca_location: a file with the authorities that may have signed its certificate; None for the system's.
    """

    url: str
    authorization: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    verify: bool = True

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self | None:
        """Read a run's options; None if they name no registry.

        :raises ConfigurationError: the address isn't one of the web, or holds a password, which logs would show; or the
            login can't be sent. What says so doesn't show it.
        """
        if not options.get(URL):
            return None
        url, verify = options[URL].rstrip("/"), options.get(VERIFY, "true").lower() != "false"
        if not options.get(AUTHORIZATION, "").isprintable() or not options.get(AUTHORIZATION, "").isascii():
            raise ConfigurationError(
                "The schema registry's login has a character that no header can have, such as a line break at the end "
                "of a token that was read from a file."
            )
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"The schema registry's address must be http(s)://host, not {parts.scheme}:….")
        if parts.username or parts.password:
            raise ConfigurationError(
                "The schema registry's address holds a login, which logs would show. Put it into the connection's "
                "login and password."
            )
        return cls(url, options.get(AUTHORIZATION), options.get(CA_LOCATION), verify)


class _NoRedirects(HTTPRedirectHandler):
    """Follow no redirect: the login would go to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """A registry: asks once for each schema.

    :raises ConfigurationError: the file of authorities can't be read.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self._opener = build_opener(_NoRedirects, HTTPSHandler(context=_tls(settings)))
        self._known: dict[str, RegisteredSchema] = {}

    def versions(self, subject: str) -> tuple[list[int], list[int]]:
        """A subject's versions, in order: all of them, also those that were deleted softly, as records still name them;
        and those that weren't, if there are any.

        :raises RegistryError: there is no such subject, or the registry refuses.
        :raises RegistryUnreachableError: it doesn't answer.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        every = self._ask(f"{path}?deleted=true", _numbers)
        if every is None:
            raise RegistryError(
                f"The schema registry at {self.settings.url} has no subject {subject}. Name the one that its producers "
                "register under (subject=)."
            )
        current = self._ask(path, _numbers) or ()
        # Another may have been registered in between.
        return every, [number for number in current if number in every] or every

    def version(self, subject: str, version: int, kind: str) -> RegisteredSchema:
        """A version of a subject.

        :param kind: what the schema has to be, as in :class:`RegisteredSchema`.
        :raises RegistryError: there is no such version, it is of another kind, or the registry refuses.
        :raises RegistryUnreachableError: it doesn't answer.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        return self._schema(path + _form(kind), kind, f"version {version} of subject {subject}", version=version)

    def by_id(self, number: int, kind: str) -> RegisteredSchema:
        """A schema by its id. Arguments and errors as for :meth:`version`."""
        path = f"/schemas/ids/{number}" + _form(kind).replace("&", "?")
        return self._schema(path, kind, f"schema with id {number}", number=number)

    def _schema(
        self, path: str, kind: str, what: str, *, number: int | None = None, version: int | None = None
    ) -> RegisteredSchema:
        schema = self._known.get(path) or self._ask(
            path, lambda fields: RegisteredSchema.from_json(fields, number, version)
        )
        if schema is None:
            raise RegistryError(f"The schema registry at {self.settings.url} has no {what}.")
        self._known[path] = schema
        if schema.kind != kind:
            raise RegistryError(
                f"In the schema registry, the {what} is of type {schema.kind}, but the load decodes {kind}. Set "
                "value_format= (or key_format=) to what producers write."
            )
        return schema

    def _ask(self, path: str, parse: Callable[[Any], Found]) -> Found | None:
        """What the registry answers; None if it has no such thing."""
        request = Request(self.settings.url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self.settings.authorization is not None:
            request.add_header("Authorization", self.settings.authorization)
        for last in (*(False for _ in range(_TRIES - 1)), True):
            try:
                with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                    return self._read(answer, parse)
            except HTTPError as error:
                with error:
                    if error.code not in _LATER or last:
                        self._refuse(error)
                        return None
            except (TimeoutError, URLError, HTTPException, ConnectionError, ssl.SSLError) as error:
                if last or _is_certificate(error):
                    raise self._unreachable(error) from error
            time.sleep(_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    def _read(self, answer: IO[bytes], parse: Callable[[Any], Found]) -> Found:
        try:
            return parse(json.loads(answer.read()))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise RegistryError(
                f"What answers at {self.settings.url} is no schema registry: its answer isn't the JSON of one. "
                "Apicurio's path is /apis/ccompat/v7."
            ) from None

    def _refuse(self, error: HTTPError) -> None:
        """Raise what an answer says, unless it is that the registry hasn't what was asked for."""
        code, said = _explained(error)
        if error.code == 404 and code in (_SUBJECT_UNKNOWN, _VERSION_UNKNOWN, _ID_UNKNOWN):
            return
        at = f"The schema registry at {self.settings.url}"
        if error.code in (401, 403):
            raise RegistryError(
                f"{at} refused the {'login' if self.settings.authorization else 'request, which had no login'} "
                f"(HTTP {error.code}): {said}. Check the login, password or token of its connection."
            ) from None
        if 300 <= error.code < 400:
            raise RegistryError(f"{at} is elsewhere: it redirects (HTTP {error.code}). Give its own address.") from None
        if error.code in _LATER:
            raise RegistryUnreachableError(f"{at} can't answer now (HTTP {error.code}): {said}.") from None
        raise RegistryError(f"{at} answered HTTP {error.code}: {said}. Is that address its API?") from None

    def _unreachable(self, error: Exception) -> RegistryError:
        reason = error.reason if isinstance(error, URLError) else error
        at = f"The schema registry at {self.settings.url}"
        if _is_certificate(error):
            return RegistryError(
                f"{at} has a certificate that this driver doesn't trust: {reason}. Name its authority's file in "
                "the connection's verify."
            )
        return RegistryUnreachableError(f"{at} doesn't answer: {reason}. Can the driver reach it?")


@cache
def registry_of(settings: RegistrySettings) -> SchemaRegistry:
    """The registry, which all windows of this driver ask."""
    return SchemaRegistry(settings)


def _numbers(versions: list[int]) -> list[int]:
    if not isinstance(versions, list):
        raise TypeError(f"{type(versions).__name__} instead of a list")
    return sorted(map(int, versions))


def _form(kind: str) -> str:
    """How a schema is to be written: Protobuf as a descriptor, since nothing here reads the language."""
    return "&format=serialized" if kind == "PROTOBUF" else ""


def _tls(settings: RegistrySettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_location)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The schema registry's certificate authorities can't be read from {settings.ca_location} on the driver: "
            f"{error}."
        ) from error
    if not settings.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _is_certificate(error: Exception) -> bool:
    reason = error.reason if isinstance(error, URLError) else error
    return isinstance(reason, ssl.SSLCertVerificationError)


def _explained(error: HTTPError) -> tuple[int | None, str]:
    """The registry's own code and words in an answer."""
    text = error.read(_SHOWN * 4).decode(errors="replace")
    try:
        fields = json.loads(text)
        return int(fields["error_code"]), str(fields["message"])[:_SHOWN].rstrip(".")
    except (ValueError, KeyError, TypeError):
        return None, " ".join(text.split())[:_SHOWN].rstrip(".") or str(error.reason)
