"""Arrays of any framework as NumPy arrays, importing none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import InputError

# orders of the axes of q, k and v: b batch, h heads, l length, d the head dimension
LAYOUTS = ("bhld", "blhd", "bld", "ld")
# unit roundoff u: a rounded number is off by a relative u at most
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def as_numpy(array: Any, name: str = "samples") -> NDArray[np.float64]:
    """A NumPy, JAX or torch array (on any device, with or without gradient) or a list, as float64.

    bfloat16 and other small floats are widened exactly. Raises InputError for anything that does
    not hold real numbers.

    Examples:
        >>> as_numpy([1, 2.5]).tolist()
        [1.0, 2.5]

    """
    if hasattr(array, "detach"):  # torch: off the graph, off the device; NumPy has no bfloat16
        array = array.detach().cpu()
        array = array.float() if "bfloat16" in str(array.dtype) else array
    try:
        found = np.asarray(array)
    except ValueError:
        raise InputError(
            f"{name} must be one array, got rows of unlike lengths; pad them"
        ) from None
    if found.dtype.kind not in "fiu" and "float" not in found.dtype.name:
        raise InputError(f"{name} must be real numbers, got dtype {found.dtype}; convert them")
    return found.astype(np.float64, copy=False)


def rounding_of(array: Any) -> float:
    """Unit roundoff of an array's dtype; that of float64 where it has none of its own.

    Examples:
        >>> rounding_of(np.float32([1])) == 2.0**-24
        True

    """
    dtype = str(getattr(array, "dtype", "float64")).rpartition(".")[2]
    return ROUNDING.get(dtype, ROUNDING["float64"])
