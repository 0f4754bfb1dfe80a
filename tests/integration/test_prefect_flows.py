"""The flows on a real Prefect API, the real app and real models; only what a store answers is sometimes made up."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_LEVEL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from flows.benchmark_model import benchmark_model
from flows.endings import Ending, Summary
from flows.rebenchmark_fleet import rebenchmark_fleet
from flows.temporary_server import PrefectServer
from flows.watch_registry import watch_registry
from onnxdyno import app
from onnxdyno.domain.errors import DeviceError, ObjectMissing, StoreError, UsageError
from onnxdyno.domain.models import ObjectVersion
from tasks import registry

CASES = Path(__file__).parents[1] / "cases"
QUICK: dict[str, Any] = {"launches": 1, "budget_s": 1, "batch": [1, 2], "resolution": [[32, 32]], "memory": False}


@pytest.fixture(scope="session")
def api() -> Iterator[str]:
    """A Prefect API for the session."""
    server = PrefectServer()
    try:
        server.wait()
        with temporary_settings(
            {PREFECT_API_URL: server.url, PREFECT_LOGGING_TO_API_ENABLED: False, PREFECT_LOGGING_LEVEL: "CRITICAL"}
        ):
            yield server.url
    finally:
        server.stop()


@pytest.fixture
def home(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty registry, and retries that do not wait."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ONNXDYNO_LOCK_DIR", str(tmp_path / "locks"))
    for name in ("claim", "take", "pull", "finish"):
        step = getattr(registry, name)
        monkeypatch.setattr(registry, name, step.with_options(retry_delay_seconds=0, retry_jitter_factor=None))
    (tmp_path / "registry").mkdir()
    return tmp_path


def upload(home: Path, case: str, key: str | None = None) -> None:
    target = home / "registry" / (key or case)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CASES / case, target)


def uris(home: Path) -> dict[str, Any]:
    return {"registry_uri": f"file:{home / 'registry'}", "results_uri": f"file:{home / 'results'}"}


def look(home: Path, **given: Any) -> Summary:
    return cast("Summary", watch_registry(**uris(home), parameters=QUICK, **given))


def benchmark(home: Path, key: str, **given: Any) -> State[Ending]:
    return cast("State[Ending]", benchmark_model(**uris(home), key=key, parameters=QUICK, return_state=True, **given))


def standing(home: Path) -> dict[str, str]:
    return {one.version.key: one.status for one in app.survey(**uris(home), on=app.device())}


def flow_run(state: State[Any]) -> FlowRun:
    assert state.state_details.flow_run_id is not None
    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id)


def artifacts(run: FlowRun, kind: str) -> list[Any]:
    with get_client(sync_client=True) as client:
        return client.read_artifacts(
            artifact_filter=ArtifactFilter(
                flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]), type=ArtifactFilterType(any_=[kind])
            )
        )


def failing(times: int, error: Exception, real: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """`real`, except that its first calls raise; and the list of its calls."""
    calls: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) <= times:
            raise error
        return real(*args, **kwargs)

    return call, calls


def test_a_look_measures_what_is_new_once_and_the_next_finds_nothing(home: Path) -> None:
    upload(home, "nhwc_dynamic.onnx")
    upload(home, "git_lfs_pointer.onnx", "deep/er/pointer.onnx")
    first = look(home)
    assert {ending.key: ending.status for ending in first.endings} == {
        "deep/er/pointer.onnx": "quarantined",
        "nhwc_dynamic.onnx": "committed",
    }
    assert standing(home) == {"deep/er/pointer.onnx": "quarantined", "nhwc_dynamic.onnx": "committed"}
    committed = next(ending for ending in first.endings if ending.status == "committed")
    assert committed.screen is not None
    said = dict(committed.uris)
    page = json.loads(Path(said["json"].removeprefix("file:")).read_text())
    assert len(page["points"]) == 2
    second = look(home)
    assert second.endings == ()
    assert second.describe().startswith("nothing is new on ")
    assert second.counts == (("committed", 1), ("quarantined", 1))


def test_other_bytes_under_the_same_key_are_measured_again(home: Path) -> None:
    upload(home, "static_batch1.onnx", "m.onnx")
    assert [ending.status for ending in look(home).endings] == ["committed"]
    upload(home, "static_batch4.onnx", "m.onnx")
    assert [ending.status for ending in look(home).endings] == ["committed"]
    assert look(home).endings == ()


def test_a_committed_run_is_completed_with_a_table_a_summary_and_progress(home: Path) -> None:
    upload(home, "nhwc_dynamic.onnx")
    state = benchmark(home, "nhwc_dynamic.onnx", reason="driver 580")
    assert state.is_completed()
    assert state.name == "Completed"
    run = flow_run(state)
    assert run.name == "nhwc_dynamic.onnx on cpu"
    table = json.loads(artifacts(run, "table")[0].data)
    assert len(table) == 2
    assert all(row["state"] for row in table)
    assert artifacts(run, "markdown")
    assert [one.data for one in artifacts(run, "progress")] == [100.0]
    rows = app.query("SELECT DISTINCT reason FROM runs", results_uri=uris(home)["results_uri"]).to_pylist()
    assert rows == [{"reason": "driver 580"}]


def test_the_flow_and_the_library_write_the_same_tables(home: Path) -> None:
    upload(home, "nhwc_dynamic.onnx")
    assert benchmark(home, "nhwc_dynamic.onnx").is_completed()
    other = home / "other"
    on = app.device()
    where = {"registry_uri": uris(home)["registry_uri"], "results_uri": f"file:{other}"}
    (candidate,) = app.survey(**where, on=on)
    mine = app.claim(candidate, results_uri=where["results_uri"], reason="upload", is_scheduled=False)
    assert mine is not None
    app.benchmark(mine, on=on, results_uri=where["results_uri"], tell=lambda progress: None, parameters=QUICK)

    def tables(folder: Path) -> dict[str, tuple[Any, int]]:
        files = sorted((folder / "tables").rglob("*.parquet"))
        read = {
            file.relative_to(folder / "tables").parts[0]: cast("Any", pq).read_table(file, partitioning=None)
            for file in files
        }
        counted = ("runs", "points", "requirements")  # of samples and nodes there are as many as time allowed
        return {name: (one.schema, one.num_rows if name in counted else 0) for name, one in read.items()}

    assert tables(home / "results").keys() >= {"runs", "points", "samples", "nodes", "requirements"}
    assert tables(home / "results") == tables(other)


def test_a_refused_model_ends_as_quarantined_after_one_try(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(home, "git_lfs_pointer.onnx")
    pull, calls = failing(0, RuntimeError(), app.pull)
    monkeypatch.setattr(app, "pull", pull)
    state = benchmark(home, "git_lfs_pointer.onnx")
    assert state.is_completed()
    assert state.name == "Quarantined"
    assert state.message is not None
    assert "Git LFS pointer" in state.message
    assert "\n" not in state.message
    assert len(calls) == 1
    assert flow_run(state).state_name == "Quarantined"


def test_a_store_that_comes_back_is_asked_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(home, "static_batch1.onnx")
    pull, calls = failing(2, StoreError("no answer"), app.pull)
    monkeypatch.setattr(app, "pull", pull)
    assert benchmark(home, "static_batch1.onnx").name == "Completed"
    assert len(calls) == 3


def test_a_store_that_stays_away_fails_the_run_in_one_line_and_the_next_look_tries_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(home, "static_batch1.onnx")
    pull, calls = failing(99, StoreError("s3://models: no answer; check AWS_ENDPOINT_URL"), app.pull)
    with monkeypatch.context() as patched:
        patched.setattr(app, "pull", pull)
        state = benchmark(home, "static_batch1.onnx")
    assert state.is_failed()
    assert state.message == "s3://models: no answer; check AWS_ENDPOINT_URL"
    assert isinstance(state.result(raise_on_failure=False), StoreError)
    assert len(calls) == 3
    assert [ending.status for ending in look(home).endings] == ["committed"]


def test_what_no_retry_can_mend_is_tried_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(home, "static_batch1.onnx")
    pull, calls = failing(99, StoreError("s3://models: access denied", retryable=False), app.pull)
    monkeypatch.setattr(app, "pull", pull)
    assert benchmark(home, "static_batch1.onnx").is_failed()
    assert len(calls) == 1


def test_one_failing_model_does_not_stop_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a.onnx", "b.onnx"):
        upload(home, "static_batch1.onnx", key)
    real = app.pull

    def pull(version: ObjectVersion) -> app.Pulled:
        if version.key == "a.onnx":
            raise RuntimeError("a fault of ours")
        return real(version)

    monkeypatch.setattr(app, "pull", pull)
    seen = look(home)
    assert {ending.key: ending.status for ending in seen.endings} == {"a.onnx": "failed", "b.onnx": "committed"}
    assert seen.exit_code == 1


def test_two_infrastructure_failures_in_a_row_end_the_look(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in "abcd":
        upload(home, "static_batch1.onnx", f"{key}.onnx")
    pull, _ = failing(99, StoreError("no answer", retryable=False), app.pull)
    monkeypatch.setattr(app, "pull", pull)
    seen = look(home)
    assert [ending.status for ending in seen.endings] == ["failed", "failed"]
    assert seen.left == 2
    assert seen.exit_code == StoreError.exit_code


def test_a_limit_leaves_the_rest_for_the_next_look(home: Path) -> None:
    for key in "ab":
        upload(home, "static_batch1.onnx", f"{key}.onnx")
    assert look(home, limit=1).left == 1
    assert [ending.key for ending in look(home).endings] == ["b.onnx"]


def test_an_interrupt_is_recorded_and_raised_and_the_model_is_free_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(home, "static_batch1.onnx")
    recorded: list[BaseException | None] = []
    real = app.finish

    def finish(taken: Any, *, results_uri: str, error: BaseException | None) -> None:
        recorded.append(error)
        real(taken, results_uri=results_uri, error=error)

    def measure(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(app, "finish", finish)
        patched.setattr(app, "measure", measure)
        with pytest.raises(KeyboardInterrupt):
            look(home)
    assert [type(error) for error in recorded] == [KeyboardInterrupt]
    assert [ending.status for ending in look(home).endings] == ["committed"]


def test_a_hostile_key_is_harmless_in_names_states_and_artifacts(home: Path) -> None:
    key = "a\x1b[31m\n<b>|`$(x).onnx"
    upload(home, "static_batch1.onnx", key)
    state = benchmark(home, key)
    assert state.name == "Completed"
    run = flow_run(state)
    assert run.name is not None
    assert run.name.isprintable()
    shown = [str(one.description) + str(one.data) for kind in ("table", "progress") for one in artifacts(run, kind)]
    assert shown
    assert not any("<b>" in text or "\x1b" in text for text in shown)


def test_a_committed_model_is_not_measured_again_unasked(home: Path) -> None:
    upload(home, "static_batch1.onnx")
    assert benchmark(home, "static_batch1.onnx").name == "Completed"
    again = benchmark(home, "static_batch1.onnx")
    assert again.is_completed()
    assert again.name == "Taken"
    assert again.message is not None
    assert "committed" in again.message


def test_an_event_for_a_version_that_was_replaced_starts_nothing(home: Path) -> None:
    upload(home, "static_batch1.onnx")
    state = benchmark(home, "static_batch1.onnx", etag="long gone")
    assert state.name == "Taken"
    assert standing(home) == {"static_batch1.onnx": "new"}


def test_a_key_that_is_not_there_fails_and_says_where_it_was_looked_for(home: Path) -> None:
    state = benchmark(home, "missing.onnx")
    assert state.is_failed()
    error = state.result(raise_on_failure=False)
    assert isinstance(error, ObjectMissing)
    assert "missing.onnx" in str(error)


def test_the_fleet_is_measured_once_more_with_a_reason_that_is_stored(home: Path) -> None:
    for key in ("vision/a.onnx", "text/b.onnx"):
        upload(home, "static_batch1.onnx", key)
    look(home)
    again = cast(
        "Summary",
        rebenchmark_fleet(**uris(home), reason="driver 580.95", models="vision/*", parameters=QUICK),
    )
    assert [(ending.key, ending.status) for ending in again.endings] == [("vision/a.onnx", "committed")]
    rows = app.query(
        "SELECT source_key, reason, count(*) AS runs FROM runs GROUP BY ALL ORDER BY ALL",
        results_uri=uris(home)["results_uri"],
    ).to_pylist()
    assert rows == [
        {"source_key": "text/b.onnx", "reason": "upload", "runs": 1},
        {"source_key": "vision/a.onnx", "reason": "driver 580.95", "runs": 1},
        {"source_key": "vision/a.onnx", "reason": "upload", "runs": 1},
    ]
    assert look(home).endings == ()


def test_a_device_that_is_not_here_fails_the_look_and_claims_nothing(home: Path) -> None:
    upload(home, "static_batch1.onnx")
    with pytest.raises(DeviceError):
        look(home, device_id="no-such-device")
    assert standing(home) == {"static_batch1.onnx": "new"}


def test_a_deployment_that_is_not_there_fails_the_look_before_anything_is_claimed(home: Path) -> None:
    upload(home, "static_batch1.onnx")
    with pytest.raises(UsageError, match="benchmark-model/nowhere"):
        look(home, deployment="benchmark-model/nowhere")
    assert standing(home) == {"static_batch1.onnx": "new"}
