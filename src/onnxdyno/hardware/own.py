"""A person's own devices and prices, from CSV text; units stand in the columns' names and are checked."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from difflib import get_close_matches

from onnxdyno.domain.errors import CatalogueError, SpecError
from onnxdyno.domain.text import printable
from onnxdyno.hardware.catalogue import accelerator_of
from onnxdyno.hardware.lookup import Added
from onnxdyno.hardware.records import Accelerator, Price
from onnxdyno.hardware.rows import GB, Row, rows
from onnxdyno.hardware.sustained import Sustained

NEEDED = """name market architecture compute_capability release_year memory_gib memory_bandwidth_gb_s fp32_tflops
    boost_clock_mhz""".split()
"""Of a device that is not known yet, beside its id."""
OPTIONAL = {
    "memory_type": "unknown",
    "pcie_gen_lanes": "unknown",
    "confidence": "medium",
    **dict.fromkeys(
        """l2_cache_mib tf32_tensor_tflops_dense fp16_tensor_tflops_dense bf16_tensor_tflops_dense int8_tops_dense
        fp8_tflops_dense fp16_nontensor_tflops tdp_w sm_count nvml_device_name launch_price_usd launch_price_confidence
        source notes""".split(),
        "",
    ),
}
MEASURED = ("sustained_fp32_tflops", "sustained_memory_gb_s")
PRICED = ("price", "currency", "price_date")
_OF_DEVICE = (*NEEDED, *OPTIONAL, *MEASURED)
COLUMNS = ("id", *_OF_DEVICE, *PRICED)
_FIX = "Correct the row."
_REINSTALL = re.compile(r"Reinstall onnxdyno(, or correct the row)?\.")
_CURRENCY = re.compile(r"[A-Z]{3}")
_MOST = 1e9
_MOST_BYTES = 2**24


def read_devices(file: str, data: bytes) -> Added:
    """Devices and prices of one file; a row with an id and a price alone prices a device that is known.

    Raises `SpecError`: too large, not UTF-8, a column that is not known, a value that is not in its unit, a price
    without currency and date.
    """
    name = printable(file)
    if len(data) > _MOST_BYTES:
        raise SpecError(f"{name}: expected at most {_MOST_BYTES >> 20} MiB, found more. Give a file of devices.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{name}: expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}."
        ) from error
    try:
        found = tuple(_rows(name, text))
        if not found:
            raise SpecError(f"{name}: expected a header with `id`, and a line per device below it; found one line.")
        return Added(
            accelerators=tuple(each for row in found for each in _device(row)),
            sustained=tuple(each for row in found for each in _sustained(row)),
            prices=tuple(each for row in found for each in _price(row)),
        )
    except CatalogueError as error:
        raise SpecError(_REINSTALL.sub(_FIX, str(error))) from error


def _rows(name: str, text: str) -> Iterator[Row]:
    seen: set[str] = set()
    for row in rows(name, text):
        unknown = next((column for column in row.values if column not in COLUMNS), None)
        if unknown is not None:
            near = get_close_matches(unknown[:64], COLUMNS, n=1, cutoff=0.0)[0]
            raise SpecError(f"{name} line 1: column {printable(unknown)!r} is not known. Perhaps {near!r}?")
        whole = replace(row, values=dict.fromkeys(COLUMNS, "") | row.values, fix=_FIX)
        known = whole.text("id").casefold()  # a device is found whatever the case
        if known in seen:
            raise whole.wrong("id", "an id that is not used yet")
        seen.add(known)
        yield whole


def _device(row: Row) -> Iterator[Accelerator]:
    given = [column for column in _OF_DEVICE if row.maybe_text(column) is not None]
    if given:
        values = {column: row.values[column].strip() or default for column, default in OPTIONAL.items()}
        values["source"] = values["source"] or f"file {row.file}"
        yield accelerator_of(replace(row, values=row.values | values))


def _sustained(row: Row) -> Iterator[Sustained]:
    flops, moved = row.maybe_number(MEASURED[0], 10_000, 1e12), row.maybe_number(MEASURED[1], 100_000, GB)
    if (flops is None) != (moved is None):
        raise row.wrong(MEASURED[0] if flops is None else MEASURED[1], "both sustained rates, or neither")
    if flops is not None and moved is not None:
        yield Sustained(accelerator_id=row.text("id"), fp32_flop_per_s=flops, memory_bytes_per_s=moved)


def _price(row: Row) -> Iterator[Price]:
    amount = row.maybe_number("price", _MOST)
    if amount is None:
        if any(row.maybe_text(column) for column in PRICED) or not any(row.maybe_text(column) for column in _OF_DEVICE):
            raise row.wrong("price", "a price, or what the device is")
        return
    currency, day = row.maybe_text("currency"), row.maybe_text("price_date")
    if currency is None or not _CURRENCY.fullmatch(currency):
        raise row.wrong("currency", "the currency of the price, such as USD")
    try:
        read = date.fromisoformat(day or "")
    except ValueError:
        raise row.wrong("price_date", "the date of the price, such as 2026-01-31") from None
    yield Price(device_id=row.text("id"), amount=amount, currency=currency, date=read.isoformat())
