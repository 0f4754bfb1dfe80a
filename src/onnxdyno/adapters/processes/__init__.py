"""The door to measuring processes: a plain command line, pinned to its device, few inherited secrets, always reaped."""

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from onnxdyno.adapters.processes.scratch import Scratch, make_scratch, remove_left_behind
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceBusy, InfrastructureError
from onnxdyno.ports import Exit

__all__ = ["DeviceLock", "Process", "ProcessLauncher", "make_scratch", "pinned_environment", "remove_left_behind"]

_KEPT_EXACTLY = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"})
_KEPT_PREFIXES = ("LC_", "OPENBLAS_", "NVIDIA_", "CUDNN_")
_STDERR_BYTES = 16_384
_ENTER = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"')
"""Enter a cgroup, then become the process: all of its memory is counted there."""
_LINE_BYTES = 256 * 2**20
_GRACE_S = 2.0


class DeviceLock:
    """A flock per device on a host folder; processes that inherit the descriptor hold it too."""

    def __init__(self, folder: Path, device: Device, wait_s: float, tell: Callable[[str], None]) -> None:
        self._path = folder / f"{''.join(c if c.isalnum() or c in '-_' else '_' for c in device.id)}.lock"
        self._device = device
        self._wait_s = wait_s
        self._tell = tell
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The open file that holds the lock, to be inherited by measuring processes."""
        return self._descriptor

    def __enter__(self) -> Self:
        """Take the lock. Raises `DeviceBusy` after `wait_s`, `InfrastructureError` if the folder cannot be used."""
        try:
            self._descriptor = _open_for_all(self._path)
        except OSError as error:
            raise InfrastructureError(
                f"device lock {self._path}: {error.strerror}. Set ONNXDYNO_LOCK_DIR to a folder that every run on this "
                "machine can write.",
                retryable=False,
            ) from error
        try:
            self._take()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        os.close(self._descriptor)

    def rest(self, seconds: float) -> None:
        """Let other runs have the device for so long, then take it again. Raises `DeviceBusy` after `wait_s`."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        time.sleep(seconds)
        self._take()

    def _take(self) -> None:
        deadline_s = time.monotonic() + self._wait_s
        is_told = False
        while not self._is_taken():
            if time.monotonic() >= deadline_s:
                raise DeviceBusy(
                    f"{self._device.id}: another run has held this device for {self._wait_s:.0f} s ({self._path}). "
                    "Wait for it, or raise ONNXDYNO_LOCK_WAIT_S."
                )
            if not is_told:
                self._tell(f"waiting for {self._device.id}: another run has it")
                is_told = True
            time.sleep(0.2)

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _open_for_all(path: Path) -> int:
    """Open a file, made if it is not there, in a folder that every user of the machine can share.

    Read-only is enough for a lock; a kernel with fs.protected_regular lets nobody open with O_CREAT what another user
    has made in such a folder.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(descriptor, 0o644)
        return descriptor
    return os.open(path, flags)


class ProcessLauncher:
    """Starts measuring processes for one device under its lock."""

    def __init__(self, lock: DeviceLock, oom_kills: Callable[[], int | None], cgroup: Path | None = None) -> None:
        """`cgroup`: the `cgroup.procs` of a cgroup that each process enters before it becomes a measuring one."""
        self._lock = lock
        self._oom_kills = oom_kills
        self._cgroup = cgroup

    def joining(self, cgroup: Path) -> "ProcessLauncher":
        """The same, whose processes enter this cgroup first."""
        return ProcessLauncher(self._lock, self._oom_kills, cgroup)

    def rest(self, seconds: float) -> None:
        """Let other runs have the device for so long, then take it again; no process of this one may be at work.

        Raises `DeviceBusy` if another run keeps it.
        """
        self._lock.rest(seconds)

    def start(self, device: Device, assignment: bytes) -> "Process":
        """Start one. It reads the assignment from its standard input and answers on a descriptor of its own.

        Raises `InfrastructureError` if there is no room for its files, or no process more.
        """
        try:
            with contextlib.ExitStack() as opened:
                process = self._start(device, assignment, opened)
                opened.pop_all()
        except OSError as error:
            raise InfrastructureError(
                f"no measuring process could be started: {error}. Check memory and the room in TMPDIR."
            ) from error
        return process

    def _start(self, device: Device, assignment: bytes, opened: contextlib.ExitStack) -> "Process":
        """What is in `opened` belongs to the process; what only its start needs is closed here."""
        scratch = make_scratch()
        opened.callback(scratch.remove)
        stderr = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  closed when the process is reaped
        answers, answer_to = os.pipe2(os.O_CLOEXEC)
        opened.callback(os.close, answers)
        command = [
            sys.executable, "-P", "-m", "onnxdyno.worker", "--answer-to", str(answer_to), "--parent", str(os.getpid()),
        ]  # fmt: skip
        try:
            if self._cgroup is not None:
                command = [*_ENTER, str(self._cgroup), *command]
            # a file, since a pipe blocks on a process that does not read
            with tempfile.TemporaryFile() as stdin:
                stdin.write(assignment)
                stdin.seek(0)
                child = subprocess.Popen(  # noqa: S603  a fixed command line
                    command,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=(answer_to, self._lock.descriptor, scratch.descriptor),
                    start_new_session=True,
                    cwd=scratch.path,
                    env=pinned_environment(os.environ, device, scratch.path),
                )
        finally:
            os.close(answer_to)
        return Process(child=child, answers=answers, stderr=stderr, scratch=scratch, oom_kills=self._oom_kills)


class Process:
    """One measuring process at work."""

    def __init__(
        self,
        *,
        child: "subprocess.Popen[bytes]",
        answers: int,
        stderr: IO[bytes],
        scratch: Scratch,
        oom_kills: Callable[[], int | None],
    ) -> None:
        self._child = child
        self._answers = answers
        self._stderr = stderr
        self._scratch = scratch
        self._oom_kills = oom_kills
        self._kills_before = oom_kills()
        self._timed_out = False

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group and session."""
        return self._child.pid

    def events(self, silence_s: Callable[[], float]) -> Generator[bytes, None, None]:
        """Lines as they come. Ends with the process, or when it said nothing for `silence_s()`, asked at each line."""
        pending = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            deadline_s = time.monotonic() + silence_s()
            while True:
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    self._timed_out = True
                    return
                chunk = os.read(self._answers, 1 << 20)
                if not chunk or len(pending) > _LINE_BYTES:
                    return
                pending += chunk
                if b"\n" not in chunk:
                    continue
                *lines, rest = bytes(pending).split(b"\n")
                pending = bytearray(rest)
                yield from lines
                deadline_s = time.monotonic() + silence_s()

    def stop(self) -> Exit:
        """Wait a moment for an orderly end, else end the whole group; always reaps and removes the scratch folder."""
        try:
            if not self._timed_out:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(_GRACE_S)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            status = self._child.wait()
            os.close(self._answers)
            tail = _tail(self._stderr)
            self._scratch.remove()
        before, now = self._kills_before, self._oom_kills()
        was_oom = status == -signal.SIGKILL and before is not None and now is not None and now > before
        return Exit(status=status, stderr_tail=tail, timed_out=self._timed_out, oom_killed=was_oom)


def pinned_environment(environment: Mapping[str, str], device: Device, scratch: Path) -> dict[str, str]:
    """What a measuring process may see: nothing secret, and only its own GPU, before CUDA starts."""
    kept = {
        name: value for name, value in environment.items() if name in _KEPT_EXACTLY or name.startswith(_KEPT_PREFIXES)
    }
    visible = device.id if device.kind is DeviceKind.CUDA else ""
    return kept | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        "TMPDIR": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


def _tail(stderr: IO[bytes]) -> str:
    with stderr:
        size = stderr.seek(0, os.SEEK_END)
        stderr.seek(max(0, size - _STDERR_BYTES))
        return stderr.read().decode("utf-8", "replace")
