"""``objects.inv``: where each public name is explained on the site, for tools that link to it.

Airflow's Provider Registry looks classes up in it, and so does ``intersphinx``. The format is Sphinx's, version 2: four
lines of text, then one line for each name, compressed by zlib. pdoc, which makes the pages, doesn't write it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pdoc import doc

PROJECT = "airflow-kafka-offsets"
_ANCHOR = re.compile(r'\bid="([A-Za-z]\w*(?:\.[A-Za-z]\w*)?)"')
"""Of a public name: pdoc gives each one the name as its id."""


def inventory(modules: Iterable[doc.Module], pages: Path, folder: str, version: str) -> bytes:
    """The file's content.

    :param pages: the folder with pdoc's pages.
    :param folder: what the site calls that folder.
    """
    lines = [
        f"{name} py:{role} 1 {folder}/{address} -\n"
        for module in modules
        for name, role, address in _names(module, pages)
    ]
    head = f"# Sphinx inventory version 2\n# Project: {PROJECT}\n# Version: {version}\n"
    note = "# The remainder of this file is compressed using zlib.\n"
    return (head + note).encode() + zlib.compress("".join(lines).encode(), 9)


def _names(module: doc.Module, pages: Path) -> Iterator[tuple[str, str, str]]:
    """A module and its names, with Sphinx's word for what each is, and its address."""
    page = f"{module.modulename.replace('.', '/')}.html"
    yield module.modulename, "module", page
    for anchor in _ANCHOR.findall((pages / page).read_text(encoding="utf-8")):
        found = module.get(anchor)
        if found is not None:
            yield f"{module.modulename}.{anchor}", _role(found, is_member="." in anchor), f"{page}#{anchor}"


def _role(found: doc.Doc[object], *, is_member: bool) -> str:
    if isinstance(found, doc.Class):
        return "exception" if issubclass(found.obj, BaseException) else "class"
    if isinstance(found, doc.Function):
        return "method" if is_member else "function"
    return "attribute" if is_member else "data"
