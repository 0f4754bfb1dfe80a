"""Policy of flows and tasks that needs no server: retries, names, what crosses as a parameter, what a person reads."""

import logging
from typing import Any

import pytest
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Failed
from rich.text import Text

from flows import temporary_server
from flows.endings import Ending, Summary
from flows.terminal import OnlyFlowLines, show
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.errors import (
    DeviceBusy,
    DeviceError,
    InfrastructureError,
    ModelError,
    ObjectChanged,
    ObjectMissing,
    PointError,
    SpecError,
    StoreError,
    UsageError,
)
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.outcomes import ModelState, PointState
from tasks import measuring, registry, results
from tasks.naming import artifact_key, literal, named
from tasks.retrying import DELAYS_S, RETRIES, is_worth_retrying
from tasks.values import claim_as_parameter, claim_from_parameter

HOSTILE = "a\x1b[31m\n\u202e<script>alert(1)</script>|[x](javascript:y)" + "z" * 300 + ".onnx"


def version(key: str = "m.onnx") -> ObjectVersion:
    return ObjectVersion(store_uri="s3://models", key=key, etag='"e"', version_id=None, size_bytes=7)


def a_claim(key: str = "m.onnx") -> Claim:
    return Claim(
        key="claims/x/1",
        run_id="r1",
        version=version(key),
        device_class="cpu-x",
        attempt=1,
        claimed_at="2026-01-01T00:00:00Z",
        reason="upload",
    )


def worth(error: BaseException) -> bool:
    state: State[Any] = Failed(data=error)
    return is_worth_retrying(registry.pull, TaskRun.model_construct(), state)


@pytest.mark.parametrize("error", [StoreError("no answer"), DeviceBusy("held"), InfrastructureError("disk")])
def test_an_infrastructure_failure_is_tried_again(error: InfrastructureError) -> None:
    assert worth(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelError(ModelState.INVALID_FILE, "empty.", "Upload it."),
        UsageError("wrong"),
        SpecError("wrong"),
        DeviceError("not there"),
        PointError(PointState.OOM, "too big"),
        StoreError("wrong credentials", retryable=False),
        ObjectMissing("gone"),
        ObjectChanged("replaced"),
        RuntimeError("a fault of ours"),
        KeyboardInterrupt(),
    ],
)
def test_everything_else_is_not_tried_again(error: BaseException) -> None:
    assert not worth(error)


def test_a_state_without_an_error_is_not_tried_again() -> None:
    assert not is_worth_retrying(registry.pull, TaskRun.model_construct(), Failed())


@pytest.mark.parametrize(
    "step", [registry.claim, registry.pull, registry.finish, measuring.measure, results.store, results.report]
)
def test_every_task_that_talks_to_the_outside_has_the_one_bounded_rule(step: Any) -> None:
    assert step.retries == RETRIES == len(DELAYS_S)
    assert step.retry_condition_fn is is_worth_retrying
    assert sum(DELAYS_S) * (1 + step.retry_jitter_factor) < 20


@pytest.mark.parametrize("step", [registry.survey, registry.inspect, measuring.plan, results.analyse])
def test_the_survey_and_pure_steps_are_not_retried(step: Any) -> None:
    assert step.retries == 0


@pytest.mark.parametrize(
    "step",
    [registry.survey, registry.pull, registry.inspect, measuring.plan, measuring.measure, results.analyse],
)
def test_nothing_of_a_run_is_kept_in_prefect(step: Any) -> None:
    assert step.persist_result is False


def test_a_task_run_is_named_after_its_step_and_model_whatever_the_key_holds() -> None:
    name = named("pull")(parameters={"version": version(HOSTILE)})
    assert name.startswith("pull a")
    assert name.isprintable()
    assert len(name) <= 100
    of_candidate = Candidate(version=version(), device_class="x", status="new", attempt=1, reason="")
    assert named("claim")(parameters={"candidate": of_candidate}) == "claim m.onnx"
    assert named("finish")(parameters={"error": None, "taken": a_claim()}) == "finish m.onnx"
    assert named("analyse")(parameters={"run": 1}) == "analyse"


def test_an_artifact_key_is_legal_and_tells_keys_apart_that_look_alike() -> None:
    keys = {artifact_key("points", key, "s3://m") for key in (HOSTILE, "a/b.onnx", "a-b.onnx", "A-b.onnx", "模型.onnx")}
    assert len(keys) == 5
    for key in keys:
        assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(key) < 64


def test_a_hostile_name_is_literal_text_in_a_page() -> None:
    text = literal("<script>|[x](javascript:y)`")
    assert "<script>" not in text
    assert "\\|" in text
    assert "\\[x\\]" in text


