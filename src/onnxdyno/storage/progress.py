"""Ledgers of a run's finished pieces: what is kept once is not measured again, whoever goes on with the run.

A name is a safe segment: letters, digits, `.`, `_`, `-`, 120 at most.
"""

from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys


class MemoryLedger:
    """For a run without a results store: nothing outlives the process."""

    def __init__(self) -> None:
        self._pieces: dict[str, bytes] = {}

    def read_all(self) -> dict[str, bytes]:
        """Every piece that is kept."""
        return dict(self._pieces)

    def keep(self, name: str, body: bytes) -> bytes:
        """Keep a piece unless there is one."""
        keys.progress_key("memory", name)
        return self._pieces.setdefault(name, body)

    def clear(self) -> None:
        """Forget every piece."""
        self._pieces.clear()


class StoreLedger:
    """One object per piece, created only if absent."""

    def __init__(self, results: ObjectStore, run_id: str) -> None:
        self._results = results
        self._run_id = run_id
        self._prefix = keys.progress_prefix(run_id)

    def read_all(self) -> dict[str, bytes]:
        """Every piece that is kept. Raises `StoreError`."""
        names = [version.key.removeprefix(self._prefix) for version in self._results.list(self._prefix)]
        return {
            name.removesuffix(".json"): self._results.get(self._prefix + name)
            for name in names
            if name.endswith(".json") and "/" not in name
        }

    def keep(self, name: str, body: bytes) -> bytes:
        """Keep a piece unless there is one. Raises `StoreError`."""
        key = keys.progress_key(self._run_id, name)
        return body if self._results.put_if_absent(key, body) else self._results.get(key)

    def clear(self) -> None:
        """Forget every piece. Raises `StoreError`."""
        for version in list(self._results.list(self._prefix)):
            self._results.delete(version.key)
