"""What is finished once is kept, whoever was first."""

import pytest

from fakes import MemoryStore
from onnxdyno.domain.errors import UsageError
from onnxdyno.storage.progress import MemoryLedger, StoreLedger

Ledger = MemoryLedger | StoreLedger


@pytest.fixture(params=["memory", "store"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    return MemoryLedger() if request.param == "memory" else StoreLedger(MemoryStore(), "run-1")


def test_a_piece_is_kept_and_read_back(ledger: Ledger) -> None:
    assert ledger.read_all() == {}
    assert ledger.keep("launch-1.point-2", b"{}") == b"{}"
    assert ledger.keep("launch-1.point-1", b"[]") == b"[]"
    assert ledger.read_all() == {"launch-1.point-1": b"[]", "launch-1.point-2": b"{}"}


def test_the_loser_of_a_race_gets_the_piece_of_the_winner(ledger: Ledger) -> None:
    ledger.keep("piece", b"first")
    assert ledger.keep("piece", b"second") == b"first"
    assert ledger.read_all() == {"piece": b"first"}


def test_a_cleared_ledger_is_empty(ledger: Ledger) -> None:
    ledger.keep("piece", b"x")
    ledger.clear()
    ledger.clear()
    assert ledger.read_all() == {}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "a\nb"])
def test_a_name_that_is_no_safe_segment_is_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(UsageError):
        ledger.keep(name, b"x")


def test_pieces_of_other_runs_are_not_seen() -> None:
    store = MemoryStore()
    StoreLedger(store, "run-1").keep("piece", b"1")
    assert StoreLedger(store, "run-10").read_all() == {}
    StoreLedger(store, "run-10").clear()
    assert StoreLedger(store, "run-1").read_all() == {"piece": b"1"}
