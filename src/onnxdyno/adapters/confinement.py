"""The door that is shut behind a model: what the measuring process gives up before it loads one."""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_LIBC = ctypes.CDLL(None, use_errno=True)

Fact = tuple[str, str]


def die_with(parent: int) -> bool:
    """Have the kernel end this process when the thread that started it ends; False if `parent` is gone already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def stay_on(cores: Sequence[int]) -> None:
    """Run on these logical CPUs only; where the kernel refuses, on those that it gave."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cores)


def limit(*, memory_bytes: int | None, cpu_s: int | None) -> None:
    """No core dumps; private memory and CPU time bounded where a bound is given.

    Memory is RLIMIT_DATA, which counts what is really taken: an address-space limit would count reservations too.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, bound in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_CPU, cpu_s)):
        if bound is not None:
            hard = resource.getrlimit(what)[1]
            capped = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(what, (capped, capped))


def leave_network(*, may_change_user: bool) -> Fact:
    """Move into an empty network namespace of its own; the fact says whether that worked.

    Without the privilege a user namespace is made with it, unless the process needs its user for a device's files.
    """
    if _unshare(_CLONE_NEWNET) == 0 or (may_change_user and _unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0):
        return ("network", "none")
    return ("network", f"reachable: {os.strerror(ctypes.get_errno())}")


def _unshare(flags: int) -> int:
    result: int = _LIBC.unshare(flags)
    return result
