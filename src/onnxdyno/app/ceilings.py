"""A device's own ceilings: measured once for a fingerprint and a number of threads, then read from the disk."""

from collections.abc import Callable
from dataclasses import replace

from onnxdyno import launching, planning
from onnxdyno.analysis.ceilings import lacking
from onnxdyno.app import places
from onnxdyno.domain.ceilings import CeilingKey, Ceilings, fingerprint_sha256
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.micros import Micro, micros
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.domain.runs import Progress
from onnxdyno.storage.ceilings import keep_ceilings, read_ceilings


def calibrate(
    on: Device, *, threads: int | None = None, is_again: bool = False, tell: Callable[[Progress], None]
) -> Ceilings:
    """The ceilings of a device: stored ones, with what they lack measured now; all of them if none are, or `is_again`.

    Raises `InfrastructureError`.
    """
    on, count = _as_users_get_it(on), threads or on.threads
    known = None if is_again else stored_ceilings(on, count)
    if known is not None and not lacking(_micros(on), known.entries):
        return known
    if known is not None:
        tell(Progress(done=0, total=1, text="measuring what the stored ceilings lack"))
    with places.launcher_on(on, lambda text: tell(Progress(done=0, total=1, text=text))) as launcher:
        measured = launching.measure_ceilings(
            on,
            count,
            cache_bytes=_cache_bytes(on),
            runtime_version=places.runtime_version(),
            launcher=launcher,
            memory_limit_bytes=places.memory_limit_bytes(),
            tell=tell,
            sampler=places.sampler(),
            standing=known,
        )
    return keep_ceilings(places.surroundings().cache_folder, measured, is_again=is_again or known is not None)


def lacks(on: Device, threads: int | None = None) -> tuple[CeilingKey, ...]:
    """What `calibrate` would measure of ceilings that are stored: kinds added since, and nulls whose cause may pass."""
    known = stored_ceilings(on, threads or on.threads)
    return () if known is None else lacking(_micros(on), known.entries)


def _micros(on: Device) -> tuple[Micro, ...]:
    return micros(on.kind, _cache_bytes(on))


def _cache_bytes(on: Device) -> tuple[int, ...]:
    return places.cpu_cache_bytes(on.cores[0]) if on.kind is DeviceKind.CPU else ()


def stored_ceilings(on: Device, threads: int) -> Ceilings | None:
    """What was measured before on exactly this device with so many threads."""
    return read_ceilings(places.surroundings().cache_folder, fingerprint_sha256(_as_users_get_it(on), threads))


def _as_users_get_it(on: Device) -> Device:
    """With the choices of a default spec in its fingerprint, as a plan has them; those of a plan are left alone."""
    defaults = planning.with_factors(on, BenchmarkSpec())
    chosen = {fact.name for fact in on.fingerprint}
    new = tuple(fact for fact in defaults.fingerprint if fact.name not in chosen)
    return replace(on, fingerprint=(*on.fingerprint, *new))
