"""The two ways to the commands: Airflow's command line (``airflow kafka-offsets``, from Airflow 3.2 on), and the script
``kafka-offsets``, without Airflow's slow start: it uses Airflow only for ledgers on other machines, and for connections
that aren't in the arguments.

Imports nothing heavy, because every ``airflow`` command loads it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from airflow_kafka_offsets import __version__
from airflow_kafka_offsets.cli.commands import Command, Group
from airflow_kafka_offsets.cli.definition import COMMANDS

if TYPE_CHECKING:
    from airflow.cli.cli_config import CLICommand


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


def get_cli_commands() -> list[CLICommand]:
    """The commands that Airflow adds to its own."""
    return [_for_airflow(COMMANDS)]


def _for_airflow(command: Command | Group) -> CLICommand:
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

    if isinstance(command, Group):
        below = [_for_airflow(each) for each in command.commands]
        return GroupCommand(name=command.name, help=command.help, subcommands=below)
    return ActionCommand(
        name=command.name,
        help=command.help,
        func=lazy_load_command(f"airflow_kafka_offsets.cli.{command.function}"),
        args=[Arg(each.flags, **each.options) for each in command.arguments],
    )
