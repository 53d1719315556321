"""Several processes that share out one run: who they are, and how they exchange what they measured.

Every process measures its share of the blocks on its own devices; all of them gather all parts and
merge them in block order, so that each has the same bits as a process alone. A process that fails
says so in its next message; one that dies breaks the exchange, and the others stop at once (at the
latest when its heartbeat has been missing for HEARTBEAT seconds).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ..stats.checks import InputError
from ..stats.long_runs import LongRunOptions, LostProcess
from .roll_call import call_the_roll

HEARTBEAT, JOINING, LEAVING = 60, 60, 30  # seconds until a silent process counts as gone
_FAILED, _FINE = b"\0", b"\1"
# what a cluster sets in each process that it starts, and how many there are
_CLUSTERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "TPU_WORKER_HOSTNAMES")


class Team:
    """The processes of a run; this base is a process alone."""

    index, count = 0, 1

    def gather(self, data: bytes) -> list[bytes]:
        """What each process has to say, in the order of the processes; all must call it."""
        return [data]

    def fail(self, why: str) -> None:
        """Tell the others, who wait for this process, that it gives up."""

    def from_first(self, data: bytes) -> bytes:
        """What the first process has to say."""
        return self.gather(data if self.index == 0 else b"")[0]


ALONE = Team()


class Processes(Team):
    """Processes that JAX has connected."""

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count

    def gather(self, data: bytes) -> list[bytes]:
        """See Team; LostProcess where one has failed or died."""
        found = self._exchanged(_FINE + data)
        for index, message in enumerate(found):
            if message[:1] == _FAILED:
                raise LostProcess(f"process {index} gave up: {message[1:].decode()}")
        return [message[1:] for message in found]

    def fail(self, why: str) -> None:
        """See Team."""
        with suppress(LostProcess):
            self._exchanged(_FAILED + why.encode())

    def _exchanged(self, message: bytes) -> list[bytes]:
        import numpy as np

        lengths = self._allgather(np.array([len(message)], np.uint32).view(np.uint8))
        sizes = np.ascontiguousarray(lengths).view(np.uint32)[:, 0]
        padded = np.zeros(1 << int(max(sizes) - 1).bit_length(), np.uint8)  # few programs
        padded[: len(message)] = np.frombuffer(message, np.uint8)
        found = self._allgather(padded)
        return [found[i, :size].tobytes() for i, size in enumerate(sizes)]

    def _allgather(self, array: Any) -> Any:
        from jax.experimental.multihost_utils import process_allgather

        try:
            return process_allgather(array).reshape(self.count, -1)
        except Exception as error:  # of whatever transport the platform has
            said = str(error).splitlines()[0]
            raise LostProcess(f"another process has died ({said})") from None


_joined: list[Team] = []


def joined(options: LongRunOptions) -> Team:
    """The processes of this run, joined when it is first asked for."""
    if not _joined or _joined[0] is ALONE:
        _joined[:] = [join(options)]
    return _joined[0]


def leads() -> bool:
    """Whether this process is the one that prints and writes: the first, or the only one."""
    return not _joined or _joined[0].index == 0


def leave_early() -> bool:
    """Whether this process must end without waiting for the others, who will not come."""
    if not _joined or _joined[0] is ALONE:
        return False
    if leads():
        time.sleep(1.0)  # the first one keeps the connection until the others have read why
    return True


def join(options: LongRunOptions, surroundings: Mapping[str, str] = os.environ) -> Team:
    """The processes of this run; must come before JAX has looked for devices.

    Without a cluster's signs and without a coordinator this is a process alone, and nothing is
    tried. InputError where the others cannot be reached.
    """
    wanted = options.distributed == "on" or options.coordinator is not None
    if not wanted and (options.distributed == "off" or not started_by_cluster(surroundings)):
        return ALONE
    import jax

    if options.coordinator is not None:
        assert options.num_processes is not None
        assert options.process_id is not None
        call_the_roll(options.coordinator, options.num_processes, options.process_id, JOINING)
    try:
        jax.distributed.initialize(
            options.coordinator,
            options.num_processes,
            options.process_id,
            initialization_timeout=JOINING,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=LEAVING,
        )
    except (ValueError, RuntimeError) as error:
        said = str(error).splitlines()[0]
        raise InputError(
            f"the processes of a distributed run must reach each other, got: {said}; give "
            "--coordinator, --num-processes and --process-id, or --distributed off"
        ) from None
    team = Processes(jax.process_index(), jax.process_count())
    with _silent_stdout():  # the first exchange connects, and gloo says so
        team.gather(b"")
    return team


def started_by_cluster(surroundings: Mapping[str, str]) -> bool:
    """Whether a cluster has started this process as one of several.

    Examples:
        >>> started_by_cluster({"SLURM_STEP_NUM_TASKS": "1"})
        False
        >>> started_by_cluster({"OMPI_COMM_WORLD_SIZE": "4"})
        True

    """
    said = [surroundings.get(name, "") for name in _CLUSTERS]
    return "JAX_COORDINATOR_ADDRESS" in surroundings or any(
        "," in text or (text.isdecimal() and int(text) > 1) for text in said
    )


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """Nothing on stdout, whatever a library in C writes there."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
