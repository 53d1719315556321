"""Settings from files and the environment: a wrong name is an error, never silently ignored."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from cyclopts.config import Dict, Env

from ..stats.checks import InputError, near_names
from .files import read_settings

PREFIX = "VERIFY_VARIANCE_"
DEBUG = f"{PREFIX}DEBUG"
Source = Callable[[Any, tuple[str, ...], Any], None]


def sources(root: Any) -> list[Source]:
    """Where a command line's options come from besides its flags, the strongest first."""
    return [
        _no_bare_lists,
        _environment(root),
        _toml(root, "verify-variance.toml"),
        _toml(root, "pyproject.toml", "tool", "verify-variance"),
    ]


def _no_bare_lists(app: Any, commands: tuple[str, ...], arguments: Any) -> None:
    """Refuse an option without its values, which would silently be its default."""
    for argument in arguments:
        if any(token.implicit_value == () for token in argument.tokens):
            example = "; for example --dk 16 32 64 128" if argument.name == "--dk" else ""
            raise InputError(
                f"{argument.name} needs at least one value, got none{example or '; see --help'}"
            )


def _environment(root: Any) -> Source:
    variables = Env(PREFIX, command=False)

    def configure(app: Any, commands: tuple[str, ...], arguments: Any) -> None:
        given = [name for name in os.environ if name.startswith(PREFIX) and name != DEBUG]
        for variable in given:
            _check(variable, variable.removeprefix(PREFIX), root, "the environment")
        variables(app, commands, arguments)

    return configure


def _toml(root: Any, path: str, *keys: str) -> Source:
    """Settings from the table under `keys`: one key an option, each command takes its own."""

    def configure(app: Any, commands: tuple[str, ...], arguments: Any) -> None:
        given = {}
        for key, value in read_settings(path, *keys).items():
            name = _check(key, key, root, path)
            if isinstance(value, dict):
                raise InputError(f"{key} in {path} must be a value or a list, got a table")
            given[name] = value
        own = option_names(arguments)
        kept = {name: value for name, value in given.items() if name in own}
        Dict(kept, source=path, use_commands_as_keys=False)(app, commands, arguments)

    return configure


def _check(shown: str, key: str, root: Any, source: str) -> str:
    """The option that a key names; InputError where no command has it."""
    name = key.lower().replace("_", "-")
    known = dict.fromkeys(
        option
        for command in root
        if not command.startswith("-")
        for option in option_names(root[command].assemble_argument_collection())
    )
    if name not in known:
        raise InputError(f"unknown setting {shown} in {source}; {near_names(name, known)}")
    return name


def option_names(arguments: Any) -> list[str]:
    """Names of the options in a collection of arguments, without their dashes."""
    names = [name for argument in arguments for name in argument.names if name.startswith("--")]
    return [n.removeprefix("--") for n in names if not n.startswith(("--no-", "--empty-"))]
