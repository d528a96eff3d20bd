"""The reference of the public API as HTML, made from docstrings by pdoc: a part of the site that ``make docs`` builds.

A warning of pdoc's is an error. What is done for that here: the fields of a named tuple are annotated with names that
only its own module knows, so that they are looked up for pdoc; names that a module imports when they are asked for are
asked for; and what Airflow's base classes leave unannotated is theirs to document.
"""

from __future__ import annotations

import typing
import warnings
from collections.abc import Iterator
from pathlib import Path

import pdoc
from pdoc import doc, render

import airflow_kafka_offsets

AIRFLOWS_OWN = (
    r"Cannot determine where .*_BaseOperator__",
    r"(Failed to run TYPE_CHECKING code|Error parsing type annotation).*Kafka\w+Trigger\.task",
    r"(Failed to run TYPE_CHECKING code|Error parsing type annotation).*airflow\.triggers\.base",
)
"""Beginnings of warnings about members that our classes inherit from Airflow's."""


def modules(module: doc.Module) -> Iterator[doc.Module]:
    """A module and all that are in it."""
    yield module
    for each in module.submodules:
        yield from modules(each)


def resolve_named_tuples(module: doc.Module) -> None:
    """Replace the annotations that a named tuple's constructor has as text."""
    for each in vars(module.obj).values():
        if isinstance(each, type) and issubclass(each, tuple) and hasattr(each, "_fields"):
            each.__new__.__annotations__ = typing.get_type_hints(each)


def import_lazy_names(module: doc.Module) -> None:
    """Have a module import what it names as its own and imports when that is asked for."""
    for name in getattr(module.obj, "__all__", ()):
        vars(module.obj).setdefault(name, getattr(module.obj, name))


def write(folder: Path) -> None:
    """Write the pages.

    :raises UserWarning: when pdoc doesn't understand something of ours.
    """
    warnings.filterwarnings("error", module="pdoc")
    for each in AIRFLOWS_OWN:
        warnings.filterwarnings("ignore", each)
    for module in list(modules(doc.Module(airflow_kafka_offsets))):
        import_lazy_names(module)
        resolve_named_tuples(module)
    render.configure(docformat="restructuredtext", show_source=False)
    pdoc.pdoc("airflow_kafka_offsets", output_directory=folder)
