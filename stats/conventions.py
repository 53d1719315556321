"""From a case's scale, a name of `scales.SCALES` with its parameters, to the factor of q.k."""

from __future__ import annotations

from .cases import Case
from .checks import InputError, magnitude, named
from .scales import SCALES, Scale

_WAYS_OUT = {
    "d_k": "use --scale none or constant:C",
    "d_model": "give --d-model",
    "d_v": "give --d-v",
}


def scale_factor(case: Case) -> float:
    """The factor that multiplies q.k under the case's scale.

    Raises InputError for an unknown scale, a wrong parameter, or a missing need.

    Examples:
        >>> scale_factor(Case(d_k=64, scale="sqrt-dk"))
        0.125
        >>> round(scale_factor(Case(d_k=64, scale="mscale:40")) * 8, 5)
        1.87385

    """
    entry, parameters = parse_scale(case.scale)
    for need in entry.needs:
        if getattr(case, need) is None:
            raise InputError(
                f"scale {case.scale} needs {need}, which this case has not; {_WAYS_OUT[need]}"
            )
    return entry.factor(case, *parameters)


def expected_number(expected: object) -> float | None:
    """The factor that is expected as a number; None where a convention is named.

    Raises InputError for a number that no factor can be.

    Examples:
        >>> expected_number("0.125"), expected_number("sqrt-dk")
        (0.125, None)

    """
    try:
        factor = float(str(expected))
    except ValueError:
        return None
    return magnitude("expected", factor)


def factor_after(case: Case) -> float:
    """The factor that drawn logits are still to be multiplied by: 1 where they are rounded."""
    return 1.0 if case.rounds or case.transform else scale_factor(case)


def parse_scale(text: str) -> tuple[Scale, tuple[float, ...]]:
    """The convention that `text` names, written `name` or `name:A:B`, and its parameters.

    Examples:
        >>> parse_scale("mscale:40")[1], parse_scale("none")[1]
        ((40.0, 1.0), ())

    """
    takes = {name: entry.parameters[0].symbol for name, entry in SCALES.items() if entry.parameters}
    name, given = named("scale", text, SCALES, takes.get)
    entry = SCALES[name]
    texts = [] if given is None else given.split(":")
    if len(texts) > len(entry.parameters):
        raise InputError(f"scale {name} takes {_spelling(name)}, got {text!r}")
    values = []
    for parameter, written in zip(entry.parameters, [*texts, None, None], strict=False):
        if written is not None:
            values.append(parameter.check(f"scale {name}'s {parameter.word}", written))
        elif parameter.default is not None:
            values.append(parameter.default)
        else:
            example = f"{name}:2" if len(entry.parameters) == 1 else _spelling(name)
            raise InputError(f"scale {name} needs its {parameter.word} ({parameter.meaning}); "
                             f"write {example}")  # fmt: skip
    return entry, tuple(values)


def _spelling(name: str) -> str:
    """A scale's name with its parameters' symbols.

    Examples:
        >>> _spelling("mscale")
        'mscale:FACTOR:M'

    """
    return ":".join([name, *(parameter.symbol for parameter in SCALES[name].parameters)])
