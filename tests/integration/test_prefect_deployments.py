"""The service as deployed: only the wheel is installed, the working directory is elsewhere, a server, a worker."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from onnxdyno import app
from stores import free_ports

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
GUARD_S = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A machine of the fleet: an environment with the wheel, a folder that is not the repository, a Prefect server."""

    python: Path
    folder: Path
    environment: dict[str, str]

    @property
    def uris(self) -> dict[str, str]:
        return {"registry_uri": f"file:{self.folder / 'models'}", "results_uri": f"file:{self.folder / 'results'}"}

    def run(self, *arguments: str, **further: str) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS` there, which must succeed."""
        ended = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=self.environment | further,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    def api(self, path: str, **query: Any) -> Any:
        """POST to the server's API."""
        answer = httpx.post(f"{self.environment['PREFECT_API_URL']}{path}", json=query, timeout=30)
        answer.raise_for_status()
        return answer.json()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that has the wheel; what it depends on is borrowed from this one."""
    folder = tmp_path_factory.mktemp("installed")
    tree = folder / "tree"
    for package in ("src", "flows", "tasks"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=tree, check=True, capture_output=True, timeout=GUARD_S)
    shutil.rmtree(tree)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=GUARD_S)
    python = folder / "venv" / "bin" / "python"
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*uv, "--python", str(python), *map(str, folder.glob("*.whl"))], check=True, timeout=GUARD_S)
    own = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (own / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


@pytest.fixture(scope="module")
def service(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The whole service without its worker: `prefect server start` with all of its background services."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "models").mkdir()
    port = free_ports(1)[0]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "AWS_", "PYTHON"))}
    environment = kept | {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "ONNXDYNO_LOCK_DIR": str(folder / "locks"),
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [str(installed), "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            transport = httpx.HTTPTransport(retries=10)  # doubling pauses: about a minute until it listens
            with httpx.Client(transport=transport, timeout=60) as client:
                client.get(f"http://127.0.0.1:{port}/api/ready").raise_for_status()
            yield Service(python=installed, folder=folder, environment=environment)
        finally:
            server.terminate()
            server.wait(GUARD_S)


def deploy(service: Service, pool: str = "cpu", device: str = "cpu") -> None:
    """What docker/deploy.sh does, with this environment's Prefect."""
    given = {
        "ONNXDYNO_REGISTRY": service.uris["registry_uri"],
        "ONNXDYNO_RESULTS": service.uris["results_uri"],
        "ONNXDYNO_CLASSES": f"{pool}={device}",
        "PATH": f"{service.python.parent}{os.pathsep}{service.environment['PATH']}",
    }
    prefect = service.python.parent / "prefect"
    if not prefect.exists():
        prefect.write_text(f'#!/bin/sh\nexec "{service.python}" -m prefect "$@"\n')
        prefect.chmod(0o755)
    ended = subprocess.run(
        ["/bin/sh", str(ROOT / "docker" / "deploy.sh"), str(ROOT / "prefect.yaml")],
        cwd=service.folder,
        env=service.environment | given,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def start(service: Service, deployment: str, **parameters: Any) -> None:
    """Ask for one run of a deployment, and do not wait."""
    code = "from prefect.deployments import run_deployment\n"
    code += f"run_deployment({deployment!r}, parameters={parameters!r}, timeout=0, as_subflow=False)"
    service.run("-c", code)


def worker(service: Service, pool: str) -> str:
    """A worker that takes what is due, runs it to its end, and leaves; what it and the runs said."""
    ended = service.run("-m", "prefect", "worker", "start", "--pool", pool, "--run-once", "--install-policy", "never")
    return ended.stdout + ended.stderr


def runs(service: Service, flow: str) -> list[dict[str, Any]]:
    """Flow runs of one flow that are not merely planned by a schedule, oldest first."""
    found: list[dict[str, Any]] = service.api("/flow_runs/filter", flows={"name": {"any_": [flow]}})
    return sorted((run for run in found if not run["auto_scheduled"]), key=lambda run: str(run["created"]))


def test_the_flows_load_by_module_from_the_wheel_with_the_working_directory_elsewhere(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "from prefect.flows import load_flow_from_entrypoint as load; import flows, onnxdyno\n"
        "print(flows.__file__, onnxdyno.__file__)\n"
        "for name in ('benchmark_model', 'watch_registry', 'rebenchmark_fleet'):\n"
        "    print(load(f'flows.{name}:{name}', use_placeholder_flow=False).name)"
    )
    ended = subprocess.run(
        [str(installed), "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=GUARD_S, check=True
    )
    where, *names = ended.stdout.splitlines()
    assert all(path.startswith(str(installed.parents[1])) for path in where.split())
    assert names == ["benchmark-model", "watch-registry", "rebenchmark-fleet"]


def test_a_model_goes_from_the_registry_through_the_pool_to_a_committed_run(service: Service) -> None:
    deploy(service)
    shutil.copyfile(CASES / "static_batch1.onnx", service.folder / "models" / "m.onnx")
    started = (
        'from prefect.deployments import run_deployment as run; run("watch-registry/cpu", timeout=0, as_subflow=False'
    )
    quick = {"launches": 1, "budget_s": 1}
    service.run("-c", f"{started}, parameters={{'parameters': {quick}}})")
    worker(service, "cpu")
    (watched,) = runs(service, "watch-registry")
    assert watched["state_type"] == "COMPLETED"
    assert watched["state"]["message"].startswith("1 new on ")
    (handed,) = runs(service, "benchmark-model")
    assert handed["state_type"] in ("SCHEDULED", "PENDING", "RUNNING", "COMPLETED")
    worker(service, "cpu")
    (done,) = runs(service, "benchmark-model")
    assert (done["state_type"], done["state_name"]) == ("COMPLETED", "Completed"), done["state"]
    assert done["name"] == "m.onnx on cpu"
    assert [one.status for one in app.survey(**service.uris, on=app.device())] == ["committed"]
    assert not (service.folder / "flows").exists()


def test_an_expected_failure_in_a_worker_is_one_line_without_a_traceback(service: Service) -> None:
    deploy(service)
    start(service, "benchmark-model/cpu", key="missing.onnx")
    said = worker(service, "cpu")
    failed = runs(service, "benchmark-model")[-1]
    assert failed["state_type"] == "FAILED"
    assert "no model under the key 'missing.onnx'" in failed["state"]["message"]
    assert "Traceback" not in said


def test_deploying_again_changes_nothing_and_another_class_has_deployments_of_its_own(service: Service) -> None:
    deploy(service)
    deploy(service)
    deploy(service, pool="h200", device="cuda:0")
    found = service.api("/deployments/filter")
    flows = {flow["id"]: flow["name"] for flow in service.api("/flows/filter")}
    names = sorted((flows[one["flow_id"]], one["name"]) for one in found)
    kinds = ("benchmark-model", "rebenchmark-fleet", "watch-registry")
    assert names == [(flow, pool) for flow in kinds for pool in ("cpu", "h200")]
    for one in found:
        assert one["parameters"]["device_id"] == {"cpu": "cpu", "h200": "cuda:0"}[one["name"]]
        assert one["work_pool_name"] == one["name"]
        assert one["pull_steps"] in (None, [])
        assert one["concurrency_limit"] == 1 or one["global_concurrency_limit"]["limit"] == 1
    scheduled = {flows[one["flow_id"]]: one["schedules"][0]["schedule"] for one in found if one["schedules"]}
    assert scheduled["watch-registry"]["interval"] == 60
    assert scheduled["rebenchmark-fleet"]["cron"] == "0 3 * * 0"


def test_what_the_image_installs_is_what_the_project_needs() -> None:
    """Every deployment's entry point is a flow of the wheel, and the wheel carries flows and tasks."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {"flows", "tasks", "src/onnxdyno"} == set(packages["packages"])
    for one in deployments:
        module, flow = one["entrypoint"].rsplit(".", 1)
        assert module == f"flows.{flow}"
        assert (ROOT / "flows" / f"{flow}.py").exists()
