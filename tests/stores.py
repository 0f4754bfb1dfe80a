"""A real S3 server, and stores of every kind for one test body."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from fakes import MemoryStore
from onnxdyno.adapters.local import LocalStore
from onnxdyno.adapters.s3 import S3Store
from onnxdyno.ports import ObjectStore

ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key-that-must-not-leak"  # noqa: S105 - the key of a server that lives for one test session
BUCKETS = ("models", "results")
_READY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running `weed mini`: its endpoint, and the environment in which AWS tools find it."""

    endpoint: str
    environment: dict[str, str]

    def client(self) -> Any:
        """A client of the test's own, for what the port does not offer."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(request_checksum_calculation="when_required", s3={"addressing_style": "path"}),
        )


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _command(folder: Path, s3_port: int) -> list[str]:
    parts = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"]
    parts += ["s3.port.grpc", "s3.port.iceberg", "s3.port.lance", "admin.port", "admin.port.grpc"]
    ports = [f"-{name}={port}" for name, port in zip(parts, free_ports(len(parts)), strict=True)]
    weed = Path(sys.executable).with_name("weed")
    quiet = ["-master.telemetry=false", "-admin.ui=false", "-webdav=false", "-s3.autoCreateBucket=false"]
    where = [f"-dir={folder}", f"-bucket={','.join(BUCKETS)}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    return [str(weed), "mini", *where, *quiet, *ports, f"-s3.port={s3_port}"]


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + _READY_S
    while time.monotonic() < give_up:
        if process.poll() is not None:
            break
        try:
            names = {bucket["Name"] for bucket in server.client().list_buckets()["Buckets"]}
        except Exception:  # noqa: BLE001 - whatever a starting server answers means: not yet
            names = set()
        if names.issuperset(BUCKETS):
            return
        time.sleep(0.1)
    pytest.fail(f"the S3 server is not ready:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def running_s3_server(folder: Path) -> Iterator[S3Server]:
    """A real S3 server on free ports of 127.0.0.1 with two buckets; gone, and checked to be gone, at the end."""
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    credentials = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    environment = {**credentials, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
    server = S3Server(endpoint=endpoint, environment=environment)
    log = folder / "weed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(folder, port),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **credentials},
            start_new_session=True,
        )
    try:
        _wait_until_ready(server, process, log)
        yield server
    finally:
        _reap(process)


def _reap(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def set_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point this process's environment at the server and at nothing else of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """An empty store and how a person uploads to it (replacing what is there)."""

    kind: str
    store: ObjectStore
    upload: Callable[[str, bytes], None]


def memory_registry() -> Registry:
    """An empty store in memory."""
    memory = MemoryStore()
    return Registry(kind="memory", store=memory, upload=memory.put)


def s3_registry(server: S3Server) -> Registry:
    """An empty prefix of the server's first bucket; the environment must point at the server."""
    prefix = f"prefix {uuid4().hex}"

    def upload(key: str, body: bytes) -> None:
        server.client().put_object(Bucket=BUCKETS[0], Key=f"{prefix}/{key}", Body=body)

    return Registry(kind="s3", store=S3Store(BUCKETS[0], prefix), upload=upload)


def local_registry(root: Path) -> Registry:
    """An empty new directory."""
    root.mkdir()

    def upload(key: str, body: bytes) -> None:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    return Registry(kind="local", store=LocalStore(root), upload=upload)
