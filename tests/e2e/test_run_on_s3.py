"""`onnxdyno run`: the whole flow once, on a real S3 server, with what goes wrong with stores in earnest."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from commands import CASES, Ran, run_onnxdyno
from stores import S3Server, free_ports, running_s3_server

SPEC = "budget_s: 6\nlaunches: 2\nprecision: 1\nbatch: [1, 2, 4, 8]\nresolution: [64x64]\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def prefect_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One migrated database for all runs of this module."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def there(tmp_path: Path, server: S3Server, prefect_cache: Path) -> Mapping[str, str]:
    """An environment that points at the server, with locks and caches of the test's own."""
    (tmp_path / "spec.yaml").write_text(SPEC)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "AWS_"))}
    own = {"ONNXDYNO_LOCK_DIR": str(tmp_path / "locks"), "ONNXDYNO_CACHE_DIR": str(tmp_path / "models")}
    return kept | server.environment | own | {"XDG_CACHE_HOME": str(prefect_cache), "HOME": str(tmp_path)}


def run(folder: Path, environment: Mapping[str, str], prefix: str) -> Ran:
    uris = ("--registry", f"s3://models/{prefix}", "--results", f"s3://results/{prefix}")
    return run_onnxdyno(("run", *uris, "--spec", "spec.yaml"), folder, environment)


def rows(folder: Path, environment: Mapping[str, str], prefix: str, sql: str) -> list[dict[str, object]]:
    asked = run_onnxdyno(("query", sql, "--results", f"s3://results/{prefix}", "--json"), folder, environment)
    found: list[dict[str, object]] = asked.document["rows"]
    return found


def upload(server: S3Server, key: str, case: str) -> None:
    server.client().put_object(Bucket="models", Key=key, Body=(CASES / case).read_bytes())


def keys(server: S3Server, prefix: str) -> dict[str, str]:
    found = server.client().list_objects_v2(Bucket="results", Prefix=prefix).get("Contents", [])
    return {each["Key"]: each["ETag"] for each in found}


def test_what_is_uploaded_is_measured_once_and_what_is_replaced_again(
    tmp_path: Path, server: S3Server, there: Mapping[str, str]
) -> None:
    upload(server, "a/vision/nhwc %25 +1.onnx", "nhwc_dynamic.onnx")
    upload(server, "a/pointer.onnx", "git_lfs_pointer.onnx")
    upload(server, "a/ext/model.onnx", "external_ok/model.onnx")
    upload(server, "a/ext/model.onnx.data", "external_ok/model.onnx.data")
    first = run(tmp_path, there, "a")
    assert first.code == 0, first.err
    assert "3 new" in first.out
    committed = rows(tmp_path, there, "a", "SELECT source_key FROM runs ORDER BY 1")
    assert [row["source_key"] for row in committed] == ["ext/model.onnx", "vision/nhwc %25 +1.onnx"]
    assert [key for key in keys(server, "a/quarantine/") if key.endswith(".json")]

    second = run(tmp_path, there, "a")
    assert second.code == 0
    assert second.out.startswith("nothing is new")

    upload(server, "a/vision/nhwc %25 +1.onnx", "unet_multiple_of_8.onnx")
    third = run(tmp_path, there, "a")
    assert "1 new" in third.out
    assert rows(tmp_path, there, "a", "SELECT count(*) AS n FROM runs") == [{"n": 3}]
    states = rows(tmp_path, there, "a", "SELECT count(*) AS n FROM points WHERE p50_ms IS NULL AND reason IS NULL")
    assert states == [{"n": 0}]


def test_a_flow_that_was_killed_is_finished_by_the_next_one(
    tmp_path: Path, server: S3Server, there: Mapping[str, str]
) -> None:
    upload(server, "killed/nhwc.onnx", "nhwc_dynamic.onnx")
    uris = ("--registry", "s3://models/killed", "--results", "s3://results/killed")
    command = [sys.executable, "-m", "onnxdyno.cli", "run", *uris, "--spec", "spec.yaml"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, cwd=tmp_path, env=there, stdout=log, stderr=log) as flow,
    ):
        deadline_s = time.monotonic() + 120
        while sum("/timing-" in key for key in keys(server, "killed/progress/")) < 2:
            assert flow.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        family = psutil.Process(flow.pid).children(recursive=True)
        flow.kill()
    assert psutil.wait_procs(family, timeout=20)[1] == []
    before = keys(server, "killed/progress/")
    assert rows(tmp_path, there, "killed", "SELECT count(*) AS n FROM samples") == [{"n": 0}]

    assert run(tmp_path, there, "killed").code == 0
    assert rows(tmp_path, there, "killed", "SELECT count(*) AS n, max(attempt) AS tries FROM runs") == [
        {"n": 1, "tries": 2}
    ]
    twice = (
        "SELECT count(*) AS n FROM (SELECT 1 FROM samples GROUP BY axes, launch, phase, ordinal HAVING count(*) > 1)"
    )
    assert rows(tmp_path, there, "killed", twice) == [{"n": 0}]
    launches = rows(tmp_path, there, "killed", "SELECT DISTINCT launch FROM samples ORDER BY 1")
    assert [row["launch"] for row in launches] == [1, 2]
    assert before
    assert keys(server, "killed/progress/") == {}


@pytest.mark.parametrize(
    ("wrong", "prefix", "word"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "a", "secret key is wrong"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "a", "AWS_ACCESS_KEY_ID"),
        ({}, "../absent-bucket", "no such bucket"),
        ({"AWS_ENDPOINT_URL": "dead"}, "a", "127.0.0.1"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_and_no_retry_storm(
    tmp_path: Path, there: Mapping[str, str], wrong: dict[str, str], prefix: str, word: str
) -> None:
    if wrong.get("AWS_ENDPOINT_URL"):
        wrong = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_ports(1)[0]}"}
    bucket = "absent-bucket" if prefix.startswith("..") else f"models/{prefix}"
    uris = ("--registry", f"s3://{bucket}", "--results", "s3://results/wrong")
    ran = run_onnxdyno(("run", *uris), tmp_path, {**there, **wrong})
    assert ran.code == 4
    assert [line for line in ran.err.splitlines() if word in line] == [ran.err.splitlines()[-1]]
    assert there["AWS_SECRET_ACCESS_KEY"] not in ran.err + ran.out
