"""Whole commands, wall time, beside a bare `import jax`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial

from interleave import Contestant, Sizes, interleave
from table import Line, at_most, duration

PYTHON = sys.executable
OURS = [PYTHON, "-m", "verify_variance"]
GOAL = 1.8
COMMANDS: dict[str, tuple[list[str], float | None]] = {
    "run, again": (["--dk", "16", "32", "64", "128", "--samples", "10000"], GOAL),
    "--help": (["--help"], None),
    "predict": (["predict"], None),
}


def lines(sizes: Sizes, commands: tuple[str, ...] = tuple(COMMANDS)) -> Iterator[Line]:
    """The first round, which fills the compilation cache, is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        contestants = [
            Contestant("import jax", partial(call, [PYTHON, "-c", "import jax"], folder))
        ]
        for name in commands:
            command = [*OURS, *COMMANDS[name][0]]
            contestants.append(Contestant(name, partial(call, command, folder)))
        rival, *mine = interleave(contestants, sizes.repeats)
    for times in mine:
        ratio, goal = times.wall / rival.wall, COMMANDS[times.name][1]
        shown = duration(times.wall), rival.name, duration(rival.wall)
        yield at_most(f"start-up, {times.name}", "wall", *shown, ratio, goal)


def call(command: list[str], folder: str) -> None:
    """Run it with its caches in the folder."""
    environment = os.environ | {"XDG_CACHE_HOME": folder}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
