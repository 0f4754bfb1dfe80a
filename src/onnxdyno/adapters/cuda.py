"""The door to the CUDA runtime: memory of the one GPU that this process was pinned to."""

from cuda.bindings import runtime

from onnxdyno.domain.errors import DeviceError


class DeviceMemory:
    """Bytes in use on the GPU over those in use when this gauge was reset, by cudaMemGetInfo.

    The first question creates the CUDA context, so the context itself is not in the difference; ONNX Runtime's arena
    keeps what it has taken, so the use after a run is its peak. Another process on the device would be counted:
    the device's lock and the check for foreign tenants are there to prevent that.
    """

    def used_bytes(self) -> int:
        """Now, by every process on the device."""
        status, free_bytes, total_bytes = runtime.cudaMemGetInfo()
        if status != runtime.cudaError_t.cudaSuccess:
            raise DeviceError(f"cudaMemGetInfo: {status.name}. Check the driver with nvidia-smi.")
        return int(total_bytes) - int(free_bytes)

    def peak_bytes(self) -> int:
        """As `used_bytes`: see the class."""
        return self.used_bytes()

    def reset(self) -> None:
        """Create the context, so that it is part of the baseline."""
        self.used_bytes()
