"""Peak resident memory of a run, which the number of draws must not change."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from interleave import Sizes
from table import Line, at_most

SMALLEST = 1e6
ROUNDS = 3
GOAL = 1.05
# A process' own high-water mark: getrusage would start from that of the process that started it.
CHILD = """
import sys
from verify_variance.__main__ import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    print(peak.split()[1], file=sys.stderr)
"""


def lines(sizes: Sizes) -> Iterator[Line]:
    """d_k = 1, so that many draws take a moment."""
    if not Path("/proc/self/status").exists():
        print("no /proc: memory is left out")
        return
    counts = (SMALLEST, sizes.largest)
    peaks = [[peak_kib(count) for count in counts] for _ in range(ROUNDS)]
    small, large = (median(column) for column in zip(*peaks, strict=True))
    work = f"peak memory, {counts[1]:.0e} draws"
    mib = f"{large / 1024:.0f} MiB", f"{counts[0]:.0e} draws", f"{small / 1024:.0f} MiB"
    yield at_most(work, "peak", *mib, large / small, GOAL)


def peak_kib(draws: float) -> int:
    """Peak resident memory of one run, in KiB."""
    arguments = ["--dk", "1", "--samples", f"{draws:.0f}", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *arguments], cwd=folder, capture_output=True, text=True
        )
    if done.returncode != 0:
        raise RuntimeError(f"the run must match, got exit code {done.returncode}: {done.stderr}")
    return int(done.stderr.split()[-1])
