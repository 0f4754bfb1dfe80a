"""Who may run what: claims, deaths, quarantine, and how few requests it takes to know."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from fakes import MemoryStore
from onnxdyno import registry
from onnxdyno.domain.claims import Candidate, Claim, Owner
from onnxdyno.domain.errors import InfrastructureError, ModelError, NothingMeasured, UsageError
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.storage import keys

NOW = "2025-01-01T12:00:00+00:00"
SOON = "2025-01-01T12:30:00+00:00"
MUCH_LATER = "2025-01-01T14:00:00+00:00"
ME = Owner(host="here", pid=10, started="1")
OTHER = Owner(host="here", pid=11, started="2")
FAR = Owner(host="elsewhere", pid=10, started="1")


class World:
    """A registry with one model, a results store, and the processes that live."""

    def __init__(self) -> None:
        self.models = MemoryStore("memory:models")
        self.results = MemoryStore("memory:results")
        self.living: set[Owner] = {ME}
        self.tokens = 0
        self.models.put("a/m.onnx", b"model")

    def is_alive(self, owner: Owner) -> bool | None:
        return None if owner.host == "elsewhere" else owner in self.living

    def survey(self, **changes: Any) -> tuple[Candidate, ...]:
        values = {"device_class": "cpu", "protocol_version": "1", "runtime_version": "ort 1", "now": NOW} | changes
        return registry.survey(self.models, self.results, is_alive=self.is_alive, **values)

    def only(self, **changes: Any) -> Candidate:
        (candidate,) = self.survey(**changes)
        return candidate

    def claim(self, candidate: Candidate | None = None, owner: Owner | None = ME) -> Claim | None:
        self.tokens += 1
        return registry.claim(
            self.results,
            candidate or self.only(),
            protocol_version="1",
            reason="upload",
            now=NOW,
            owner=owner,
            token=str(self.tokens),
        )

    def claimed(self, candidate: Candidate | None = None, owner: Owner | None = ME) -> Claim:
        claim = self.claim(candidate, owner)
        assert claim is not None
        return claim

    def take(self, claim: Claim, owner: Owner = ME, now: str = NOW) -> None:
        registry.take(self.results, claim, owner=owner, now=now, is_alive=self.is_alive)

    def finish(self, claim: Claim, error: BaseException | None, runtime_version: str = "ort 1") -> None:
        registry.finish(self.models, self.results, claim, error=error, now=NOW, runtime_version=runtime_version)

    def commit(self, claim: Claim) -> None:
        self.results.put(keys.table_key("runs", "cpu", claim.run_id), b"row")
        self.finish(claim, None)


@pytest.fixture
def world() -> World:
    return World()


def test_only_onnx_objects_are_models_in_any_case(world: World) -> None:
    for key in (
        "b.ONNX",
        "c.onnx.data",
        "d.onnx.part",
        "e.txt",
        "f.onnx.bench.yaml",
        "sub/",
        ".hidden.onnx",
        "é/é.onnx",
    ):
        world.models.put(key, b"x")
    found = {candidate.version.key: candidate.status for candidate in world.survey()}
    assert found == dict.fromkeys(("a/m.onnx", "b.ONNX", ".hidden.onnx", "é/é.onnx"), "new")


def test_a_name_that_is_not_utf8_is_refused_with_a_reason_and_cannot_be_claimed(world: World) -> None:
    world.models.delete("a/m.onnx")
    world.models.put("bad\udcff.onnx", b"x")
    candidate = world.only()
    assert (candidate.status, candidate.is_startable) == ("quarantined", False)
    assert "UTF-8" in candidate.reason
    with pytest.raises(UsageError):
        world.claim(candidate)


def test_a_new_model_is_claimed_once_and_then_runs(world: World) -> None:
    candidate = world.only()
    assert (candidate.status, candidate.attempt) == ("new", 1)
    assert world.claim(candidate) is not None
    assert world.claim(candidate) is None
    assert world.only().status == "running"
    assert world.claim() is None


def test_another_device_class_is_another_claim(world: World) -> None:
    world.claimed()
    assert world.only(device_class="gpu").status == "new"


def test_other_bytes_under_the_same_key_are_new(world: World) -> None:
    world.commit(world.claimed())
    assert world.only().status == "committed"
    world.models.put("a/m.onnx", b"other")
    assert world.only().status == "new"


def test_a_committed_model_costs_no_request_of_its_own(world: World) -> None:
    for number in range(20):
        world.models.put(f"{number}.onnx", b"x")
    for candidate in world.survey():
        world.commit(world.claimed(candidate))
    world.results.requests.clear()
    world.models.requests.clear()
    assert {candidate.status for candidate in world.survey()} == {"committed"}
    assert sorted(method for method, _ in world.results.requests) == ["list"] * 3
    assert world.models.requests == [("list", "")]


def test_a_claim_is_not_completion(world: World) -> None:
    claim = world.claimed()
    world.living.clear()
    candidate = world.only()
    assert (candidate.status, candidate.attempt) == ("died", 2)
    again = world.claimed(candidate)
    assert again.run_id == claim.run_id
    assert again.attempt == 2


def test_a_run_that_committed_and_died_before_its_end_record_is_committed(world: World) -> None:
    claim = world.claimed()
    world.results.put(keys.table_key("runs", "cpu", claim.run_id), b"row")
    world.living.clear()
    assert world.only().status == "committed"


def test_a_run_that_was_committed_by_its_second_attempt_is_committed(world: World) -> None:
    world.claimed()
    world.living.clear()
    world.commit(world.claimed())
    candidate = world.only()
    assert (candidate.status, candidate.attempt, candidate.ordinal) == ("committed", 2, 2)


def test_three_deaths_exhaust_a_run_and_the_reason_says_what_to_delete(world: World) -> None:
    world.living.clear()
    for _ in range(3):
        world.claimed()
    candidate = world.only()
    assert (candidate.status, candidate.is_startable) == ("exhausted", False)
    prefix = keys.claims_prefix("cpu", keys.version_digest(candidate.version))
    assert prefix in candidate.reason
    for version in list(world.results.list(prefix)):
        world.results.delete(version.key)
    assert world.only().status == "new"


def test_an_interrupt_does_not_count_as_a_death(world: World) -> None:
    for _ in range(5):
        claim = world.claimed()
        world.finish(claim, KeyboardInterrupt())
        candidate = world.only()
        assert candidate.status == "died"
        assert "interrupted" in candidate.reason


def test_a_failure_of_the_infrastructure_is_startable_at_once_and_counts(world: World) -> None:
    for number in range(1, 4):
        world.finish(world.claimed(), InfrastructureError("disk full"))
        candidate = world.only()
        assert candidate.status == ("exhausted" if number == 3 else "died")
        assert "disk full" in candidate.reason


def test_a_run_whose_points_were_all_skipped_is_committed(world: World) -> None:
    claim = world.claimed()
    world.results.put(keys.table_key("runs", "cpu", claim.run_id), b"row")
    world.finish(claim, NothingMeasured("no point ran"))
    assert world.only().status == "committed"


def test_a_committed_model_can_be_run_once_more_and_is_another_run(world: World) -> None:
    first = world.claimed()
    world.commit(first)
    second = world.claimed()
    assert second.run_id != first.run_id
    assert world.only().status == "running"
    world.living.clear()
    candidate = world.only()
    assert (candidate.status, candidate.attempt) == ("died", 3)
    third = world.claimed(candidate)
    assert third.run_id == second.run_id
    world.commit(third)
    assert world.only().status == "committed"


def test_another_protocol_does_not_make_a_committed_model_new(world: World) -> None:
    world.commit(world.claimed())
    assert world.only(protocol_version="2").status == "committed"


def test_where_nobody_can_tell_the_lease_decides(world: World) -> None:
    world.claimed(owner=FAR)
    assert world.only(now=SOON).status == "running"
    assert world.only(now=MUCH_LATER).status == "died"


def test_a_scheduled_claim_waits_for_its_run_and_its_lapse_is_no_death(world: World) -> None:
    world.claimed(owner=None)
    for attempt in range(2, 7):
        assert world.only(now=SOON).status == "running"
        candidate = world.only(now=MUCH_LATER)
        assert (candidate.status, candidate.attempt) == ("died", attempt)
        assert "did not begin" in candidate.reason
        world.claimed(candidate, owner=None)


def test_taking_a_scheduled_claim_makes_its_process_the_owner(world: World) -> None:
    claim = world.claimed(owner=None)
    world.take(claim)
    world.take(claim)
    assert world.only(now=MUCH_LATER).status == "running"
    world.living.clear()
    assert world.only().status == "died"


def test_a_claim_of_a_living_process_cannot_be_taken(world: World) -> None:
    claim = world.claimed(owner=None)
    world.take(claim)
    with pytest.raises(UsageError, match="process 10 is running it"):
        world.take(claim, OTHER)


def test_the_claim_of_a_dead_process_can_be_taken_again_and_again(world: World) -> None:
    claim = world.claimed(owner=None)
    for owner in (ME, OTHER, ME):
        world.living = {owner}
        world.take(claim, owner)
        assert world.only().status == "running"
        world.living.clear()
        assert world.only().status == "died"


def test_a_claim_overtaken_by_a_later_attempt_cannot_be_taken(world: World) -> None:
    claim = world.claimed(owner=None)
    world.claimed(world.only(now=MUCH_LATER))
    with pytest.raises(UsageError, match="overtaken by attempt 2"):
        world.take(claim)


def test_a_claim_that_is_over_or_gone_cannot_be_taken(world: World) -> None:
    claim = world.claimed()
    world.commit(claim)
    with pytest.raises(UsageError, match="is over"):
        world.take(claim)
    with pytest.raises(UsageError, match="is gone"):
        world.take(replace(claim, key="claims/cpu/none/1.json"))


def test_a_refused_model_is_quarantined_until_the_runtime_changes(world: World) -> None:
    error = ModelError(ModelState.UNSUPPORTED, "operator x is unknown.", "Use another runtime.")
    world.finish(world.claimed(), error)
    candidate = world.only()
    assert (candidate.status, candidate.is_startable) == ("quarantined", False)
    assert "operator x is unknown" in candidate.reason
    changed = world.only(runtime_version="ort 2")
    assert (changed.status, changed.attempt) == ("changed", 2)
    world.finish(world.claimed(changed), error, runtime_version="ort 2")
    assert world.only(runtime_version="ort 2").status == "quarantined"
    assert world.only().status == "changed"


def test_a_file_that_was_cut_short_is_tried_again_when_it_is_uploaded_again(world: World) -> None:
    world.finish(world.claimed(), ModelError(ModelState.INVALID_FILE, "cut short.", "Upload it again."))
    assert [world.only().status for _ in range(2)] == ["quarantined"] * 2
    assert world.only(runtime_version="ort 2").status == "quarantined"
    world.models.put("a/m.onnx", b"whole")
    assert (world.only().status, world.only().attempt) == ("new", 1)


def test_a_file_that_the_runtime_called_invalid_is_tried_again_with_another_runtime(world: World) -> None:
    refused = ModelError(ModelState.INVALID_FILE, "two nodes of one name.", "Export again.", is_of_runtime=True)
    world.finish(world.claimed(), pickle.loads(pickle.dumps(refused)))  # noqa: S301  our own bytes
    assert world.only().status == "quarantined"
    assert world.only(runtime_version="ort 2").status == "changed"


def test_a_retry_after_quarantine_does_not_reuse_the_pieces_of_the_old_run(world: World) -> None:
    first = world.claimed()
    world.finish(first, ModelError(ModelState.ENVIRONMENT, "no locale.", "Install it."))
    second = world.claimed(world.only(runtime_version="ort 2"))
    assert second.run_id != first.run_id


def test_a_missing_external_file_that_arrives_or_changes_makes_a_new_try(world: World) -> None:
    error = ModelError(ModelState.MISSING_EXTERNAL_DATA, "w.bin is missing.", "Upload it.", ("w.bin",))
    world.finish(world.claimed(), error)
    assert world.only().status == "quarantined"
    world.models.put("w.bin", b"elsewhere")
    assert world.only().status == "quarantined"
    world.models.put("a/w.bin", b"half")
    changed = world.only()
    assert changed.status == "changed"
    assert "a/w.bin" in changed.reason
    world.finish(world.claimed(changed), error)
    assert world.only().status == "quarantined"
    world.models.put("a/w.bin", b"whole")
    assert world.only().status == "changed"


def test_finishing_twice_keeps_the_first_end(world: World) -> None:
    claim = world.claimed()
    world.finish(claim, KeyboardInterrupt())
    world.finish(claim, InfrastructureError("later"))
    assert "interrupted" in world.only().reason


def test_records_that_cannot_be_read_do_not_stop_a_survey(world: World) -> None:
    claim = world.claimed()
    world.results.put(claim.key, b'{"half')
    assert world.only().status == "died"
    world.results.put(claim.key, b"\xff\xfe[[[[")
    assert world.only().status == "died"
    digest = keys.version_digest(claim.version)
    world.results.put(keys.quarantine_key("cpu", digest, 1), b"[]")
    assert world.only().status == "changed"


def test_what_an_error_says_stays_in_one_line(world: World) -> None:
    world.finish(world.claimed(), InfrastructureError("two\nlines \x1b[31mred"))
    assert "\n" not in world.only().reason
    assert "\x1b" not in world.only().reason
