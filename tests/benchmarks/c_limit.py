"""`limit.c`, compiled for this machine, if there is a compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("limit.c")
# without the last two the square root and the conversions keep gcc from vectorising
FLAGS = (
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-fno-trapping-math",
)
LANES = 256  # as in limit.c


def compiler() -> str | None:
    """The C compiler of this machine."""
    return shutil.which("gcc") or shutil.which("cc")


@cache
def _library() -> ctypes.CDLL:
    found = compiler()
    if found is None:
        raise RuntimeError("gcc or cc must be installed for the C limit, got neither")
    with tempfile.TemporaryDirectory() as folder:
        built = str(Path(folder) / "limit.so")
        command = [found, *FLAGS, "-shared", "-fPIC", str(SOURCE), "-o", built, "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(built)  # stays loaded after its file is gone


def variance(generator: str, pairs: int, d_k: int, seed: int) -> float:
    """Variance of `pairs` logits, rounded up to whole lanes; `generator` threefry or xoshiro."""
    function = getattr(_library(), f"variance_{generator}")
    function.restype = ctypes.c_double
    function.argtypes = (ctypes.c_int64, ctypes.c_int, ctypes.c_uint32)
    result: float = function(-(-pairs // LANES) * LANES, d_k, seed)
    return result


def threefry_words(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """The two words of one hash, for the published known answers."""
    pair = ctypes.c_uint32 * 2
    out = pair()
    _library().threefry_words(pair(*key), pair(*counter), out)
    return out[0], out[1]
