"""What a spec chooses beside sizes: the variants that a device has, and factors that make two runs two things. Pure."""

from dataclasses import replace

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.devices import Device, DeviceKind, Fact
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import BenchmarkSpec, Excluded, Point, Variant
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe


def variants_of(spec: BenchmarkSpec, signature: Signature, device: Device) -> tuple[Variant, ...]:
    """Those that are measured; the first is the base's, which every device has: `device` comes first if none was asked.

    Values that are no tensors cannot be bound to a device: host values only.
    """
    if not _is_plain(signature):
        return (Variant.E2E,)
    here = dict.fromkeys(variant for variant in spec.variants if _is_here(variant, device))
    first = next((variant for variant in here if not variant.is_cuda_only), Variant.DEVICE)
    return tuple(dict.fromkeys((first, *here)))


def pointless(spec: BenchmarkSpec, signature: Signature, device: Device, base: AxisSizes) -> tuple[Excluded, ...]:
    """One row for each variant that was asked and that this device, or this model, does not have."""
    measured = variants_of(spec, signature, device)
    left_out = (variant for variant in dict.fromkeys(spec.variants) if variant.is_cuda_only and variant not in measured)
    return tuple(
        Excluded(point=Point(sizes=base, variant=variant), reason=_why(variant, device)) for variant in left_out
    )


def session_of(spec: BenchmarkSpec, recipe: SessionRecipe = AS_USERS_GET_IT) -> SessionRecipe:
    """How the sessions of a run are made, where a pass asks for `recipe`."""
    return replace(recipe, spinning=spec.spinning, cudnn_search=spec.cudnn_search)


def with_factors(device: Device, spec: BenchmarkSpec) -> Device:
    """The device with what was chosen for its sessions in its fingerprint: numbers of two choices are not compared."""
    factors = {"spinning": str(spec.spinning).lower()}
    if device.kind is DeviceKind.CUDA:
        factors["cudnn_search"] = spec.cudnn_search.value
    others = tuple(fact for fact in device.fingerprint if fact.name not in factors)
    return replace(device, fingerprint=(*others, *(Fact(name=name, value=value) for name, value in factors.items())))


def _is_plain(signature: Signature) -> bool:
    return all(value.kind == "tensor" and value.dtype != "string" for value in (*signature.inputs, *signature.outputs))


def _is_here(variant: Variant, device: Device) -> bool:
    return device.kind is DeviceKind.CUDA or not variant.is_cuda_only


def _why(variant: Variant, device: Device) -> str:
    if _is_here(variant, device):
        return f"{variant.value} needs tensors of numbers as inputs and outputs."
    return f"{variant.value} is measured on a CUDA device only."
