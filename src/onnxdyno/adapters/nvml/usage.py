"""What is in use on a GPU, told by the driver: asking takes no context, so nothing of it is ours."""

from functools import partial

import pynvml

from onnxdyno.adapters.nvml.asking import ask, nvml, told


def used_bytes(uuid: str) -> tuple[int | None, str | None]:
    """Bytes in use by every process on the GPU or MIG instance, or why they are not told."""
    try:
        with nvml():
            return ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).used))
    except pynvml.NVMLError as error:
        return None, told(error)


def process_bytes(uuid: str, pid: int) -> tuple[int | None, str | None]:
    """Bytes that the driver counts for one process, its context included, or why they are not told.

    In a container the ids are those of the host: then nothing is told.
    """
    try:
        with nvml():
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            listed, reason = ask(partial(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle))
    except pynvml.NVMLError as error:
        return None, told(error)
    if listed is None:
        return None, reason
    own = [each.usedGpuMemory for each in listed if int(each.pid) == pid]
    if not own:
        return None, _NOT_LISTED if listed else "NVML lists no process on the device"
    if any(each is None for each in own):
        return None, "NVML does not say what a process uses here"
    return sum(own), None


_NOT_LISTED = "NVML's process ids are not of this process table (a container)"