def test_a_claim_crosses_as_a_json_parameter_and_comes_back_equal() -> None:
    claim = a_claim("weird key\u2028.onnx")
    assert claim_from_parameter(claim_as_parameter(claim)) == claim


def test_a_broken_claim_parameter_is_a_usage_error_that_names_the_field() -> None:
    broken = claim_as_parameter(a_claim())
    del broken["version"]["etag"]
    with pytest.raises(UsageError, match=r"version\.etag"):
        claim_from_parameter(broken)


def test_the_log_of_an_expected_failure_has_no_traceback_and_that_of_a_fault_has() -> None:
    logger = logging.getLogger("prefect.task_runs")

    def record_of(error: Exception) -> logging.LogRecord:
        record = logger.makeRecord(logger.name, logging.ERROR, "x.py", 1, "ended", (), (type(error), error, None))
        assert logger.filter(record)
        return record

    expected = record_of(StoreError("no answer"))
    assert expected.exc_info is None
    assert expected.getMessage() == "ended: no answer"
    assert record_of(RuntimeError("a fault")).exc_info


def test_only_what_the_engine_says_of_good_runs_is_dropped_in_the_terminal() -> None:
    def record(module: str, level: int) -> logging.LogRecord:
        return logging.LogRecord("prefect.flow_runs", level, f"/x/{module}.py", 1, "m", None, None)

    shown = OnlyFlowLines()
    assert not shown.filter(record("flow_engine", logging.INFO))
    assert shown.filter(record("flow_engine", logging.ERROR))
    assert shown.filter(record("watch_registry", logging.INFO))


def summary(*endings: Ending, standing: tuple[tuple[str, int], ...] = (), left: int = 0) -> Summary:
    return Summary(device_class="cpu-x", endings=endings, standing=standing, left=left)


def test_a_look_that_starts_nothing_says_so_and_how_the_registry_stands() -> None:
    nothing = summary(standing=(("committed", 4), ("quarantined", 1)))
    assert nothing.describe() == "nothing is new on cpu-x: 4 committed, 1 quarantined"
    assert nothing.exit_code == 0


def test_counts_are_by_status_over_what_was_started_and_what_stands() -> None:
    one = summary(
        Ending(key="a", status="committed", line="committed"),
        Ending(key="b", status="failed", line="failed", exit_code=4),
        standing=(("committed", 2),),
        left=3,
    )
    assert one.counts == (("committed", 3), ("failed", 1))
    assert one.describe() == "2 new on cpu-x: 3 committed, 1 failed, 3 left for the next look"
    assert one.exit_code == 4


def test_a_quarantined_model_is_no_failure_of_the_look() -> None:
    assert summary(Ending(key="a", status="quarantined", line="quarantined")).exit_code == 0


def test_the_terminal_shows_a_table_per_model_and_never_a_raw_escape(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Text("what was measured")
    uris = (("json", "file:/r/summary.json"),)
    show(summary(Ending(key="a\x1b[31m.onnx", status="committed", line="committed: 1 of 1", screen=screen, uris=uris)))
    said = capsys.readouterr().out
    assert "what was measured" in said
    assert "file:/r/summary.json" in said
    assert "\x1b[31m" not in said
    assert "a\\x1b[31m.onnx" in said


def test_the_chosen_prefect_api_is_found_in_the_environment_and_in_the_active_profile(tmp_path: Any) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(
        'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://team/api"\n[profiles.ephemeral]\nX = "true"\n'
    )
    home = {"PREFECT_HOME": str(tmp_path)}
    assert temporary_server.configured_url({"PREFECT_API_URL": "http://here/api"} | home) == "http://here/api"
    assert temporary_server.configured_url(home) == "http://team/api"
    assert temporary_server.configured_url(home | {"PREFECT_PROFILE": "ephemeral"}) is None
    assert temporary_server.configured_url({"PREFECT_HOME": str(tmp_path / "none")}) is None


def test_the_temporary_server_gets_no_credentials_and_no_settings_of_the_caller(tmp_path: Any) -> None:
    ours = {"AWS_SECRET_ACCESS_KEY": "s", "PREFECT_API_KEY": "k", "PREFECT_LOGGING_LEVEL": "DEBUG", "PATH": "/bin"}
    given = temporary_server.server_environment(ours, tmp_path, tmp_path / "prefect.db")
    assert given["PATH"] == "/bin"
    assert not {"AWS_SECRET_ACCESS_KEY", "PREFECT_API_KEY"} & given.keys()
    assert given["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert given["DO_NOT_TRACK"] == "1"
