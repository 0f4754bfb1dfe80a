"""One contract for every object store: memory, a local directory, a real S3 server."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from onnxdyno.domain.errors import ObjectChanged, ObjectMissing
from onnxdyno.domain.models import ObjectVersion
from stores import Registry


def _fetch(registry: Registry, version: ObjectVersion) -> bytes:
    chunks: list[bytes] = []
    registry.store.fetch(version, chunks.append)
    return b"".join(chunks)


def test_what_was_put_is_read_back(registry: Registry) -> None:
    assert registry.store.put_if_absent("a/b.bin", b"\0body\xff")
    assert registry.store.get("a/b.bin") == b"\0body\xff"
    version = registry.store.head("a/b.bin")
    assert version is not None
    assert version.size_bytes == 6
    assert _fetch(registry, version) == b"\0body\xff"


def test_an_empty_object_is_an_object(registry: Registry) -> None:
    assert registry.store.put_if_absent("empty", b"")
    assert not registry.store.put_if_absent("empty", b"later")
    version = registry.store.head("empty")
    assert version is not None
    assert version.size_bytes == 0
    assert _fetch(registry, version) == b""


def test_a_second_put_changes_nothing(registry: Registry) -> None:
    assert registry.store.put_if_absent("key", b"first")
    before = registry.store.head("key")
    assert not registry.store.put_if_absent("key", b"second")
    assert registry.store.get("key") == b"first"
    assert registry.store.head("key") == before


def test_of_racing_puts_exactly_one_wins_and_its_body_stays(registry: Registry) -> None:
    for turn in range(3):
        line = threading.Barrier(8)

        def race(body: bytes, key: str = f"race/{turn}", line: threading.Barrier = line) -> bool:
            line.wait()
            return registry.store.put_if_absent(key, body)

        bodies = [f"{number}".encode() * 1000 for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(race, bodies))
        assert won.count(True) == 1
        assert registry.store.get(f"race/{turn}") == bodies[won.index(True)]


def test_a_missing_object_is_said_to_be_missing(registry: Registry) -> None:
    assert registry.store.head("no/such") is None
    with pytest.raises(ObjectMissing, match="no/such"):
        registry.store.get("no/such")
    registry.upload("gone", b"x")
    version = registry.store.head("gone")
    assert version is not None
    registry.store.delete("gone")
    with pytest.raises((ObjectMissing, ObjectChanged)):
        _fetch(registry, version)


def test_deleting_twice_is_harmless(registry: Registry) -> None:
    registry.store.put_if_absent("key", b"x")
    registry.store.delete("key")
    registry.store.delete("key")
    assert registry.store.head("key") is None
    assert registry.store.put_if_absent("key", b"again")


def test_a_listing_is_sorted_and_keeps_to_the_prefix(registry: Registry) -> None:
    keys = ["b.onnx", "a/z.onnx", "a/b/c.onnx", "a.onnx", "a-b.onnx", "ab/c.onnx", "é.onnx", "Z.onnx"]
    for key in keys:
        registry.upload(key, key.encode())
    assert [version.key for version in registry.store.list()] == sorted(keys, key=str.encode)
    assert [version.key for version in registry.store.list("a/")] == ["a/b/c.onnx", "a/z.onnx"]
    assert [version.key for version in registry.store.list("a/b")] == ["a/b/c.onnx"]
    assert [version.key for version in registry.store.list("a")] == sorted(
        (key for key in keys if key.startswith("a")), key=str.encode
    )
    assert list(registry.store.list("nothing/")) == []
    assert {version.store_uri for version in registry.store.list()} == {registry.store.uri}


def test_a_listing_and_a_head_name_the_same_version(registry: Registry) -> None:
    registry.upload("m.onnx", b"one")
    (listed,) = registry.store.list()
    assert registry.store.head("m.onnx") == listed


def test_other_bytes_under_the_same_key_are_another_version(registry: Registry) -> None:
    registry.upload("m.onnx", b"one")
    before = registry.store.head("m.onnx")
    registry.upload("m.onnx", b"two")
    after = registry.store.head("m.onnx")
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    with pytest.raises(ObjectChanged):
        _fetch(registry, before)
    assert _fetch(registry, after) == b"two"


def test_a_stream_is_whole_and_comes_in_pieces(registry: Registry) -> None:
    body = bytes(range(256)) * (5 * 4096)
    registry.upload("large", body)
    version = registry.store.head("large")
    assert version is not None
    digest, pieces = hashlib.sha256(), []

    def sink(chunk: bytes) -> None:
        digest.update(chunk)
        pieces.append(len(chunk))

    registry.store.fetch(version, sink)
    assert digest.hexdigest() == hashlib.sha256(body).hexdigest()
    assert max(pieces) <= 1 << 20
    assert len(pieces) >= 5


def test_an_object_replaced_while_it_is_read_never_comes_out_mixed(registry: Registry) -> None:
    first, second = b"1" * (4 << 20), b"2" * (4 << 20)
    registry.upload("m.onnx", first)
    version = registry.store.head("m.onnx")
    assert version is not None
    seen: list[bytes] = []

    def sink(chunk: bytes) -> None:
        if not seen:
            registry.upload("m.onnx", second)
        seen.append(chunk)

    try:
        registry.store.fetch(version, sink)
    except ObjectChanged:
        return
    assert b"".join(seen) == first


def test_an_error_of_the_sink_comes_out_as_it_is(registry: Registry) -> None:
    registry.upload("m.onnx", b"x" * 10)
    version = registry.store.head("m.onnx")
    assert version is not None

    def sink(chunk: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        registry.store.fetch(version, sink)


def test_a_version_that_never_was_is_refused(registry: Registry) -> None:
    registry.upload("m.onnx", b"x")
    version = registry.store.head("m.onnx")
    assert version is not None
    with pytest.raises(ObjectChanged):
        _fetch(registry, replace(version, etag="0" * 32))
