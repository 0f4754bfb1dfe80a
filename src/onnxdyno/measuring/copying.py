"""A copy with a dynamic batch, made and proven where models run: in the measuring process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxdyno.domain.devices import Device
from onnxdyno.domain.plan import Variant
from onnxdyno.graphs.proof import Feeds, prove
from onnxdyno.graphs.rebatch import rebatch
from onnxdyno.ports import Runtime


def copy_with_batch(source: Path, target: Path, *, runtime: Runtime, device: Device, threads: int, seed: int) -> str:
    """Write the copy, prove it equal item by item, and say in one line what it is and what was shown.

    Raises `RebatchRefused`; the copy is then gone again.
    """

    def run(path: Path, feeds: Feeds) -> Sequence[tuple[str, Any]]:
        return runtime.load(path, device, threads).bind(dict(feeds), Variant.E2E).outputs()

    made = rebatch(source, target)
    try:
        proof = prove(made, run=run, seed=seed)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return (
        f"a copy whose batch is dynamic; the original's is fixed at {made.was}. Shown equal item by item on "
        f"{proof.items} random items with {proof.weights} weights (largest error {proof.worst_error:.1g} of the "
        "largest value)."
    )
