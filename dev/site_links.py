"""What the site has in addition to the pages of ``docs/``: the reference of the public API, an inventory of its names,
and links to other files.

A hook of mkdocs, which ``make docs`` runs.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import airflow_kafka_offsets
from dev import ROOT, api_reference
from dev.inventory import inventory

API = "api"
"""The folder of the API's reference in the site."""
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)\s]*)(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that pdoc makes of the docstrings, and where each name is on them."""
    with tempfile.TemporaryDirectory() as folder:
        documented = api_reference.write(Path(folder))
        names = inventory(documented, Path(folder), API, airflow_kafka_offsets.__version__)
        files.append(File.generated(config, "objects.inv", content=names))
        for page in sorted(Path(folder).rglob("*")):
            if page.is_file():
                name = f"{API}/{page.relative_to(folder).as_posix()}"
                files.append(File.generated(config, name, content=page.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Make links to files outside ``docs/`` lead to the repository.

    :raises FileNotFoundError: a linked file doesn't exist.
    """
    folder = posixpath.dirname(page.file.src_uri)

    def outside(found: re.Match[str]) -> str:
        path, _, anchor = found[2].partition("#")
        target = posixpath.normpath(posixpath.join("docs", folder, path))
        if target.startswith("docs/") or target == "docs":
            return found[0]
        if not (ROOT / target).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {target}")
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{found[1]}{config.extra['repository']}/{kind}/main/{target}{anchor and f'#{anchor}'}{found[3]}"

    return _LINK.sub(outside, markdown)
