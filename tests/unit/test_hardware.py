"""The catalogue: units at load, exact look-up, and what the shipped runtime can run on."""

import mmap
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from onnxdyno.domain.errors import CatalogueError, SpecError
from onnxdyno.hardware import catalogue
from onnxdyno.hardware.lookup import shipped
from onnxdyno.hardware.rows import rows

GIB = 2**30


def accelerator_text(**changes: str) -> str:
    """A file with the header and the first row of the shipped one, some fields replaced."""
    shipped = Path(catalogue.__file__).parent / "data" / "accelerators.csv"
    header, first = shipped.read_text(encoding="utf-8").splitlines()[:2]
    row = next(rows("shipped", f"{header}\n{first}"))
    fields = row.values | changes
    return header + "\n" + ",".join('"' + value.replace('"', '""') + '"' for value in fields.values())


def test_every_row_of_the_three_files_is_read() -> None:
    assert (len(catalogue.accelerators()), len(catalogue.cpus()), len(catalogue.instances())) == (92, 13, 108)


def test_units_are_bytes_hertz_and_operations_per_second() -> None:
    t4 = next(each for each in catalogue.accelerators() if each.id == "t4")
    assert t4.memory_bytes == 16 * GIB
    assert t4.memory_bytes_per_s == pytest.approx(320e9)
    assert t4.fp32_flop_per_s == pytest.approx(8.14e12)
    assert t4.compute_capability == (7, 5)
    assert t4.launch_price_usd is None


def test_a_host_size_keeps_gb_and_gib_apart() -> None:
    by_name = {each.name: each for each in catalogue.instances()}
    assert by_name["g4dn.12xlarge"].memory_bytes == 192 * 10**9
    assert any(each.memory_bytes == 112 * GIB for each in by_name.values())


def test_two_parts_are_a_share_and_three_are_a_choice() -> None:
    by_name = {each.name: each for each in catalogue.instances()}
    assert by_name["Standard_NV12ads_A10_v5"].accelerator_counts[0] == pytest.approx(1 / 3)
    assert by_name["n1-standard-* + nvidia-tesla-t4"].accelerator_counts == (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("memory_gib", "0"),
        ("memory_gib", ""),
        ("memory_gib", "16 GiB"),
        ("fp32_tflops", "nan"),
        ("memory_bandwidth_gb_s", "320000000000"),
        ("compute_capability", "75"),
        ("sm_count", "40.5"),
        ("market", "consumer"),
        ("confidence", "certain"),
    ],
)
def test_a_bad_field_names_file_line_and_column(column: str, value: str) -> None:
    with pytest.raises(CatalogueError, match=rf"cards\.csv line 2, column {column}: expected .* found '{value}'"):
        catalogue.read_accelerators("cards.csv", accelerator_text(**{column: value}))


def test_a_row_that_is_too_short_is_refused() -> None:
    header, row = accelerator_text().split("\n")
    with pytest.raises(CatalogueError, match=r"line 2: expected 30 fields, found 31"):
        catalogue.read_accelerators("cards.csv", f"{header}\n{row},more")


def test_an_id_given_twice_is_refused() -> None:
    header, row = accelerator_text().split("\n")
    with pytest.raises(CatalogueError, match="line 3, column id"):
        catalogue.read_accelerators("cards.csv", f"{header}\n{row}\n{row}")


def test_a_card_is_found_by_its_name_and_the_memory_that_nvml_shows() -> None:
    found = catalogue.find_accelerator("Tesla T4", 15_843_721_216)
    assert found is not None
    assert found.id == "t4"


def test_the_name_alone_is_not_enough() -> None:
    assert catalogue.find_accelerator("Tesla T4", None) is None
    assert catalogue.find_accelerator("NVIDIA GeForce RTX 4060 Ti", 8 * GIB) is None
    sixteen = catalogue.find_accelerator("NVIDIA GeForce RTX 4060 Ti", 16 * GIB - 2**20)
    assert sixteen is not None
    assert sixteen.id == "rtx-4060-ti-16gb"


@pytest.mark.parametrize("name", ["NVIDIA RTX A1000", "NVIDIA T400", "NVIDIA A100", "tesla t4", "Tesla T4 ", ""])
def test_a_part_of_a_name_never_matches(name: str) -> None:
    for gib in (4, 8, 16, 40, 80):
        assert catalogue.find_accelerator(name, gib * GIB) is None


def test_a_name_and_memory_that_two_cards_share_is_not_decided() -> None:
    assert catalogue.find_accelerator("Orin (nvgpu)", 8 * GIB) is None


def test_every_card_with_a_unique_name_and_memory_finds_itself() -> None:
    named = [each for each in catalogue.accelerators() if each.nvml_name]
    found = [each for each in named if catalogue.find_accelerator(each.nvml_name or "", each.memory_bytes) == each]
    ambiguous = {each.id for each in named} - {each.id for each in found}
    assert ambiguous == {"jetson-orin-nano-8gb", "jetson-orin-nano-super"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "xeon-8375c"),
        ("AMD EPYC 7R13 Processor", "epyc-7r13"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "ryzen-7950x"),
        ("13th Gen Intel(R) Core(TM) i7-13700K", "i7-13700k"),
        ("13th Gen Intel(R) Core(TM) i7-13700", "i7-13700"),
        ("Intel(R) Xeon(R) Processor @ 2.50GHz", None),
        ("Intel(R) Xeon(R) Platinum 8375", None),
        ("", None),
    ],
)
def test_a_cpu_is_found_whatever_the_trademarks_and_clock_say(name: str, expected: str | None) -> None:
    found = catalogue.find_cpu(name)
    assert (found.id if found else None) == expected


def test_a_cpu_is_asked_for_by_the_name_that_its_system_gives_it() -> None:
    assert shipped().find("AMD EPYC 7R13 48-Core Processor").id == "epyc-7r13"
    with pytest.raises(SpecError, match="not in the catalogue"):
        shipped().find("AMD EPYC")


def test_what_cuda_13_dropped_is_not_supported() -> None:
    supported = {each.id for each in catalogue.accelerators() if catalogue.is_supported(each)}
    assert not supported & {"k80", "p100-pcie-16gb", "v100-sxm2-32gb", "gtx-1080-ti", "jetson-nano", "b300-sxm-288gb"}
    assert supported >= {"t4", "a100-sxm4-80gb", "l4", "h200-sxm-141gb", "rtx-5090", "jetson-orin-nx-16gb"}


def test_the_supported_architectures_are_those_of_the_installed_runtime() -> None:
    spec = find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "capi" / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        pytest.skip("this installation of ONNX Runtime has no CUDA provider")
    kinds = fat_binary_kinds(library)
    assert {arch for kind, arch in kinds if kind == 2} == {10 * major + minor for major, minor in catalogue._CUBINS}
    assert not any(kind == 1 for kind, _ in kinds), "PTX is shipped now: newer devices can run too"


def fat_binary_kinds(library: Path) -> set[tuple[int, int]]:
    """(kind, architecture) of every entry of every CUDA fat binary in a library; kind 1 is PTX, 2 machine code."""
    found: set[tuple[int, int]] = set()
    magic = struct.pack("<IHH", 0xBA55ED50, 1, 16)
    with library.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(magic)
        while start >= 0:
            (size,) = struct.unpack_from("<Q", data, start + 8)
            entry, end = start + 16, start + 16 + size
            while entry < end:
                kind, _, header, payload = struct.unpack_from("<HHIQ", data, entry)
                found.add((kind, struct.unpack_from("<I", data, entry + 0x1C)[0]))
                entry += header + payload
            start = data.find(magic, end)
    return found
