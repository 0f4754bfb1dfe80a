"""What only a local directory can get wrong."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from disks import TINY_BYTES, tiny_disk
from onnxdyno.adapters import local
from onnxdyno.adapters.local import LocalStore
from onnxdyno.domain.errors import InfrastructureError, ObjectMissing, StoreError, UsageError


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:///a%20b/50%25", "/a b/50%"),
        ("file:/a%20b", "/a%20b"),
        ("FILE:/a", "/a"),
    ],
)
def test_a_file_uri_names_a_directory(uri: str, path: str) -> None:
    assert local.parse_uri(uri) == Path(path)


def test_a_relative_file_uri_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local.parse_uri("file:demo/registry") == tmp_path / "demo" / "registry"
    assert LocalStore(local.parse_uri("file:a/../b")).uri == f"file:{tmp_path}/b"


@pytest.mark.parametrize(
    "uri", ["models", "/models", "", "file:", "http://x/y", "file://host/a", "file:/a\0b", "a\n:b"]
)
def test_what_names_no_directory_is_refused_with_the_right_spelling(uri: str) -> None:
    with pytest.raises(UsageError, match="file:") as caught:
        local.parse_uri(uri)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["x" * 256, "é" * 128, "d/" * 1200 + "x"])
def test_a_key_too_long_for_a_disk_is_not_there_and_cannot_be_made(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path)
    assert store.head(key) is None
    with pytest.raises(ObjectMissing):
        store.get(key)
    with pytest.raises(StoreError, match="too long for a local store"):
        store.put_if_absent(key, b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/x", "a//b", "a/./b", "", "a/", "a\0b"])
def test_hostile_keys_are_refused_in_one_line_and_touch_nothing(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path / "root")
    for call in (lambda: store.put_if_absent(key, b"x"), lambda: store.get(key), lambda: store.head(key)):
        with pytest.raises(StoreError) as caught:
            call()
        assert not caught.value.retryable
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    assert _files(tmp_path) == []


def test_links_that_lead_out_are_neither_listed_nor_read_nor_written_through(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.onnx").write_bytes(b"secret")
    (root / "inside.onnx").write_bytes(b"x")
    (root / "sub" / "link.onnx").symlink_to(outside / "secret.onnx")
    (root / "folder").symlink_to(outside)
    (root / "within.onnx").symlink_to(root / "inside.onnx")
    (root / "dangling.onnx").symlink_to(root / "nothing")
    store = LocalStore(root)
    assert [version.key for version in store.list()] == ["inside.onnx", "within.onnx"]
    assert store.head("sub/link.onnx") is None
    assert store.head("folder/secret.onnx") is None
    with pytest.raises(StoreError):
        store.get("folder/secret.onnx")
    with pytest.raises(StoreError, match="link out of the store"):
        store.put_if_absent("folder/new", b"x")
    assert _files(outside) == ["secret.onnx"]


def test_only_regular_files_are_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "folder.onnx").mkdir()
    store = LocalStore(tmp_path)
    assert list(store.list()) == []
    assert store.head("pipe.onnx") is None
    assert store.head("folder.onnx") is None


def test_a_key_that_is_a_folder_is_an_error_not_an_existing_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("a/b", b"x")
    with pytest.raises(StoreError):
        store.put_if_absent("a", b"x")
    with pytest.raises(StoreError):
        store.put_if_absent("a/b/c", b"x")
    assert _files(tmp_path) == ["a/b"]


def test_names_that_are_not_utf8_are_listed_and_read(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/bad\xff.onnx"
    with open(raw, "wb") as file:  # noqa: PTH123 - a name in bytes
        file.write(b"x")
    (version,) = LocalStore(tmp_path).list()
    assert LocalStore(tmp_path).get(version.key) == b"x"
    with pytest.raises(StoreError) as caught:
        LocalStore(tmp_path).get(f"no/{version.key}")
    str(caught.value).encode("utf-8")


def test_a_missing_directory_is_an_error_unless_it_may_be_new(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such directory") as caught:
        list(LocalStore(tmp_path / "typo").list())
    assert not caught.value.retryable
    new = LocalStore(tmp_path / "new", may_be_new=True)
    assert list(new.list()) == []
    assert new.put_if_absent("a", b"x")
    assert [version.key for version in new.list()] == ["a"]


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "tiny") as folder:
        store = LocalStore(folder)
        assert store.put_if_absent("small", b"x")
        with pytest.raises(InfrastructureError, match=r"free space") as caught:
            store.put_if_absent("large", b"x" * (4 * TINY_BYTES))
        assert "\n" not in str(caught.value)
        assert _files(folder) == ["small"]
        assert store.put_if_absent("other", b"y")


def test_a_writer_killed_before_its_object_appears_leaves_nothing_visible(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from onnxdyno.adapters.local import LocalStore\n"
        "def link(*_):\n"
        "    print('written', flush=True)\n"
        "    sys.stdin.read()\n"
        "os.link = link\n"
        "LocalStore(Path(sys.argv[1])).put_if_absent('a/b', b'x' * 100000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    store = LocalStore(tmp_path)
    assert list(store.list()) == []
    assert store.head("a/b") is None
    assert store.put_if_absent("a/b", b"whole")
    assert [version.key for version in store.list()] == ["a/b"]


def test_a_folder_that_may_not_be_read_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreError, match="Permission denied") as caught:
        list(LocalStore(tmp_path).list())
    assert not caught.value.retryable
