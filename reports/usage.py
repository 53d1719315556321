"""Usage errors of the command line, in our own words: one line with the way out."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from cyclopts import CoercionError, CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError


def explain(error: CycloptsError, app: Any) -> str:
    """One line: what was wrong, and the near names or the rule."""
    if isinstance(error, UnknownOptionError):
        name = error.token.keyword or error.token.value
        return f"unknown option {name}; {_near(name, _options(error, app))}"
    if isinstance(error, UnusedCliTokensError):
        word = str((error.unused_tokens or ["?"])[0])
        commands = [name for name in app if not name.startswith("-")]
        return f"unknown command or stray word {word!r}; {_near(word, commands)}"
    said = " ".join(str(error).split())
    if isinstance(error, MissingArgumentError):
        return f"{said.rstrip('.')}; see --help"
    if isinstance(error, CoercionError):
        return f"{said[0].lower()}{said[1:].rstrip('.')}; see --help"
    return f"{said.rstrip('.')}; see --help"


def _options(error: CycloptsError, app: Any) -> list[str]:
    chain = error.command_chain or ()
    command = app[chain[0]] if chain else app
    names = [name for argument in command.assemble_argument_collection() for name in argument.names]
    return sorted(name for name in names if name.startswith("--"))


def _near(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
