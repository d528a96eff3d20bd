"""``airflow kafka-offsets``: the commands in the form that Airflow's command line expects (Airflow 3.2).

Imports nothing heavy, because every ``airflow`` command loads it.
"""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_kafka_offsets.cli.commands import Command, Group
from airflow_kafka_offsets.cli.definition import COMMANDS


def get_cli_commands() -> list[CLICommand]:
    """The commands that Airflow adds to its own."""
    return [_made_of(COMMANDS)]


def _made_of(command: Command | Group) -> CLICommand:
    if isinstance(command, Group):
        return GroupCommand(
            name=command.name, help=command.help, subcommands=[_made_of(each) for each in command.commands]
        )
    return ActionCommand(
        name=command.name,
        help=command.help,
        func=lazy_load_command(f"airflow_kafka_offsets.cli.{command.function}"),
        args=[Arg(each.flags, **each.options) for each in command.arguments],
    )
