"""What one GPU says of itself, some 16 times a second, read by a thread of the parent: never by the timed process."""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Condition, Event, Thread
from typing import Any

import pynvml

from onnxdyno.adapters.nvml.asking import ask, is_loss, nvml, told
from onnxdyno.domain.devices import Device
from onnxdyno.domain.telemetry import TelemetrySample, Tenant

PERIOD_S = 1 / 16
MOST_SAMPLES = 1 << 16
"""More than an hour of samples; the oldest go first."""
PATIENCE_S = 2.0
"""How long the end of a recording waits for a driver that does not answer."""

IsOurs = Callable[[int], bool]

FIELDS = (
    "energy_mj",
    "clock_events",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_mw",
    "temperature_c",
    "utilisation",
    "memory_used_bytes",
    "tenants",
)


class GpuSampler:
    """Records any GPU or MIG instance of this machine."""

    def __init__(self, is_ours: IsOurs, period_s: float = PERIOD_S) -> None:
        """`is_ours`: whether a process id is of this process or of one that it started."""
        self._is_ours = is_ours
        self._period_s = period_s

    def record(self, device: Device) -> "GpuRecording":
        """Begin to read; samples come on a thread of their own until `stop`."""
        return GpuRecording(device, self._is_ours, self._period_s)


class GpuRecording:
    """One thread at work. Where NVML cannot be used at all, one sample says why and no more come."""

    def __init__(self, device: Device, is_ours: IsOurs, period_s: float) -> None:
        self._device = device
        self._is_ours = is_ours
        self._period_s = period_s
        self._samples: deque[TelemetrySample] = deque(maxlen=MOST_SAMPLES)
        self._came = Condition()
        self._ending = Event()
        self._is_over = False
        self._thread = Thread(target=self._work, name=f"nvml {device.id}", daemon=True)
        self._thread.start()

    def samples(self) -> tuple[TelemetrySample, ...]:
        """Everything read so far, in order."""
        with self._came:
            return tuple(self._samples)

    def wait_past(self, t_ns: int, timeout_s: float) -> TelemetrySample | None:
        """A sample that began after `t_ns`, waited for; None if there is none in time, or none can come."""

        def is_settled() -> bool:
            return self._is_over or (bool(self._samples) and self._samples[-1].t_ns > t_ns)

        with self._came:
            self._came.wait_for(is_settled, timeout_s)
            return self._samples[-1] if self._samples and self._samples[-1].t_ns > t_ns else None

    def stop(self) -> None:
        """End the thread. A driver that hangs does not hold up the run: its thread is left behind and ends with us."""
        self._ending.set()
        self._thread.join(PATIENCE_S)

    def _work(self) -> None:
        try:
            with nvml():
                read = _reading(self._device, self._is_ours)
                while not self._ending.is_set():
                    self._add(read())
                    self._ending.wait(self._period_s)
        except pynvml.NVMLError as error:
            self._add(_nothing(error))
        finally:
            with self._came:
                self._is_over = True
                self._came.notify_all()

    def _add(self, sample: TelemetrySample) -> None:
        with self._came:
            self._samples.append(sample)
            self._came.notify_all()


def _nothing(error: pynvml.NVMLError) -> TelemetrySample:
    reasons = tuple((name, told(error)) for name in FIELDS)
    return TelemetrySample(t_ns=time.monotonic_ns(), reasons=reasons, is_lost=is_loss(error))


def _reading(device: Device, is_ours: IsOurs) -> Callable[[], TelemetrySample]:
    """What reads one sample. Of an instance: memory and tenants are its own, clocks, power and heat are its GPU's."""
    own = pynvml.nvmlDeviceGetHandleByUUID(device.id)
    whole = own if device.parent_id is None else pynvml.nvmlDeviceGetHandleByUUID(device.parent_id)
    reads: dict[str, Callable[[], Any]] = {
        "energy_mj": partial(pynvml.nvmlDeviceGetTotalEnergyConsumption, whole),
        "clock_events": partial(_clock_events, whole),
        "sm_clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, whole, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, whole, pynvml.NVML_CLOCK_MEM),
        "power_mw": partial(pynvml.nvmlDeviceGetPowerUsage, whole),
        "temperature_c": partial(pynvml.nvmlDeviceGetTemperature, whole, pynvml.NVML_TEMPERATURE_GPU),
        "utilisation": lambda: pynvml.nvmlDeviceGetUtilizationRates(own).gpu / 100,
        "memory_used_bytes": partial(_memory_used, own),
        "tenants": partial(_tenants, own, is_ours),
    }
    if device.parent_id is None:
        return partial(_sample, reads, {})
    del reads["energy_mj"]
    return partial(_sample, reads, {"energy_mj": "NVML counts energy for the whole GPU, not for an instance of it"})


def _sample(reads: dict[str, Callable[[], Any]], unreadable: dict[str, str]) -> TelemetrySample:
    """One reading, the energy counter first: its time is the sample's."""
    began_ns = time.monotonic_ns()
    values: dict[str, Any] = {}
    reasons = dict(unreadable)
    is_lost = False
    for name, read in reads.items():
        try:
            values[name] = read()
        except pynvml.NVMLError as error:
            reasons[name] = told(error)
            is_lost = is_lost or is_loss(error)
    return TelemetrySample(t_ns=began_ns, **values, reasons=tuple(reasons.items()), is_lost=is_lost)


def _clock_events(handle: Any) -> int:
    """Drivers before 535 have the same bits under an older name."""
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _memory_used(handle: Any) -> int:
    """Without what the driver keeps for itself, where it tells that apart."""
    used, _ = ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used))
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) if used is None else used


def _tenants(handle: Any, is_ours: IsOurs) -> tuple[Tenant, ...]:
    """Processes that compute; those that only draw show in the memory used."""
    return tuple(
        Tenant(pid=int(each.pid), used_bytes=each.usedGpuMemory, is_ours=is_ours(int(each.pid)))
        for each in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    )
