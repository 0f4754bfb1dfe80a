"""The SM clock of one GPU, for the measuring process itself: whether its warm-up is over depends on it."""

from typing import Any

import pynvml

from onnxdyno.adapters.nvml.asking import told
from onnxdyno.domain.devices import Device

_HZ_PER_MHZ = 1e6


class SmClock:
    """`ports.DeviceClock`. NVML is started by the first reading, so that a cold start stays one, and never ended."""

    def __init__(self, device: Device) -> None:
        """Of a MIG instance the clock is that of its GPU."""
        self._uuid = device.parent_id or device.id
        self._handle: Any = None
        self._is_shut = False
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """In NVML's words."""
        return self._reason

    def read_hz(self) -> float | None:
        """Some microseconds; after NVML could not be started once, nobody tries again."""
        if self._is_shut:
            return None
        try:
            if self._handle is None:
                self._open()
            return float(pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM)) * _HZ_PER_MHZ
        except pynvml.NVMLError as error:
            self._reason = told(error)
            self._is_shut = self._handle is None
            return None

    def _open(self) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(self._uuid)
