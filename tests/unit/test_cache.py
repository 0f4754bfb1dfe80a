"""A pulled model is whole, safe in its folder, fetched once, and never evicted while it is used."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from disks import TINY_BYTES, tiny_disk
from fakes import MemoryStore
from onnxdyno.domain.errors import InfrastructureError, ModelError, ObjectChanged, SpecError, StoreError
from onnxdyno.domain.models import LocalModel, ModelRef, ObjectVersion
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.graphs.identity import combined_sha256
from onnxdyno.storage.cache import ModelCache, local_name
from onnxdyno.storage.shelf import COPIES, INPUTS, Shelf
from onnxdyno.storage.sidecar import LIMIT_BYTES, find_sidecar

CASES = Path(__file__).parent.parent / "cases"
MODEL = (CASES / "static_batch1.onnx").read_bytes()
PLENTY_BYTES = 1 << 30


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def store_of(folder: str, prefix: str = "m/") -> MemoryStore:
    store = MemoryStore()
    for path in (CASES / folder).iterdir():
        store.put(prefix + path.name, path.read_bytes())
    return store


def version_of(store: MemoryStore, key: str) -> ObjectVersion:
    version = store.head(key)
    assert version is not None
    return version


def pull(cache: ModelCache, store: MemoryStore, key: str) -> Path:
    return cache.pull(store, version_of(store, key)).path


def files(root: Path) -> list[str]:
    """Every file below the digests and the downloads under way."""
    inside = (path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts)
    return sorted(
        str(path.relative_to(root)) for path in inside if "index" not in path.parts and path.suffix != ".lock"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(root: Path) -> ModelCache:
    return ModelCache(root, PLENTY_BYTES)


def test_a_model_without_external_data_is_its_own_sha256(cache: ModelCache, root: Path) -> None:
    store = MemoryStore()
    store.put("a/m.onnx", MODEL)
    local = cache.pull(store, version_of(store, "a/m.onnx"))
    assert local.ref.sha256 == sha256(MODEL)
    assert (local.ref.size_bytes, local.ref.external_bytes) == (len(MODEL), 0)
    assert local.path == root / sha256(MODEL) / "m.onnx"
    assert local.path.read_bytes() == MODEL
    assert files(root) == [f"{sha256(MODEL)}/m.onnx"]


def test_external_data_comes_along_and_counts_in_the_identity(cache: ModelCache) -> None:
    store = store_of("external_ok")
    local = cache.pull(store, version_of(store, "m/model.onnx"))
    weights = (CASES / "external_ok" / "model.onnx.data").read_bytes()
    file_sha256 = sha256((CASES / "external_ok" / "model.onnx").read_bytes())
    assert local.ref.sha256 == combined_sha256(file_sha256, [("model.onnx.data", sha256(weights))])
    assert local.ref.external_bytes == len(weights)
    assert (local.path.parent / "model.onnx.data").read_bytes() == weights


def test_a_second_pull_downloads_nothing(cache: ModelCache, root: Path) -> None:
    store = store_of("external_ok")
    first = cache.pull(store, version_of(store, "m/model.onnx"))
    store.requests.clear()
    again = ModelCache(root, PLENTY_BYTES).pull(store, version_of(store, "m/model.onnx"))
    assert again == first
    assert [method for method, _ in store.requests if method == "get"] == []


def test_external_data_that_changed_under_the_same_model_is_another_model(cache: ModelCache) -> None:
    store = store_of("external_ok")
    before = cache.pull(store, version_of(store, "m/model.onnx"))
    store.put("m/model.onnx.data", b"\1" * 8192)
    after = cache.pull(store, version_of(store, "m/model.onnx"))
    assert before.ref.sha256 != after.ref.sha256
    assert before.path.exists()


def test_the_same_bytes_under_two_keys_lie_there_once(cache: ModelCache, root: Path) -> None:
    store = MemoryStore()
    store.put("a/one.onnx", MODEL)
    store.put("b/two.onnx", MODEL)
    one = cache.pull(store, version_of(store, "a/one.onnx"))
    two = cache.pull(store, version_of(store, "b/two.onnx"))
    assert one.path == two.path
    assert (one.ref.name, two.ref.name) == ("one.onnx", "two.onnx")
    assert len(files(root)) == 1
    assert cache.pull(store, version_of(store, "b/two.onnx")) == two


def test_a_missing_external_file_is_named(cache: ModelCache, root: Path) -> None:
    store = store_of("external_missing")
    with pytest.raises(ModelError) as caught:
        pull(cache, store, "m/model.onnx")
    assert caught.value.state is ModelState.MISSING_EXTERNAL_DATA
    assert caught.value.missing
    assert caught.value.missing[0] in str(caught.value)
    assert files(root) == []


def test_a_path_out_of_the_folder_is_refused_before_the_store_is_asked(cache: ModelCache, root: Path) -> None:
    store = store_of("external_traversal")
    version = version_of(store, "m/model.onnx")
    store.requests.clear()
    with pytest.raises(ModelError) as caught:
        cache.pull(store, version)
    assert caught.value.state is ModelState.UNSAFE
    assert store.requests == [("get", "m/model.onnx")]
    assert files(root) == []


@pytest.mark.parametrize("case", ["git_lfs_pointer.onnx", "zero_bytes.onnx"])
def test_what_is_no_model_leaves_nothing_behind(cache: ModelCache, root: Path, case: str) -> None:
    store = MemoryStore()
    store.put(case, (CASES / case).read_bytes())
    with pytest.raises(ModelError) as caught:
        pull(cache, store, case)
    assert caught.value.state is ModelState.INVALID_FILE
    assert files(root) == []


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("models/../../etc/cron.d/x.onnx", "x.onnx"),
        ("/models/abs.onnx", "abs.onnx"),
        ("models/my model v2.onnx", "my_model_v2.onnx"),
        ("models/quote'\"`$(id).onnx", "quote_____id_.onnx"),
        ("models/a\nb.onnx", "a_b.onnx"),
        ("models/\x1b[31m.onnx", "__31m.onnx"),
        ("models/.hidden.ONNX", "hidden.onnx"),
        ("models/...onnx", "model.onnx"),
        ("models/-rf.onnx", "rf.onnx"),
        ("models/日本語/モデル.onnx", "モデル.onnx"),
        (".onnx", "model.onnx"),
    ],
)
def test_a_local_name_is_safe_whatever_the_key(cache: ModelCache, root: Path, key: str, name: str) -> None:
    assert local_name(key) == name
    store = MemoryStore()
    store.put(key, MODEL)
    assert pull(cache, store, key) == root / sha256(MODEL) / name


def test_a_long_name_is_cut_to_what_a_file_system_takes() -> None:
    name = local_name("モ" * 300 + ".onnx")
    assert name.endswith(".onnx")
    assert len(name.encode()) <= 200


def test_a_model_whose_local_name_an_external_file_needs_steps_aside(cache: ModelCache) -> None:
    model = onnx.load(CASES / "external_ok" / "model.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = "a_b.onnx" if entry.key == "location" else entry.value
    weights = (CASES / "external_ok" / "model.onnx.data").read_bytes()
    store = MemoryStore()
    store.put("m/a b.onnx", model.SerializeToString())
    store.put("m/a_b.onnx", weights)
    path = pull(cache, store, "m/a b.onnx")
    assert path.name == "_a_b.onnx"
    assert path.read_bytes() == model.SerializeToString()
    assert (path.parent / "a_b.onnx").read_bytes() == weights
    assert pull(cache, store, "m/a b.onnx") == path


def test_an_object_replaced_after_it_was_listed_is_noticed(cache: ModelCache, root: Path) -> None:
    store = MemoryStore()
    store.put("m.onnx", MODEL)
    version = version_of(store, "m.onnx")
    store.put("m.onnx", MODEL + b"more")
    with pytest.raises(ObjectChanged):
        cache.pull(store, version)
    assert files(root) == []


class ReplacedStore(MemoryStore):
    """Somebody uploads other bytes after the first chunk was read."""

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        def first(chunk: bytes) -> None:
            self.put(version.key, b"other")
            sink(chunk)

        super().fetch(version, first)


def test_an_object_replaced_while_it_is_downloaded_leaves_nothing(cache: ModelCache, root: Path) -> None:
    store = ReplacedStore()
    store.put("m.onnx", MODEL + bytes(1 << 18))
    with pytest.raises(ObjectChanged):
        pull(cache, store, "m.onnx")
    assert files(root) == []


class InterruptedStore(MemoryStore):
    """A person presses Ctrl-C in the middle of a download."""

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        sink(b"half")
        raise KeyboardInterrupt


def test_an_interrupt_leaves_nothing_half_written(cache: ModelCache, root: Path) -> None:
    store = InterruptedStore()
    store.put("m.onnx", MODEL)
    with pytest.raises(KeyboardInterrupt):
        pull(cache, store, "m.onnx")
    assert files(root) == []


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put("m.onnx", MODEL + bytes(4 * TINY_BYTES))
    with tiny_disk(tmp_path / "tiny") as folder:
        with pytest.raises(InfrastructureError, match="free space") as caught:
            pull(ModelCache(folder, PLENTY_BYTES), store, "m.onnx")
        assert "\n" not in str(caught.value)
        assert files(folder) == []
        assert list((folder / "unfinished").iterdir()) == []


def _sized(number: int, size_bytes: int = 100_000) -> bytes:
    """A distinct model of about this size: an unknown protobuf field (number 1000) carries the ballast."""
    ballast = bytes([number]) * size_bytes
    length, varint = len(ballast), bytearray()
    while length >= 128:
        varint.append(length % 128 | 128)
        length //= 128
    varint.append(length)
    return MODEL + b"\xc2\x3e" + bytes(varint) + ballast


def test_the_least_recently_used_model_goes_first(root: Path) -> None:
    store = MemoryStore()
    cache = ModelCache(root, 350_000)
    paths = []
    for number in range(3):
        store.put(f"{number}.onnx", _sized(number))
        local = cache.pull(store, version_of(store, f"{number}.onnx"))
        cache.release(local)
        os.utime(local.path.parent, ns=(number, number))
        paths.append(local.path)
    cache.release(cache.pull(store, version_of(store, "0.onnx")))
    store.put("3.onnx", _sized(3))
    pull(cache, store, "3.onnx")
    assert [path.exists() for path in paths] == [True, False, True]


def test_a_model_in_use_is_not_evicted_also_not_by_another_process(root: Path) -> None:
    store = MemoryStore()
    cache = ModelCache(root, 150_000)
    for number in range(2):
        store.put(f"{number}.onnx", _sized(number))
    held = cache.pull(store, version_of(store, "0.onnx"))
    with pytest.raises(InfrastructureError, match="all the rest is in use") as caught:
        pull(cache, store, "1.onnx")
    assert caught.value.retryable
    assert held.path.exists()
    script = (
        "import sys\nfrom pathlib import Path\nfrom onnxdyno.storage.shelf import Shelf\n"
        "shelf = Shelf(Path(sys.argv[1]), 150_000)\n"
        "with shelf.staging() as content:\n    shelf.reserve(100_000, content)\n"
    )
    other = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, check=False, timeout=60)
    assert b"all the rest is in use" in other.stderr
    assert held.path.exists()
    cache.release(held)
    pull(cache, store, "1.onnx")
    assert not held.path.exists()


def _kept(shelf: Shelf, name: str, size_bytes: int, used_ns: int) -> Path:
    """Something on the shelf that nobody uses any more, last used then."""
    with shelf.staging() as content:
        shelf.reserve(size_bytes, content)
        (content / "file").write_bytes(bytes(size_bytes))
        folder = shelf.place(content, name)
    shelf.release_inside(folder / "file")
    os.utime(folder, ns=(used_ns, used_ns))
    return folder


def test_models_copies_and_input_files_share_one_limit_and_the_least_recently_used_goes_first(root: Path) -> None:
    shelf = Shelf(root, 350_000)
    model = _kept(shelf, "a" * 64, 100_000, used_ns=2)
    copy = _kept(shelf, f"{COPIES}/{'a' * 64}", 100_000, used_ns=1)
    inputs = _kept(shelf, f"{INPUTS}/{'b' * 32}", 100_000, used_ns=3)
    with shelf.staging() as content:
        shelf.reserve(100_000, content)
        assert [path.exists() for path in (model, copy, inputs)] == [True, False, True]
        shelf.reserve(200_000, content)
        assert [path.exists() for path in (model, copy, inputs)] == [False, False, True]


def test_a_copy_and_input_files_in_use_are_not_evicted_not_even_for_another_process(root: Path) -> None:
    shelf = Shelf(root, 250_000)
    names = (f"{COPIES}/{'a' * 64}", f"{INPUTS}/{'b' * 32}")
    held = [_kept(shelf, name, 100_000, used_ns=1) for name in names]
    assert [shelf.use(name) for name in names] == held
    script = (
        "import sys\nfrom pathlib import Path\nfrom onnxdyno.storage.shelf import Shelf\n"
        "shelf = Shelf(Path(sys.argv[1]), 250_000)\n"
        "with shelf.staging() as content:\n    shelf.reserve(100_000, content)\n"
    )
    command = [sys.executable, "-c", script, str(root)]
    other = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert b"all the rest is in use" in other.stderr
    shelf.release_inside(held[1] / "file")
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert [path.exists() for path in held] == [True, False]


def test_a_run_lets_go_of_its_copy_of_what_that_is_a_copy_of_and_of_its_input_files(root: Path) -> None:
    cache, shelf = ModelCache(root, PLENTY_BYTES), Shelf(root, PLENTY_BYTES)
    original, copy, inputs = "a" * 64, f"{COPIES}/{'a' * 64}", f"{INPUTS}/{'b' * 32}"
    folders = [_kept(shelf, name, 1, used_ns=1) for name in (original, copy, inputs)]
    for name in (original, copy, inputs):
        shelf.use(name)
    ref = ModelRef(name="m", sha256="c" * 64, size_bytes=1, copy_of_sha256=original)
    cache.release(LocalModel(ref=ref, path=folders[1] / "file"), [str(folders[2] / "file"), "/elsewhere/x.npz"])
    with Shelf(root, 1).staging() as content:
        Shelf(root, 1).reserve(1, content)
    assert [path.exists() for path in folders] == [False, False, False]


def test_what_is_not_whole_is_discarded_unless_another_process_uses_it(root: Path) -> None:
    shelf, name = Shelf(root, PLENTY_BYTES), f"{COPIES}/{'a' * 64}"
    folder = _kept(shelf, name, 1, used_ns=1)
    script = (
        "import sys\nfrom pathlib import Path\nfrom onnxdyno.storage.shelf import Shelf\n"
        "Shelf(Path(sys.argv[1]), 1).use(sys.argv[2])\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InfrastructureError, match="in use"):
            shelf.discard(name)
        assert folder.exists()
        other.communicate(b"", timeout=60)
    shelf.discard(name)
    assert not folder.exists()


def test_a_model_larger_than_the_cache_is_refused_before_it_is_fetched(root: Path) -> None:
    store = MemoryStore()
    store.put("m.onnx", MODEL)
    version = version_of(store, "m.onnx")
    store.requests.clear()
    with pytest.raises(InfrastructureError, match="Raise the cache limit") as caught:
        ModelCache(root, 10).pull(store, version)
    assert not caught.value.retryable
    assert store.requests == []


def test_an_evicted_model_is_fetched_again(cache: ModelCache, root: Path) -> None:
    store = MemoryStore()
    store.put("m.onnx", MODEL)
    path = pull(cache, store, "m.onnx")
    path.unlink()
    path.parent.rmdir()
    assert pull(cache, store, "m.onnx").read_bytes() == MODEL


def test_a_download_killed_half_way_is_invisible_and_swept_by_the_next(root: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from fakes import MemoryStore\nfrom onnxdyno.storage.cache import ModelCache\n"
        "class Stuck(MemoryStore):\n"
        "    def fetch(self, version, sink):\n"
        "        sink(b'half'); print('half', flush=True); sys.stdin.read()\n"
        "store = Stuck(); store.put('m.onnx', b'whole')\n"
        "ModelCache(Path(sys.argv[1]), 1 << 30).pull(store, store.head('m.onnx'))\n"
    )
    arguments = [sys.executable, "-c", script, str(root), str(Path(__file__).parent.parent)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as puller:
        assert puller.stdout is not None
        assert puller.stdout.readline() == b"half\n"
        puller.send_signal(signal.SIGKILL)
    assert [path for path in root.iterdir() if len(path.name) == 64] == []
    assert len(list((root / "unfinished").iterdir())) == 1
    store = MemoryStore()
    store.put("m.onnx", MODEL)
    pull(ModelCache(root, PLENTY_BYTES), store, "m.onnx")
    assert list((root / "unfinished").iterdir()) == []


def test_a_store_that_fails_is_not_blamed_on_the_disk(cache: ModelCache) -> None:
    store = MemoryStore()
    store.put("m.onnx", MODEL)
    version = version_of(store, "m.onnx")
    store.delete("m.onnx")
    with pytest.raises(StoreError, match="no such object"):
        cache.pull(store, version)


@pytest.mark.parametrize("name", ["m.onnx.bench.yaml", "m.bench.yaml"])
def test_a_sidecar_lies_beside_its_model(name: str) -> None:
    store = MemoryStore()
    store.put(f"a/{name}", "\ufeffbatch: [1]\n".encode())
    found = find_sidecar(store, "a/m.onnx")
    assert found is not None
    assert (found.key, found.text) == (f"a/{name}", "batch: [1]\n")


def test_no_sidecar_is_no_error_and_bad_ones_are_spec_errors() -> None:
    store = MemoryStore()
    assert find_sidecar(store, "m.onnx") is None
    store.put("m.bench.yaml", b"\xff\xfe")
    with pytest.raises(SpecError, match="not UTF-8"):
        find_sidecar(store, "m.onnx")
    store.put("m.bench.yaml", b" " * (LIMIT_BYTES + 1))
    with pytest.raises(SpecError, match="at most"):
        find_sidecar(store, "m.onnx")
