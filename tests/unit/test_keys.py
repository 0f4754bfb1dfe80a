"""Keys are deterministic, and nothing hostile gets into one."""

import json
from pathlib import Path

import pytest

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.storage import keys

CASES = Path(__file__).parent.parent / "cases"


def version(key: str = "m.onnx", **changes: str | None) -> ObjectVersion:
    values: dict[str, str | None] = {"store_uri": "s3://models", "etag": "e1", "version_id": None} | changes
    return ObjectVersion(key=key, size_bytes=3, **values)  # type: ignore[arg-type]


def test_the_digest_of_a_version_is_fixed_for_ever() -> None:
    assert keys.version_digest(version()) == "7f192122080e0802ede218415a9ef742"


def test_every_part_of_a_version_counts_but_its_size() -> None:
    digests = {
        keys.version_digest(each)
        for each in (
            version(),
            version("other.onnx"),
            version(etag="e2"),
            version(store_uri="s3://others"),
            version(version_id="1"),
        )
    }
    assert len(digests) == 5


def test_hostile_keys_never_collide_and_never_reach_a_result_key() -> None:
    hostile = [each["key"] for each in json.loads((CASES / "data" / "s3_keys.json").read_text("utf-8"))]
    made = {keys.claim_key("cpu", keys.version_digest(version(key)), 1) for key in [*hostile, "\udcff.onnx"]}
    assert len(made) == len(hostile) + 1
    assert all(keys.parse_claim_key(key) is not None for key in made)


def test_attempts_share_a_run_and_reruns_do_not() -> None:
    first = keys.run_id("ab", "cpu", "1", 1)
    assert first == keys.run_id("ab", "cpu", "1", 1)
    others = [keys.run_id("ab", "cpu", "1", 2), keys.run_id("ab", "gpu", "1", 1), keys.run_id("ab", "cpu", "2", 1)]
    assert len({first, *others}) == 4


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a\nb", "-a", "a b", "é", "x" * 121])
def test_a_device_class_that_is_no_safe_segment_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="device class") as caught:
        keys.claims_prefix(bad)
    assert "\n" not in str(caught.value)


def test_the_parts_of_a_claim_are_told_apart() -> None:
    digest = "0" * 32
    for key, part, turn in (
        (keys.claim_key("cpu", digest, 3), "claim", 1),
        (keys.taken_key("cpu", digest, 3, 1), "taken", 1),
        (keys.taken_key("cpu", digest, 3, 2), "taken", 2),
        (keys.end_key("cpu", digest, 3), "end", 1),
    ):
        parsed = keys.parse_claim_key(key)
        assert parsed == keys.ClaimKey(version_digest=digest, attempt=3, part=part, turn=turn)


def test_objects_of_others_are_not_taken_for_ours() -> None:
    assert keys.parse_claim_key("claims/cpu/notes.txt") is None
    assert keys.parse_quarantine_key("quarantine/cpu/x/1.json") is None
    assert keys.parse_table_key("tables/runs/device_class=cpu/run.parquet.tmp") is None
    assert keys.parse_table_key("tables/runs/device_class=cpu/sub/run.parquet") is None


def test_a_table_key_is_read_back() -> None:
    key = keys.table_key("runs", "cpu-8c", "r1")
    assert key == "tables/runs/device_class=cpu-8c/r1.parquet"
    assert keys.parse_table_key(key) == keys.TableKey(table="runs", device_class="cpu-8c", run_id="r1")


def test_a_file_beside_a_model_is_named_relative_to_its_folder() -> None:
    assert keys.beside("a/b/m.onnx", "w/x.bin") == "a/b/w/x.bin"
    assert keys.beside("m.onnx", "x.bin") == "x.bin"
    assert keys.beside("a//m.onnx", "x.bin") == "a//x.bin"
