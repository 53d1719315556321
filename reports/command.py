"""The command line that asks for a record again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields

from ..stats.audit.options import AuditOptions
from ..stats.calibration.options import CalibrationOptions
from ..stats.quantities import GROUPS
from ..stats.request import CaseOptions, DecisionOptions, DeviceOptions
from ..stats.sweeps import OPTIONS
from .claims.options import ClaimOptions
from .record import Record

_POSITIONAL = {"check": "file", "audit": "target", "claims": "claims"}
_ALWAYS = ("dk", "seed")


def command_line(record: Record) -> str:
    """What to type for the same rows: options away from their default, quoted for a shell.

    Examples:
        >>> from .theory import predicted
        >>> cases = CaseOptions(dk=("16:64:x2",), quantities=("softmax",), scale=("sqrt-dk",))
        >>> command_line(predicted(cases).record)
        'verify-variance predict --dk 16 32 64 --quantities softmax --n-keys 10 --scale sqrt-dk'

    """
    command, request = record["command"], dict(record["request"])
    if record.get("kind") == "arrays":  # from Python, or of files that the record does not name
        return ""
    words = ["verify-variance", command]
    if command in _POSITIONAL:
        words.append(str(request.pop(_POSITIONAL[command], "FILE")))
    if isinstance(request.get("quantities"), list):
        request["quantities"] = _grouped(request["quantities"])
    if request.get("sweep"):
        request = {name: value for name, value in request.items() if name not in OPTIONS}
        request["sweep"] = "FILE"
    for name, value in request.items():
        if value is None or value is False or value == []:
            continue
        if name in _ALWAYS or not _is_default(command, name, value):
            words += [f"--{name.replace('_', '-')}", *_texts(value)]
    return shlex.join(words)


def _texts(value: object) -> list[str]:
    if value is True:
        return []
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return [str(item) for item in value] if listed else [str(value)]  # type: ignore[attr-defined]


def _is_default(command: str, name: str, value: object) -> bool:
    return name in (defaults := _defaults(command)) and _texts(value) == _texts(defaults[name])


def _defaults(command: str) -> Mapping[str, object]:
    groups = {"audit": (AuditOptions,), "claims": (ClaimOptions,)}.get(
        command, (CaseOptions, DecisionOptions, CalibrationOptions, DeviceOptions)
    )
    found = {f.name: f.default for group in groups for f in fields(group)}
    return {name: value for name, value in found.items() if value is not MISSING} | {
        "quantities": ("variance",)
    }


def _grouped(names: Sequence[str]) -> list[str]:
    """Quantities with the names of whole groups put together again."""
    if tuple(names) == GROUPS["all"]:
        return ["all"]
    left, said = list(names), []
    while left:
        group = next((g for g, those in GROUPS.items() if _starts(left, those)), None)
        said.append(group or left[0])
        del left[: len(GROUPS[group]) if group else 1]
    return said


def _starts(names: Sequence[str], group: Sequence[str]) -> bool:
    return len(group) > 1 and tuple(names[: len(group)]) == tuple(group)
