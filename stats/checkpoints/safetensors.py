"""The header of a safetensors file: names, types and places, checked before a tensor is read.

The format (github.com/huggingface/safetensors): 8 bytes, little-endian, with the length N of the
header; N bytes of JSON, `{name: {"dtype", "shape", "data_offsets": [from, to]}}`, offsets counted
from the end of the header; then the data, row-major. Nothing in it can be executed.

What can go wrong: lengths, shapes and offsets are the file's own word, so that each is compared
with the size of the file, and shape times type with the bytes between the offsets.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from ..checks import InputError
from ..shown import shortened

PREFIX = 8  # bytes that hold the header's length
LONGEST_HEADER = 100_000_000  # the limit of the format's own implementation
_LARGEST_SIZE = 2**62  # of an axis, or an offset
_MOST_AXES = 32

# bytes of an element; the floats are those that NumPy and ml_dtypes read
FLOATS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
_BYTES |= {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8}
_BYTES |= {"C64": 8}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: its type, as the format names it, its shape, and where it begins."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


def header_length(prefix: bytes, file_size: int, path: str) -> int:
    """Length of the header from the first 8 bytes, not beyond the file nor 10^8.

    Examples:
        >>> header_length((2).to_bytes(8, "little"), 10, "a.safetensors")
        2

    """
    if len(prefix) < PREFIX:
        raise InputError(f"{path} must begin with 8 bytes of length, got {file_size} bytes in all; "
                         "copy it again")  # fmt: skip
    length = int.from_bytes(prefix, "little")
    if length > min(LONGEST_HEADER, file_size - PREFIX):
        raise InputError(
            f"{path} is no whole safetensors file: its header has {length} bytes by its own "
            f"word, the file {file_size}; copy it again"
        )
    return length


def parse_header(text: bytes, file_size: int, path: str) -> dict[str, Entry]:
    """The tensors of a file by name, every number checked against the file's size.

    Raises InputError for what is not a header of the format, for tensors outside the file or over
    one another, and where shape and type make another number of bytes than the offsets.

    Examples:
        >>> text = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
        >>> parse_header(text, 8 + len(text) + 8, "a.safetensors")
        {'w': Entry(dtype='F32', shape=(2,), offset=69)}

    """
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise InputError(f"{path} must have a JSON header: {error}; copy it again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} must have a table as its header, got {type(found).__name__}")
    found.pop("__metadata__", None)
    begin = PREFIX + len(text)
    spans = {}
    for name, said in found.items():
        spans[name] = _span(said, file_size - begin, f"{path}: tensor {shortened(name)}")
    _check_apart(spans, path)
    return {
        name: Entry(found[name]["dtype"], tuple(found[name]["shape"]), begin + first)
        for name, (first, _) in spans.items()
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise InputError(f"{shortened(twice)} stands twice in the header; write the file anew")
    return table


def _span(said: Any, size: int, where: str) -> tuple[int, int]:
    """Where a tensor begins and ends in the data, checked against its shape and type."""
    if not isinstance(said, Mapping):
        raise InputError(f"{where} must be a table, got {type(said).__name__}")
    keys = ("shape", "data_offsets", "dtype")
    shape, offsets, dtype = (cast(Any, said.get(key)) for key in keys)
    if not _sizes(shape):
        raise InputError(f"{where} must have sizes of at least 0, got shape {shortened(shape)}")
    if not _sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
        raise InputError(
            f"{where} must lie within the {size} bytes of data, got {shortened(offsets)}; is the "
            "file whole?"
        )
    if not isinstance(dtype, str):
        raise InputError(f"{where} must name its type, got {shortened(dtype)}")
    each, held = _BYTES.get(dtype), offsets[1] - offsets[0]
    if each is not None and math.prod(shape) * each != held:
        raise InputError(
            f"{where} must have {dtype} x {shortened(list(shape))} bytes, got {held}; "
            "the header lies"
        )
    return offsets[0], offsets[1]


def _sizes(numbers: Any) -> bool:
    """Whether these are whole numbers, not negative, and neither too large nor too many."""
    return (
        isinstance(numbers, list)
        and len(numbers) <= _MOST_AXES
        and all(type(number) is int and 0 <= number <= _LARGEST_SIZE for number in numbers)
    )


def _check_apart(spans: Mapping[str, tuple[int, int]], path: str) -> None:
    placed = sorted((span, name) for name, span in spans.items() if span[0] < span[1])
    for ((_, end), one), ((begin, _), other) in pairwise(placed):
        if begin < end:
            raise InputError(
                f"{path}: tensors {shortened(one)} and {shortened(other)} overlap; the header lies"
            )
