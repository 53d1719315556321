"""Ratios of medians against rivals: `python tests/benchmarks/run.py all`.

Everything is interleaved, but a busy machine still disturbs wall times; CPU times less so.
"""

from __future__ import annotations

import argparse
import importlib

from interleave import Sizes
from table import render

WORKS = {
    "drawing": "drawing",
    "rows": "rows",
    "quadrature": "quadrature",
    "start-up": "start_up",
    "memory": "memory",
    "cores": "cores",
}


def main() -> None:
    """Run what is asked for and print one table for each."""
    sizes = Sizes()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("work", nargs="?", default="all", choices=[*WORKS, "all"])
    parser.add_argument(
        "--elements", type=float, default=sizes.elements, help="random elements in a call"
    )
    parser.add_argument("--repeats", type=int, default=sizes.repeats, help="rounds in a median")
    parser.add_argument(
        "--largest", type=float, default=sizes.largest, help="draws in the largest memory run"
    )
    options = parser.parse_args()
    sizes = Sizes(options.elements, options.repeats, options.largest)
    for work in WORKS if options.work == "all" else [options.work]:
        lines = list(importlib.import_module(WORKS[work]).lines(sizes))
        print(render(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
