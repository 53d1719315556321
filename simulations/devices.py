"""Devices, versions and the compilation cache: where a run happens."""

from __future__ import annotations

import os
import platform as python_platform
import secrets
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..stats.cases import Case
from ..stats.checks import InputError, choice

PLATFORMS = ("auto", "cpu", "gpu", "tpu")


def use_platform(platform: str) -> list[Any]:
    """The local devices of a platform; InputError where this machine has none.

    The compiled kernels are kept in the user's cache folder, so that a second run starts at once;
    a folder that cannot be written is no error.
    """
    choice("platform", platform, PLATFORMS)
    import jax

    keep_compilations(jax)
    try:
        devices = jax.local_devices(backend=None if platform == "auto" else platform)
    except (
        RuntimeError,
        AssertionError,
    ):  # the latter where JAX_PLATFORMS names none that is there
        raise InputError(
            f"platform {platform} is not on this machine, which has {_platforms_there(jax)}; "
            "use --platform auto, or install JAX for it"
        ) from None
    return list(devices)


def _platforms_there(jax: Any) -> str:
    try:
        return ", ".join(sorted({device.platform for device in jax.local_devices()}))
    except (RuntimeError, AssertionError):
        return f"none of JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"


def keep_compilations(jax: Any) -> None:
    """Let JAX keep what it compiles in the user's cache folder, if that can be written."""
    if jax.config.jax_compilation_cache_dir is not None:
        return  # the user has chosen
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def cache_folder() -> Path:
    """Where compiled kernels are kept: `$XDG_CACHE_HOME` or `~/.cache`, in a folder of our own."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "verify-variance" / "jax"


def cache_in_use() -> Path:
    """Where this process keeps compiled kernels: the folder that the user has chosen, or ours."""
    import jax

    config: Any = jax.config
    return Path(config.jax_compilation_cache_dir or cache_folder())


def identity(devices: list[Any]) -> dict[str, object]:
    """What the bits of a block depend on besides its request: versions, and the kind of device.

    Processors of one name may differ in their arithmetic; a known block's bits tell.
    """
    from .logits import measure_pairs

    known = measure_pairs(Case(d_k=4), 0, 0, 1, 1024, devices[:1]).tobytes()
    facts = provenance(devices)
    return {
        **{name: facts[name] for name in ("prng", "jax", "jaxlib", "platform")},
        "device": f"{devices[0].device_kind} {python_platform.machine()}",
        "arithmetic": sha256(known).hexdigest()[:16],
    }


def provenance(devices: list[Any]) -> dict[str, object]:
    """Versions and devices, of all processes, for the record."""
    import jax
    import numpy
    from jaxlib.version import __version__ as jaxlib_version

    return {
        "prng": "threefry2x32",
        "jax": jax.__version__,
        "jaxlib": jaxlib_version,
        "numpy": numpy.__version__,
        "python": python_platform.python_version(),
        "platform": devices[0].platform,
        "devices": [str(device) for device in _of_all_processes(devices)],
    }


def _of_all_processes(devices: list[Any]) -> list[Any]:
    import jax

    return jax.devices(devices[0].platform) if jax.process_count() > 1 else devices


def random_seed() -> int:
    """A seed from the operating system's entropy, for `--seed random`."""
    return secrets.randbits(32)


class Stopwatch:
    """When a run started (UTC) and how long it took."""

    def __init__(self) -> None:
        self._clock = time.perf_counter()
        self._started = datetime.now(UTC)

    def read(self) -> dict[str, object]:
        """The fields `started` and `wall_seconds` of a record."""
        return {
            "started": self._started.isoformat(timespec="seconds"),
            "wall_seconds": round(time.perf_counter() - self._clock, 3),
        }
