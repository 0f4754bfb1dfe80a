"""One real S3 server for the session, and a store of each kind in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import Registry, S3Server, local_registry, memory_registry, running_s3_server, s3_registry, set_environment


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server on free ports of 127.0.0.1 with the buckets `models` and `results`."""
    with running_s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with this process's environment pointing at it and at nothing else of AWS."""
    set_environment(s3_server, monkeypatch)
    return s3_server


@pytest.fixture(params=["memory", "local", "s3"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    """An empty store of each kind in turn."""
    match request.param:
        case "memory":
            return memory_registry()
        case "local":
            return local_registry(tmp_path / "a store")
        case _:
            return s3_registry(request.getfixturevalue("s3_environment"))
