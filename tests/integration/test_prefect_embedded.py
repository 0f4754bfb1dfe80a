"""Flows with nothing to start: each run in a process of its own, as a person starts it, ended in every way there is."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest

from flows import embedded
from onnxdyno import app
from stores import free_ports

CASES = Path(__file__).parents[1] / "cases"
SLOW = '{"launches": 3, "budget_s": 120, "memory": false}'
GUARD_S = 120


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache, kept for the session: the database is migrated once."""
    return tmp_path_factory.mktemp("cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A person's folders; `scratch` is where temporary files go, so that what is left behind is seen."""

    folder: Path
    scratch: Path
    environment: dict[str, str]

    @property
    def uris(self) -> dict[str, str]:
        return {"registry_uri": f"file:{self.folder / 'registry'}", "results_uri": f"file:{self.folder / 'results'}"}

    def upload(self, case: str) -> None:
        shutil.copyfile(CASES / case, self.folder / "registry" / case)

    def start(self, *further: str, registry: str | None = None) -> subprocess.Popen[str]:
        """`python -m flows.watch_registry`, away from the repository."""
        command = [sys.executable, "-m", "flows.watch_registry", "--registry", registry or self.uris["registry_uri"]]
        command += ["--results", self.uris["results_uri"], *further]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.scratch.iterdir())


@pytest.fixture
def desk(tmp_path: Path, cache: Path) -> Desk:
    """A person with an empty registry who has configured nothing."""
    for name in ("registry", "scratch", "home"):
        (tmp_path / name).mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "AWS_"))}
    environment = kept | {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "scratch"),
        "XDG_CACHE_HOME": str(cache),
        "ONNXDYNO_LOCK_DIR": str(tmp_path / "locks"),
    }
    return Desk(folder=tmp_path, scratch=tmp_path / "scratch", environment=environment)


def measuring(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Wait until the run measures; every process that belongs to it."""
    assert process.stderr is not None
    for line in process.stderr:
        if " of " in line and "looking for" not in line and "sizes found" not in line:
            return psutil.Process(process.pid).children(recursive=True)
    pytest.fail("the run ended before it measured anything")


def test_two_first_runs_beside_one_another_work_and_leave_nothing(desk: Desk) -> None:
    both = [desk.start(), desk.start()]
    for process in both:
        said, complained = process.communicate(timeout=GUARD_S)
        assert process.returncode == 0, complained
        assert said.startswith("nothing is new on ")
        assert "Traceback" not in complained
        assert "Error" not in complained
    assert desk.leftovers() == []
    assert not (desk.folder / "home" / ".prefect").exists()


def test_a_dead_endpoint_is_one_clear_line_and_an_exit_code(desk: Desk) -> None:
    port = free_ports(1)[0]
    endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_REGION": "x"}
    desk.environment.update(endpoint | {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    process = desk.start(registry="s3://models")
    said, complained = process.communicate(timeout=GUARD_S)
    assert process.returncode == 4
    assert said == ""
    assert [line for line in complained.splitlines() if str(port) in line] == [complained.splitlines()[-1]]
    assert "Traceback" not in complained


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_whole_and_frees_its_model(desk: Desk, ending: signal.Signals, code: int) -> None:
    desk.upload("nhwc_dynamic.onnx")
    process = desk.start("--parameters", SLOW)
    family = measuring(process)
    process.send_signal(ending)
    _, complained = process.communicate(timeout=GUARD_S)
    assert process.returncode == code, complained
    assert "Traceback" not in complained
    assert psutil.wait_procs(family, timeout=GUARD_S)[1] == []
    assert desk.leftovers() == []
    assert [one.is_startable for one in app.survey(**desk.uris, on=app.device())] == [True]


def test_a_killed_run_takes_its_server_and_its_measuring_process_along_and_frees_its_model(desk: Desk) -> None:
    desk.upload("nhwc_dynamic.onnx")
    process = desk.start("--parameters", SLOW)
    family = measuring(process)
    assert len(family) >= 2
    process.kill()
    process.communicate(timeout=GUARD_S)
    assert psutil.wait_procs(family, timeout=GUARD_S)[1] == []
    assert [name for name in desk.leftovers() if name.startswith("onnxdyno-prefect-")] == []
    assert [one.is_startable for one in app.survey(**desk.uris, on=app.device())] == [True]


def test_the_command_line_finds_the_flows_by_name_and_runs_them(desk: Desk) -> None:
    (runner,) = entry_points(group="onnxdyno.runners", name="prefect")
    assert runner.load() is embedded.run_once
    desk.upload("static_batch1.onnx")
    desk.upload("zero_bytes.onnx")
    (desk.folder / "spec.yaml").write_text("launches: 1\nbudget_s: 1\n")
    command = [str(Path(sys.executable).with_name("onnxdyno")), "run", "--spec", str(desk.folder / "spec.yaml")]
    command += ["--registry", desk.uris["registry_uri"], "--results", desk.uris["results_uri"]]
    ended = subprocess.run(
        command, cwd=desk.folder, env=desk.environment, capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "static_batch1.onnx  committed" in ended.stdout
    assert "zero_bytes.onnx  quarantined: invalid_file" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert [one.status for one in app.survey(**desk.uris, on=app.device())] == ["committed", "quarantined"]
