"""``airflow kafka-offsets``: the commands as Airflow's command line takes them (Airflow 3.2).

Imports nothing heavy: it always runs.
"""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_kafka_offsets.cli.definition import COMMANDS, Command, Group


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its commands."""
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
