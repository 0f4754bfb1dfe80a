"""What is in use on a GPU, told by the driver: asking takes no context, so nothing of it is ours."""

import pynvml

from onnxdyno.adapters.nvml.asking import ask, nvml, told


def used_bytes(uuid: str) -> tuple[int | None, str | None]:
    """Bytes in use by every process on the GPU or MIG instance, or why they are not told."""
    try:
        with nvml():
            return ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).used))
    except pynvml.NVMLError as error:
        return None, told(error)
