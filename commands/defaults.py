"""Defaults of options from variables (`RMQSTORE_VERIFY_THREADS`) and a configuration file (`[verify]`, `threads = 2`).

`--yes` has none: consent to a change is given where the command is given.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

_PREFIX = "RMQSTORE"
_CONSENT = "--yes"


def configured(commands: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the options of each command in the user's configuration file; none without one. Raises click.UsageError.

    The file is `$RMQSTORE_CONFIG`, or `rmqstore/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`).
    """
    named = os.environ.get(f"{_PREFIX}_CONFIG")
    path = Path(named) if named else _configuration_home() / "rmqstore" / "config.toml"
    if not named and not path.is_file():
        return {}
    import tomllib

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the configuration file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for name, options in tables.items():
        if name not in commands or not isinstance(options, dict):
            raise click.UsageError(f"the configuration file {path} has {name!r}, which is not a table of a command: [verify], [doctor]")
    return tables


def applied(name: str, command: click.Command, configured_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configured options by parameter, and let the options of the command read their variables. Raises click.UsageError."""
    parameters = {
        option.removeprefix("--"): parameter
        for parameter in command.params
        for option in parameter.opts
        if isinstance(parameter, click.Option) and option.startswith("--") and option != _CONSENT
    }
    for option, parameter in parameters.items():
        parameter.envvar = f"{_PREFIX}_{name}_{option}".replace("-", "_").upper()
    found = {option.replace("_", "-"): value for option, value in configured_options.items()}
    for option in found:
        if option not in parameters:
            raise click.UsageError(f"the configuration file names {option!r} for {name}, which is none of the options that it may set")
    return {str(parameters[option].name): value for option, value in found.items()}


def _configuration_home() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home) if home else Path(os.path.expanduser("~")) / ".config"  # noqa: PTH111 – an unknown home is no error here
