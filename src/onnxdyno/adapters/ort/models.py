"""One session: what the runtime says of it, and calls bound to inputs."""

from collections import Counter
from pathlib import Path
from typing import Any

from onnxdyno.adapters.ort.calls import OrtCall, refuse_foreign_types
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.plan import Variant


class OrtModel:
    """One session."""

    def __init__(self, session: Any, device: Device, session_ns: int) -> None:
        self._session = session
        self._device = device
        self.session_ns = session_ns
        self.providers: tuple[str, ...] = tuple(session.get_providers())

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """(`provider.option`, value) of each provider after defaults, as the runtime reports them."""
        reported: dict[str, dict[str, str]] = self._session.get_provider_options()
        return tuple(
            (f"{provider}.{name}", str(value))
            for provider in self.providers
            for name, value in sorted(reported.get(provider, {}).items())
        )

    @property
    def assignment(self) -> tuple[tuple[str, str, int], ...]:
        """(provider, op type, count) from the runtime's own record, before its later fusions."""
        counts = Counter(
            (part.ep_name, node.op_type)
            for part in self._session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        )
        return tuple((provider, op_type, count) for (provider, op_type), count in sorted(counts.items()))

    def bind(self, feeds: dict[str, Any], variant: Variant) -> OrtCall:
        """Bind one input set; for `device`, outputs of the shapes of one trial call are allocated beforehand.

        Raises `PointError` if the runtime refuses the inputs or fails in the trial call.
        """
        refuse_foreign_types(feeds)
        match variant:
            case Variant.E2E:
                return OrtCall.host(self._session, feeds)
            case Variant.DEVICE:
                return OrtCall.resident(self._session, feeds, _location(self._device))

    def end_profile(self) -> Path | None:
        """Stop profiling; the file written."""
        name = self._session.end_profiling()
        return Path(name) if name else None


def _location(device: Device) -> tuple[str, int]:
    """Where buffers live. Index 0, because the process sees only the one GPU that it was pinned to by UUID."""
    return ("cpu", 0) if device.kind is DeviceKind.CPU else ("cuda", 0)
