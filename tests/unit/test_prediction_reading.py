"""A foreign profile: right, or refused in one line that says what, where and the fix."""

import pytest

from onnxdyno.analysis.prediction import read_profile
from onnxdyno.domain.errors import SpecError

HEADER = "kind,flops,bytes,latency_ms\n"


def test_columns_may_come_in_any_order_with_others_beside_them() -> None:
    text = "\ufeffname,latency_ms,bytes,kind,flops\nfc,0.5,1e6,Gemm,2e9\n\n"
    (node,) = read_profile("nodes.csv", text.encode())
    assert (node.kind, node.flops, node.bytes, node.latency_ns) == ("Gemm", 2e9, 1e6, 5e5)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1: expected one column 'kind', found nothing"),
        (b"kind,flops,bytes\nGemm,1,2\n", "one column 'latency_ms'"),
        (b"kind,kind,flops,bytes,latency_ms\n", "one column 'kind'"),
        (HEADER.encode(), "a line per node below the header"),
        (f"{HEADER}Gemm,1,2\n".encode(), "line 2: expected 4 fields, found 3"),
        (f"{HEADER}Gemm,x,2,3\n".encode(), "line 2, column flops: expected a number, 0 or more, found 'x'"),
        (f"{HEADER}Gemm,1,-2,3\n".encode(), "line 2, column bytes"),
        (f"{HEADER}Gemm,1,2,nan\n".encode(), "line 2, column latency_ms"),
        (f"{HEADER}Gemm,1,2,\n".encode(), "line 2, column latency_ms"),
        (f"{HEADER}Gemm,1,inf,3\n".encode(), "line 2, column bytes"),
        (b"kind,flops\xff", "byte 0xff at 10"),
        (f'{HEADER}"Gemm,1,2,3\n'.encode(), "not a CSV file"),
        (f"{HEADER}Gemm,1e300,2,3\n".encode(), "line 2, column flops: expected at most 1e+18, found 1e+300"),
        (f"{HEADER}Gemm,0x10,2,3\n".encode(), "line 2, column flops"),
        (b"kind;flops;bytes;latency_ms\nGemm;1;2;3\n", "one column 'kind', found kind;flops;bytes;latency_ms"),
        (f"{HEADER}{'x' * 200_000},1,2,3\n".encode(), "not a CSV file (field larger than field limit"),
        (b"\xff\xfek\x00i\x00n\x00d\x00", "expected UTF-8 text, found byte 0xff at 0"),
        (b"model,kind,flops,bytes,latency_ms\na,Gemm,1,2,3\nb,Gemm,1,2,3\n", "found 2 of them"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(data: bytes, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_profile("no\x1bdes.csv", data)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_line_ends_quotes_and_kinds_that_are_not_known_are_read() -> None:
    lines = ['"kind",flops,bytes,latency_ms', '"My ""Op"", fused",1,2,3', " Conv ,0,0,0", ""]
    for end in ("\r\n", "\n", "\r"):
        first, second = read_profile("nodes.csv", end.join(lines).encode())
        assert (first.kind, first.latency_ns) == ('My "Op", fused', 3e6)
        assert (second.kind, second.latency_ns) == ("Conv", 0)
