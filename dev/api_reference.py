"""The reference of the public API as HTML, which pdoc makes from docstrings. It is a part of the site of ``make docs``.

A warning of pdoc is an error. To avoid warnings: annotations of a named tuple's fields are names that only its own
module knows, so they are resolved for pdoc; names that a module imports lazily are imported; and warnings about members
that Airflow's base classes leave unannotated are ignored.
"""

from __future__ import annotations

import typing
import warnings
from importlib import import_module
from pathlib import Path

import pdoc
from pdoc import doc, render

from airflow_kafka_offsets.public import PUBLIC

AIRFLOWS_OWN = (
    r"Cannot determine where .*_BaseOperator__",
    r"(Failed to run TYPE_CHECKING code|Error parsing type annotation).*Kafka\w+Trigger\.task",
    r"(Failed to run TYPE_CHECKING code|Error parsing type annotation).*airflow\.triggers\.base",
)
"""Beginnings of warnings about members that our classes inherit from Airflow's."""


def public_modules() -> list[str]:
    """The places that offer public names, and the modules that have them."""
    having = {f"airflow_kafka_offsets.{module}" for names in PUBLIC.values() for module in names.values()}
    return sorted({*PUBLIC, *having, "airflow_kafka_offsets.errors"})


def resolve_named_tuples(module: doc.Module) -> None:
    """Resolve the annotations that a named tuple's constructor has as text."""
    for each in vars(module.obj).values():
        if isinstance(each, type) and issubclass(each, tuple) and hasattr(each, "_fields"):
            each.__new__.__annotations__ = typing.get_type_hints(each)


def import_lazy_names(module: doc.Module) -> None:
    """Make a module import the public names that it would import lazily."""
    for name in getattr(module.obj, "__all__", ()):
        vars(module.obj).setdefault(name, getattr(module.obj, name))


def write(folder: Path) -> list[doc.Module]:
    """Write the pages, and return what they are about.

    :raises UserWarning: when pdoc warns about our code.
    """
    warnings.filterwarnings("error", module="pdoc")
    for each in AIRFLOWS_OWN:
        warnings.filterwarnings("ignore", each)
    documented = [doc.Module(import_module(name)) for name in public_modules()]
    for module in documented:
        import_lazy_names(module)
        resolve_named_tuples(module)
    render.configure(docformat="restructuredtext", show_source=False)
    pdoc.pdoc(*public_modules(), output_directory=folder)
    return documented
