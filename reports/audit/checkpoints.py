"""Open checkpoints: safetensors whole or in shards, torch files as weights alone, config.json.

Nothing in a file is executed. Sizes are checked against the file before a tensor is looked at,
and tensors are mapped, so that memory holds no more than the part that is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ...stats.checkpoints.checkpoint import Checkpoint, Stored
from ...stats.checkpoints.safetensors import (
    FLOATS,
    PREFIX,
    Entry,
    header_length,
    parse_header,
)
from ...stats.checks import InputError
from ...stats.shown import shortened
from ..files import file_size, mapped, read_part, read_text, read_torch

INDEX = ".index.json"
TORCH = (".pt", ".pth", ".bin", ".ckpt")
_WHOLE = ("model.safetensors", "model.safetensors.index.json")
_LARGEST_CONFIG = 64 * 2**20  # bytes of an index or a config.json


def is_checkpoint(target: str | PathLike[str]) -> bool:
    """Whether a target names a checkpoint: by its ending, or a folder.

    Examples:
        >>> is_checkpoint("a/model.safetensors"), is_checkpoint("torch.nn:Linear")
        (True, False)

    """
    path = fspath(target)
    return path.endswith((".safetensors", INDEX, *TORCH)) or (path != "" and Path(path).is_dir())


def open_checkpoint(path: str) -> Checkpoint:
    """The checkpoint in a safetensors or torch file, an index of shards, or a folder of them.

    Raises InputError for a file that is not whole, not safe to read, or not there.
    """
    file = _file_of(path)
    if file.name.endswith(INDEX):
        tensors = _of_index(file)
    elif file.suffix in TORCH:
        tensors = _of_torch(file)
    else:
        tensors = _of_safetensors(file)
    return Checkpoint(path, tensors, _config(file.parent))


def _file_of(path: str) -> Path:
    """The file that a folder's checkpoint begins with, or the file itself."""
    folder = Path(path)
    if not folder.is_dir():
        file_size(path)
        return folder
    for name in _WHOLE:
        if (folder / name).is_file():
            return folder / name
    found = sorted([*folder.glob("*.safetensors"), *folder.glob(f"*{INDEX}")])
    found = found or sorted(file for ending in TORCH for file in folder.glob(f"*{ending}"))
    if len(found) != 1:
        names = ", ".join(shortened(file.name) for file in found[:8]) or "none"
        raise InputError(f"{path} must hold one checkpoint, got {names}; name the file")
    return found[0]


def _of_safetensors(file: Path) -> dict[str, Stored]:
    path = str(file)
    size = file_size(path)
    length = header_length(read_part(path, 0, PREFIX), size, path)
    entries = parse_header(read_part(path, PREFIX, length), size, path)
    return {name: _stored(path, entry) for name, entry in entries.items()}


def _stored(path: str, entry: Entry) -> Stored:
    name = FLOATS.get(entry.dtype, entry.dtype)
    return Stored(name, entry.shape, partial(_look, path, name, entry))


def _look(path: str, name: str, entry: Entry) -> Any:
    return mapped(path, _dtype(name), entry.offset, entry.shape)


def _dtype(name: str) -> Any:
    """NumPy's type of this name, or that of ml_dtypes, which comes with JAX."""
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name, name))


def _of_index(index: Path) -> dict[str, Stored]:
    """The tensors of all shards that an index names, none from outside its folder."""
    table = _json(index).get("weight_map")
    if not isinstance(table, Mapping) or not all(isinstance(v, str) for v in table.values()):
        raise InputError(f"{index} must have a weight_map from tensors to files; write it anew")
    shards = {name: _inside(index, name) for name in dict.fromkeys(table.values())}
    held = {name: _of_safetensors(file) for name, file in shards.items()}
    tensors = {}
    for name, shard in table.items():
        if name not in held[shard]:
            raise InputError(f"{index} promises {shortened(name)} in {shortened(shard)}, which "
                             "does not hold it; copy the shards again")  # fmt: skip
        tensors[name] = held[shard][name]
    return tensors


def _inside(index: Path, name: str) -> Path:
    """A shard beside its index; InputError for a path, or what is no safetensors file."""
    if "\\" in name or "\0" in name or Path(name).name != name or name in ("", ".", ".."):
        raise InputError(f"{index} must name files of its own folder, got {shortened(name)}")
    if not name.endswith(".safetensors"):
        raise InputError(f"{index} must name safetensors files, got {shortened(name)}")
    return index.parent / name


def _of_torch(file: Path) -> dict[str, Stored]:
    """The tensors of a state dict, or of the one under `state_dict` or `model`."""
    found = read_torch(str(file))
    for key in ("state_dict", "model"):
        inner = found.get(key) if isinstance(found, Mapping) else None
        found = inner if isinstance(inner, Mapping) else found
    if not isinstance(found, Mapping):
        raise InputError(f"{file} must hold a state dict, got {type(found).__name__}; save that")
    return {
        name: Stored(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape),
                     partial(_as_array, tensor))
        for name, tensor in found.items()
        if isinstance(name, str) and hasattr(tensor, "dtype") and hasattr(tensor, "shape")
    }  # fmt: skip


def _as_array(tensor: Any) -> Any:
    """A torch tensor as a NumPy view; bfloat16, which NumPy has not, through its bits."""
    import numpy as np

    tensor = tensor.detach()
    if "float16" in str(tensor.dtype) or "float8" not in str(tensor.dtype):
        if "bfloat16" in str(tensor.dtype):
            import torch

            return tensor.view(torch.int16).numpy().view(_dtype("bfloat16"))
        return tensor.numpy()
    return np.asarray(tensor.float())


def _config(folder: Path) -> Mapping[str, Any]:
    """What config.json beside the weights declares; empty where there is none."""
    file = folder / "config.json"
    return _json(file) if file.is_file() else {}


def _json(file: Path) -> dict[str, Any]:
    if file_size(str(file)) > _LARGEST_CONFIG:
        raise InputError(f"{file} must be a small JSON file, got {file_size(str(file))} bytes")
    try:
        found = json.loads(read_text(str(file), "the file"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} must hold a JSON table, got {type(found).__name__}")
    return found
