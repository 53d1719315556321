"""Programs that every device runs over its own blocks: same program, hence the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

# XLA halves AVX-512 vectors unless told otherwise: 1.4 times the speed, and the same bits
_CPU_OPTIONS = {"xla_cpu_prefer_vector_width": 512}


def device_mesh(devices: Sequence[jax.Device]) -> Mesh:
    """All devices in a line, over which blocks are shared out."""
    return Mesh(np.array(devices), ("device",))


def on_each_device(program: Callable[..., Any], mesh: Mesh, split: Sequence[bool]) -> Any:
    """`program` compiled to run on each device of the mesh.

    `split[i]` says whether argument i is cut along its first axis, a part for each device, or
    given whole to all. Outputs are put together along their first axis.
    """
    whole, part = PartitionSpec(), PartitionSpec("device")
    sharded = jax.shard_map(
        program,
        mesh=mesh,
        in_specs=tuple(part if cut else whole for cut in split),
        out_specs=part,
        check_vma=False,  # or every total that a loop starts from needs a cast of its own
    )
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return jax.jit(sharded, compiler_options=_CPU_OPTIONS if on_cpu else None)
