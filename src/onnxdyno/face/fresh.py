"""A callable measured in fresh processes: only so does an interval hold what differs from one process to the next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

import msgspec

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.text import printable
from onnxdyno.face.memory import Peak
from onnxdyno.face.places import UNKNOWN, Place
from onnxdyno.face.records import Failed, Launched

START_S = 60.0
"""What a process may take to start and to import the target, beside three times its share of the budget."""
_TAIL = 300


def in_fresh_processes(
    target: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    sync: Callable[[], object] | None,
    budget_s: float,
    launches: int,
) -> tuple[Launched, ...]:
    """One launch after another, each its share of the budget; the first that fails is the last.

    Raises `UsageError` for a target or a sync that another process cannot import, and for arguments that are not what
    JSON gives back.
    """
    order = {
        "target": import_path(target, "the target"),
        "args": _plain(list(args), "arguments"),
        "kwargs": _plain(kwargs, "keyword arguments"),
        "sync": None if sync is None else import_path(sync, "sync"),
        "budget_ns": int(budget_s * 1e9 / launches),
        "launches": launches,
        "sys_path": [entry for entry in sys.path if isinstance(entry, str)],
    }
    done: list[Launched] = []
    while len(done) < launches and not (done and done[-1].failed):
        done.append(_launch(json.dumps(order).encode(), START_S + 3 * budget_s / launches))
    return tuple(done)


def import_path(target: Callable[..., object], what: str) -> str:
    """`package.module:Class.function`. Raises `UsageError` unless that gives this very object back."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    problem = _problem(target, module, name)
    if problem is not None:
        raise UsageError(
            f"{what} cannot be measured in fresh processes: {printable(problem)}. Give a function at the top of a "
            "module (and its arguments after it), or leave launches at 1."
        )
    return f"{module}:{name}"


def resolve(path: str) -> Any:
    """What `import_path` named. Raises `ImportError`, `AttributeError`."""
    module, _, name = path.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _problem(target: Any, module: Any, name: Any) -> str | None:
    if not isinstance(module, str) or not isinstance(name, str):
        return f"a {type(target).__name__} has no name to import it by"
    if module == "__main__":
        return f"{name} is defined in the program that runs now (__main__), which a fresh process would run again"
    try:
        found = resolve(f"{module}:{name}")
    except (ImportError, AttributeError):
        return f"{module}:{name} cannot be imported"
    return None if found is target else f"{module}:{name} is another object than the one given"


def _plain(value: Any, what: str) -> Any:
    """`value`, if JSON gives it back equal in value and type."""
    try:
        returned = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(_not_plain(what, str(error))) from None
    if not _same(value, returned):
        raise UsageError(_not_plain(what, "they come back as other values, as tuples come back as lists"))
    return value


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _not_plain(what: str, why: str) -> str:
    return (
        f"the {what} cannot be sent to fresh processes: {printable(why)}. Give plain JSON values (text, numbers, "
        "lists, dicts), let the target make its own inputs, or leave launches at 1."
    )


def _launch(order: bytes, patience_s: float) -> Launched:
    """Start one, wait for its answer, which comes on a descriptor of its own: the target may print what it likes."""
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "onnxdyno.face.child"]
        command += ["--answer-to", str(answer.fileno()), "--parent", str(os.getpid())]
        try:
            ended = subprocess.run(  # noqa: S603  our own interpreter and module
                command,
                input=order,
                stdout=said,
                stderr=subprocess.STDOUT,
                pass_fds=(answer.fileno(),),
                timeout=patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _lost(PointState.TIMEOUT, f"no answer within {patience_s:.0f} s; the process was ended.")
        answer.seek(0)
        try:
            return msgspec.json.decode(answer.read(), type=Launched)
        except msgspec.MsgspecError:
            return _lost(PointState.CRASHED, f"its process ended {_how(ended.returncode)}: {_end_of(said)}")


def _lost(state: PointState, reason: str) -> Launched:
    nothing = Peak(value_bytes=None, reason=f"{state.value}: {reason}")
    place = Place(name=UNKNOWN, is_cuda=False, reason=nothing.reason)
    return Launched(place=place, ram=nothing, vram=nothing, timed=None, failed=Failed(state=state, reason=reason))


def _how(status: int) -> str:
    """As a person says it: by which signal, or with which status."""
    return f"by {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"with status {status}"


def _end_of(said: IO[bytes]) -> str:
    """The last line of what the process printed."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - 4 * _TAIL))
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    return printable(lines[-1], _TAIL) if lines else "it printed nothing."
