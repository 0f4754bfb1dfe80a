"""A person's own devices and prices: added, or refused with file, line, column and fix."""

import pytest

from onnxdyno.analysis.prediction import ProfileNode, predict
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import shipped
from onnxdyno.hardware.own import NEEDED, read_devices

HEADER = ",".join(["id", *NEEDED])
ROW = "mine,My GPU,workstation,Ada Lovelace,8.9,2025,24,600,30,2500"


def test_a_device_of_ones_own_can_be_predicted() -> None:
    known = shipped().with_devices(read_devices("mine.csv", f"{HEADER}\n{ROW}\n".encode()))
    assert (known.find("my gpu").id, known.find("mine").source) == ("mine", "file mine.csv")
    node = ProfileNode(kind="Gemm", flops=1e11, bytes=1e8, latency_ns=2e7)
    found = predict((node,), "t4", ["mine"], catalogue=known)[0]
    assert found.latency_ns is not None


def test_measured_rates_of_ones_own_are_used() -> None:
    text = f"{HEADER},sustained_fp32_tflops,sustained_memory_gb_s\n{ROW},20,500\n"
    known = shipped().with_devices(read_devices("mine.csv", text.encode()))
    measured = known.sustained_of("mine")
    assert measured is not None
    assert (measured.fp32_flop_per_s, measured.memory_bytes_per_s) == (20e12, 500e9)


def test_a_price_has_a_currency_and_a_date() -> None:
    known = shipped().with_devices(read_devices("p.csv", b"id,price,currency,price_date\nt4,700,EUR,2026-01-31\n"))
    price = known.price_of("t4")
    assert price is not None
    assert (price.amount, price.currency, price.date) == (700, "EUR", "2026-01-31")
    assert known.find("t4") == shipped().find("t4")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,memory_gb\nmine,24\n", "'memory_gb' is not known. Perhaps 'memory_gib'"),
        (f"{HEADER}\n{ROW.replace('600', '600e9')}\n", "line 2, column memory_bandwidth_gb_s"),
        (f"{HEADER}\n{ROW.replace(',24,', ',,')}\n", "line 2, column memory_gib"),
        (f"{HEADER}\n{ROW}\n{ROW}\n", "line 3, column id"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('mine', 'MINE')}\n", "line 3, column id"),
        ("id,price,currency,price_date\nt4,700,,2026-01-31\n", "column currency"),
        ("id,price,currency,price_date\nt4,700,EUR,31.1.26\n", "column price_date"),
        ("id,price,currency,price_date\nt4,-7,EUR,2026-01-31\n", "column price"),
        (f"{HEADER},sustained_fp32_tflops\n{ROW},20\n", "both sustained rates"),
        ("id,price\n\xff", "line 2"),
        (f"{HEADER}\n{ROW.replace('My GPU', 'x' * 200_000)}\n", "line 2: not CSV (field larger"),
        (f"{HEADER}\n{ROW.replace('workstation', 'y' * 1000)}\n", "yyy…'"),
        (f'{HEADER}\n"{ROW}\n', "not CSV"),
        ("", "line 1"),
        (f"{HEADER}\n", "a line per device below it"),
        (f"{ROW}\n", "a line per device below it"),
        ("id\nt4\n", "line 2, column price: expected a price, or what the device is"),
        ("id,price,currency,price_date\nt4,,USD,2026-01-31\n", "line 2, column price"),
    ],
)
def test_a_bad_file_of_devices_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_devices("mine.csv", text.encode())
    assert said in str(caught.value)
    assert "Reinstall" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_lines_spaces_and_windows_line_ends_are_no_mistake() -> None:
    added = read_devices("p.csv", b"\xef\xbb\xbfid , price,currency,price_date\r\n\r\nt4,700,EUR,2026-01-31\r\n,,,\r\n")
    assert [each.device_id for each in added.prices] == ["t4"]


def test_a_price_of_an_unknown_device_is_refused() -> None:
    added = read_devices("p.csv", b"id,price,currency,price_date\nt5,700,EUR,2026-01-31\n")
    with pytest.raises(SpecError, match="Nearest: t4"):
        shipped().with_devices(added)
