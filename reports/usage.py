"""Usage errors of the command line, in our own words: one line with the way out."""

from __future__ import annotations

from typing import Any

from cyclopts import CycloptsError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from ..stats.checks import near_names
from .settings import option_names


def explain(error: CycloptsError, app: Any) -> str:
    """One line: what was wrong, and the near names or where to look."""
    if isinstance(error, UnknownOptionError):
        name = error.token.keyword or error.token.value
        chain = error.command_chain or ()
        options = option_names((app[chain[0]] if chain else app).assemble_argument_collection())
        return f"unknown option {name}; {near_names(name, [f'--{option}' for option in options])}"
    if isinstance(error, UnusedCliTokensError):
        word = str((error.unused_tokens or ["?"])[0])
        commands = [name for name in app if not name.startswith("-")]
        return f"unknown command or stray word {word!r}; {near_names(word, commands)}"
    said = " ".join(str(error).split())
    return f"{said[0].lower()}{said[1:].rstrip('.')}; see --help"
