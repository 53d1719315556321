"""LaTeX: tables with booktabs' rules, their symbols and numbers as mathematics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ESCAPES = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\textasciitilde{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
}
_SYMBOLS = {
    "Var theory": r"$\mathrm{Var}(x)$ theory",
    "Var measured": r"$\mathrm{Var}(x)$ measured",
    "std theory": r"$\mathrm{sd}(x)$ theory",
    "std measured": r"$\mathrm{sd}(x)$ measured",
    "logit_std": r"$\mathrm{sd}(x)$",
    "sd(x)": r"$\mathrm{sd}(x)$",
    "d_model": r"$d_{\mathrm{model}}$",
    **{f"{name}_{side}": f"${name}_{side}$" for name in "dW" for side in "qkv"},
    **{f"sigma_{side}": rf"$\sigma_{side}$" for side in "qk"},
    **{f"mean_{side}": rf"$\mu_{side}$" for side in "qk"},
}
_SYMBOL = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _SYMBOLS))})(?!\w)")
_NUMBER = re.compile(r"([-+]?)(\d+(?:\.\d+)?(?:\(\d+\))?)(?:e([-+]\d+))?")


def latex_text(text: str) -> str:
    r"""Text with the symbols of the field as mathematics, and nothing else that LaTeX acts upon.

    Examples:
        >>> latex_text("d_k = 64, 5 %"), latex_text("mean_abs")
        ('$d_k$ = 64, 5 \\%', 'mean\\_abs')

    """
    parts = _SYMBOL.split(text)  # every second one is a symbol
    return "".join(_SYMBOLS[part] if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def latex_number(text: str) -> str:
    r"""A number with a proper minus and power of ten; anything else as text.

    Examples:
        >>> latex_number("-0.15"), latex_number("5(5)e-06"), latex_number("63.8(2)")
        ('$-0.15$', '$5(5)\\times 10^{-6}$', '63.8(2)')

    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return latex_text(text)
    sign, digits, power = found.groups()
    if power is not None:
        return rf"${sign}{digits}\times 10^{{{int(power)}}}$"
    return f"${sign}{digits}$" if sign else digits


def latex_table(
    cells: Iterable[Sequence[str]], headers: Sequence[str], texts: Sequence[bool]
) -> str:
    """A tabular, to be used with the package booktabs."""
    head = ["$z$" if header == "z" else latex_text(header) for header in headers]
    shown = [latex_text if text else latex_number for text in texts]
    rows = [[show(cell) for show, cell in zip(shown, row, strict=True)] for row in cells]
    lines = [rf"{' & '.join(row)} \\" for row in (head, *rows)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{''.join('l' if text else 'r' for text in texts)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
