"""Are all processes there? Asked before JAX connects them, which aborts where one is missing."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

from ..stats.checks import InputError

_PAUSE = 0.05  # seconds between two tries to reach the first process


def call_the_roll(coordinator: str, count: int, index: int, seconds: float) -> None:
    """Wait until all `count` processes have met at HOST:PORT; InputError after `seconds`."""
    host, _, port = coordinator.rpartition(":")
    end = time.monotonic() + seconds
    if index == 0:
        _wait_for_the_others(int(port), count - 1, end, seconds)
    else:
        _report_to_the_first((host.strip("[]"), int(port)), end, seconds)


def _wait_for_the_others(port: int, others: int, end: float, seconds: float) -> None:
    with ExitStack() as stack:
        try:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
            server = stack.enter_context(
                socket.create_server(
                    ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6
                )
            )
        except OSError as error:
            raise InputError(
                f"coordinator's port must be free, got {port}: {error.strerror}; name another"
            ) from None
        there: list[socket.socket] = []
        while len(there) < others:
            server.settimeout(max(end - time.monotonic(), 1e-3))
            try:
                there.append(stack.enter_context(server.accept()[0]))
            except TimeoutError:
                raise InputError(
                    f"all {others + 1} processes must start within {seconds:g} s, got "
                    f"{len(there) + 1}; start them together, with the same --coordinator"
                ) from None
        for one in there:
            one.sendall(b"!")
        for one in there:
            one.recv(1)  # they hang up first, so that the port is free at once


def _report_to_the_first(address: tuple[str, int], end: float, seconds: float) -> None:
    while (left := end - time.monotonic()) > 0:
        try:
            with socket.create_connection(address, timeout=left) as first:
                if first.recv(1):
                    return
        except OSError:
            pass
        time.sleep(_PAUSE)
    raise InputError(
        f"process 0 and all others must be there within {seconds:g} s at "
        f"{address[0]}:{address[1]}; start them together, with the same --coordinator"
    )
