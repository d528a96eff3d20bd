"""The script ``kafka-offsets``. It starts without Airflow, which takes seconds, and uses it only for ledgers on other
machines, and for connections that aren't in the arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from airflow_kafka_offsets import __version__
from airflow_kafka_offsets.cli.commands import COMMANDS, Command, Group


def main(words: Sequence[str] | None = None) -> None:
    """Run one command.

    :param words: its arguments; None for this process's arguments.
    """
    parser = argparse.ArgumentParser(COMMANDS.name, description=f"{COMMANDS.help}.")
    parser.add_argument("--version", action="version", version=__version__)
    _add(parser, COMMANDS)
    args = parser.parse_args(words)
    module, _, function = args.function.rpartition(".")
    getattr(import_module(f"airflow_kafka_offsets.cli.{module}"), function)(args)


def _add(parser: argparse.ArgumentParser, command: Command | Group) -> None:
    if isinstance(command, Command):
        parser.set_defaults(function=command.function)
        for argument in command.arguments:
            parser.add_argument(*argument.flags, **argument.options)
        return
    below = parser.add_subparsers(required=True, metavar="COMMAND")
    for each in command.commands:
        _add(below.add_parser(each.name, help=each.help, description=f"{each.help}."), each)
