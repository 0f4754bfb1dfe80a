"""What `ports.Gpu` and `ports.Stream` promise: one body, run over the fake bindings and, where there is one, a GPU."""

import time

from onnxdyno.ports import Gpu


def check_gpu(gpu: Gpu) -> None:
    """Its name is NVML's, again and again."""
    found = gpu.identity()
    assert found.startswith(("GPU-", "MIG-"))
    assert len(found) == len("GPU-") + 36
    assert gpu.identity() == found


def check_stream(gpu: Gpu) -> None:
    """Streams are apart; waiting for nothing returns; events around nothing take next to nothing."""
    one, other = gpu.open_stream(), gpu.open_stream()
    assert one.handle > 0
    assert one.handle != other.handle
    one.wait()
    calls = []
    times_ns = one.times_ns(lambda: calls.append(1), 3)
    assert len(calls) == 3
    assert len(times_ns) == 3
    assert all(0 <= each < 1_000_000_000 for each in times_ns)
    one.wait()


def check_copies(gpu: Gpu) -> None:
    """As many as were asked, each way, at the sizes that were asked; also where nothing is to be copied."""
    transfer = gpu.copy(1 << 20, 1 << 16, count=5, clock=time.perf_counter_ns)
    assert transfer.reason is None
    assert (transfer.h2d_bytes, transfer.d2h_bytes) == (1 << 20, 1 << 16)
    assert len(transfer.h2d_ns) == len(transfer.d2h_ns) == 5
    assert min(transfer.h2d_ns + transfer.d2h_ns) > 0
    empty = gpu.copy(0, 0, count=2, clock=time.perf_counter_ns)
    assert empty.reason is None
    assert len(empty.h2d_ns) == 2
    one_way = gpu.copy(0, 1 << 16, count=2, clock=time.perf_counter_ns)
    assert (one_way.h2d_bytes, one_way.d2h_bytes, len(one_way.d2h_ns)) == (0, 1 << 16, 2)
