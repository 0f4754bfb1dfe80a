"""Survey, claims and the cache on every kind of store."""

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fakes import MemoryStore
from onnxdyno import registry as models
from onnxdyno.domain.claims import Candidate, Claim, Owner
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys
from onnxdyno.storage.cache import ModelCache
from stores import Registry

CASES = Path(__file__).parent.parent / "cases"
NOW = "2025-01-01T12:00:00+00:00"


def survey(uploaded: ObjectStore, results: ObjectStore) -> tuple[Candidate, ...]:
    return models.survey(
        uploaded,
        results,
        device_class="cpu",
        protocol_version="1",
        runtime_version="ort 1",
        now=NOW,
        is_alive=lambda owner: owner.pid > 0,
    )


def claim(results: ObjectStore, candidate: Candidate, pid: int) -> Claim | None:
    owner = Owner(host="here", pid=pid, started="1")
    return models.claim(results, candidate, protocol_version="1", reason="upload", now=NOW, owner=owner, token=str(pid))


def test_of_racing_watchers_exactly_one_gets_the_claim(registry: Registry) -> None:
    uploaded = MemoryStore()
    uploaded.put("m.onnx", b"x")
    (candidate,) = survey(uploaded, registry.store)
    line = threading.Barrier(6)

    def race(pid: int) -> Claim | None:
        line.wait()
        return claim(registry.store, candidate, pid)

    with ThreadPoolExecutor(6) as pool:
        claims = list(pool.map(race, range(1, 7)))
    assert len([each for each in claims if each is not None]) == 1
    assert [each.status for each in survey(uploaded, registry.store)] == ["running"]


def test_hostile_keys_are_claimed_pulled_and_committed_apart(registry: Registry, tmp_path: Path) -> None:
    """Registry in memory, where every key of O44 can exist; results on each kind of store."""
    uploaded = MemoryStore()
    cases = json.loads((CASES / "data" / "s3_keys.json").read_text("utf-8"))
    for number, case in enumerate(cases):
        uploaded.put(case["key"], (CASES / "static_batch1.onnx").read_bytes() + b"\xc2\x3e\x01" + bytes([number]))
    candidates = survey(uploaded, registry.store)
    expected = {case["key"] for case in cases if case["expected"].startswith(("model", "as above", "a second"))}
    assert {each.version.key for each in candidates} == expected | {"results/resnet.onnx"}
    cache = ModelCache(tmp_path / "cache", 1 << 30)
    paths = [cache.pull(uploaded, candidate.version).path for candidate in candidates]
    assert len(set(paths)) == len(candidates)
    for path, candidate in zip(paths, candidates, strict=True):
        assert path.resolve().is_relative_to(tmp_path / "cache")
        assert path.read_bytes() == uploaded.get(candidate.version.key)
        claimed = claim(registry.store, candidate, 1)
        assert claimed is not None
        registry.store.put_if_absent(keys.table_key("runs", "cpu", claimed.run_id), b"row")
    assert {each.status for each in survey(uploaded, registry.store)} == {"committed"}
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "a store"}


def test_a_model_with_external_data_is_pulled_from_every_store(registry: Registry, tmp_path: Path) -> None:
    for path in (CASES / "external_ok").iterdir():
        registry.upload(f"deep/er/{path.name}", path.read_bytes())
    version = registry.store.head("deep/er/model.onnx")
    assert version is not None
    local = ModelCache(tmp_path / "cache", 1 << 30).pull(registry.store, version)
    weights = (local.path.parent / "model.onnx.data").read_bytes()
    assert (
        hashlib.sha256(weights).digest()
        == hashlib.sha256((CASES / "external_ok" / "model.onnx.data").read_bytes()).digest()
    )
    assert local.ref.external_bytes == 8192
