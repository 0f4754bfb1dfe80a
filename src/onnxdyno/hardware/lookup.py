"""The catalogue as one value, and a device by what a person calls it: exactly, or refused with the nearest names."""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.text import printable
from onnxdyno.hardware.catalogue import accelerators, cpus, instances, plain_cpu_name
from onnxdyno.hardware.records import Accelerator, CpuModel, Instance, Price
from onnxdyno.hardware.sustained import Sustained, sustained

AnyDevice = Accelerator | CpuModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What a person's file of devices says."""

    accelerators: tuple[Accelerator, ...] = ()
    sustained: tuple[Sustained, ...] = ()
    prices: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What is known of devices; pass your own to predict for a device that the package does not know."""

    accelerators: tuple[Accelerator, ...]
    cpus: tuple[CpuModel, ...] = ()
    instances: tuple[Instance, ...] = ()
    sustained: tuple[Sustained, ...] = ()
    prices: tuple[Price, ...] = ()

    @property
    def devices(self) -> tuple[AnyDevice, ...]:
        """Every GPU, then every CPU."""
        return (*self.accelerators, *self.cpus)

    def find(self, text: str) -> AnyDevice:
        """The one device with this id, name or NVML name, whatever its case; `_` counts as a space.

        A CPU also by what its system calls it (`AMD EPYC 7R13 48-Core Processor`).

        Raises `SpecError`: unknown, with the nearest ids; or an NVML name that several cards share, with their ids.
        """
        wanted = _plain(text)
        for names in (_ids, _names):
            matching = [each for each in self.devices if wanted in names(each)]
            if len(matching) == 1:
                return matching[0]
            if matching:
                shared = ", ".join(each.id for each in matching)
                raise SpecError(f"device {printable(text)!r} is the name of several: {shared}. Give one of these ids.")
        like_cpus = [each for each in self.cpus if plain_cpu_name(each.name) == plain_cpu_name(text)]
        if len(like_cpus) == 1:
            return like_cpus[0]
        raise SpecError(
            f"device {printable(text)!r} is not in the catalogue. Nearest: {', '.join(self.nearest(text))}. "
            "`onnxdyno hardware` lists all."
        )

    def nearest(self, text: str) -> tuple[str, ...]:
        """Up to three ids: those that share a word with a digit in it (`A100`), then those that look most like `text`.

        For messages only, never a match.
        """
        by_name = {name: each.id for each in self.devices for name in (*_ids(each), *_names(each))}
        close = get_close_matches(_plain(text[:64]), by_name, n=12, cutoff=0.0)
        numbered = _numbered(text[:64])
        sharing = [device_id for name, device_id in by_name.items() if numbered & _numbered(name)]
        return tuple(dict.fromkeys([*sharing, *(by_name[name] for name in close)]))[:3]

    def price_of(self, device_id: str) -> Price | None:
        """What a person's file says that it costs, or None."""
        return next((each for each in self.prices if each.device_id == device_id), None)

    def with_devices(self, added: "Added") -> "Catalogue":
        """This catalogue and a person's file; a device of the file replaces one with its id.

        Raises `SpecError` for a price of a device that neither has.
        """
        new = {each.id for each in added.accelerators}
        made = replace(
            self,
            accelerators=(*(each for each in self.accelerators if each.id not in new), *added.accelerators),
            sustained=(*(each for each in self.sustained if each.accelerator_id not in new), *added.sustained),
            prices=(*added.prices, *self.prices),
        )
        for price in added.prices:
            made.find(price.device_id)
        return made

    def sustained_of(self, accelerator_id: str) -> Sustained | None:
        """What was measured on it, or None."""
        return next((each for each in self.sustained if each.accelerator_id == accelerator_id), None)


@cache
def shipped() -> Catalogue:
    """The catalogue of this package. Raises `CatalogueError`."""
    return Catalogue(accelerators=accelerators(), cpus=cpus(), instances=instances(), sustained=sustained())


def _plain(text: str) -> str:
    return " ".join(text.replace("_", " ").casefold().split())


def _numbered(text: str) -> frozenset[str]:
    words = _plain(text).replace("-", " ").split()
    return frozenset(word for word in words if any(map(str.isdigit, word)) and not word.endswith("gb"))


def _ids(device: AnyDevice) -> tuple[str, ...]:
    return (_plain(device.id),)


def _names(device: AnyDevice) -> tuple[str, ...]:
    nvml_name = device.nvml_name if isinstance(device, Accelerator) else None
    return (_plain(device.name), *((_plain(nvml_name),) if nvml_name is not None else ()))
