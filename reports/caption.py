"""Captions and labels of tables, in the formats that have them."""

from __future__ import annotations

import textwrap
from html import escape

CAPTIONED = ("latex", "html", "rst")
LABELLED = ("latex", "rst")


def captioned(table: str, form: str, caption: str | None, label: str | None) -> str:
    r"""The table with its caption and label; latex and rst text is the author's own markup.

    Examples:
        >>> print(captioned("TABULAR", "latex", "Variance of $x$.", "tab:variance"))
        \begin{table}
        \centering
        \caption{Variance of $x$.}
        \label{tab:variance}
        TABULAR
        \end{table}

    """
    if caption is None and label is None:
        return table
    if form == "html":
        return table.replace("<table>", f"<table>\n<caption>{escape(caption or '')}</caption>", 1)
    if form == "rst":
        named = [f"   :name: {label}"] if label else []
        head = f".. table:: {caption or ''}".rstrip()
        before, rule, rest = table.partition("=")  # of several tables, the first has the caption
        first, gap, others = f"{rule}{rest}".partition("\n\n")
        body = "\n".join([head, *named, "", textwrap.indent(first, "   ")])
        return f"{before}{body}{gap}{others}"
    said = [rf"\caption{{{caption}}}"] if caption else []
    said += [rf"\label{{{label}}}"] if label else []
    return "\n".join([r"\begin{table}", r"\centering", *said, table, r"\end{table}"])
