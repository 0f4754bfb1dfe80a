"""One session: what the runtime says of it, and calls bound to inputs."""

from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from onnxdyno.adapters.ort.calls import OrtCall, refuse_foreign_types
from onnxdyno.adapters.ort.resident import resident
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant
from onnxdyno.ports import Stream


class OrtModel:
    """One session."""

    def __init__(
        self, session: Any, device: Device, session_ns: int, *, stream: Stream | None = None, is_graph: bool = False
    ) -> None:
        """`stream` is what the session submits to, where that is ours; `is_graph`: it records graphs."""
        self._session = session
        self._device = device
        self._stream = stream
        self._is_graph = is_graph
        self._graphs = count(1)  # 0 is the runtime's own
        self.session_ns = session_ns
        self.providers: tuple[str, ...] = tuple(session.get_providers())

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """(`provider.option`, value) of each provider after defaults, as the runtime reports them.

        Addresses of this process are left out: they differ in each.
        """
        reported: dict[str, dict[str, str]] = self._session.get_provider_options()
        return tuple(
            (f"{provider}.{name}", str(value))
            for provider in self.providers
            for name, value in sorted(reported.get(provider, {}).items())
            if name != "user_compute_stream"
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
        """Bind one input set; where it stays on the device, outputs of a trial call's shapes are allocated beforehand.

        Raises `PointError` if the runtime refuses the inputs, fails in the trial call, or has no such variant.
        """
        refuse_foreign_types(feeds)
        where, stream = _location(self._device), self._stream
        match variant:
            case Variant.E2E:
                return OrtCall.host(self._session, feeds)
            case Variant.DEVICE:
                return resident(self._session, feeds, where, stream=stream)
            case Variant.ENQUEUE:
                if stream is None:
                    raise _not_here(variant, "the time to submit a call is no time of its own")
                return resident(self._session, feeds, where, stream=stream, is_waited_for=False)
            case Variant.GRAPH:
                if not self._is_graph:
                    raise _not_here(variant, "this session records no graph")
                return resident(self._session, feeds, where, stream=stream, graph=next(self._graphs))

    def end_profile(self) -> Path | None:
        """Stop profiling; the file written."""
        name = self._session.end_profiling()
        return Path(name) if name else None


def _not_here(variant: Variant, why: str) -> PointError:
    reason = f"{variant.value} is measured on a CUDA device: here {why}."
    return PointError(PointState.NOT_APPLICABLE, reason, "Use the variant device.")


def _location(device: Device) -> tuple[str, int]:
    """Where buffers live. Index 0, because the process sees only the one GPU that it was pinned to by UUID."""
    return ("cpu", 0) if device.kind is DeviceKind.CPU else ("cuda", 0)
