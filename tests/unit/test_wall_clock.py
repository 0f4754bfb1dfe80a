"""Nobody measures with the wall clock, which may be set back at any moment: one function of the house reads it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("src", "flows", "tasks") for path in (ROOT / folder).rglob("*.py"))

WALL = frozenset(
    """
    time.time time.time_ns time.localtime time.gmtime time.ctime time.asctime time.strftime time.CLOCK_REALTIME
    datetime.now datetime.utcnow datetime.today date.today datetime.datetime.now datetime.datetime.utcnow
    datetime.datetime.today datetime.date.today
    """.split()
)
MONOTONIC = frozenset({"perf_counter_ns", "thread_time_ns", "process_time_ns", "monotonic", "monotonic_ns"})


def readings(tree: ast.AST) -> Iterator[str]:
    """Every name of the wall clock that code uses: as an attribute, or taken out of `time` by an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{alias.name}" for alias in node.names if f"time.{alias.name}" in WALL)


def function(tree: ast.Module, name: str) -> ast.FunctionDef:
    """The module's own function of this name."""
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)


def test_the_wall_clock_is_read_in_one_place_and_for_the_date_only() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in SOURCES
        if (names := list(readings(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {"src/onnxdyno/app/places.py": ["datetime.now"]}
    places = ast.parse((ROOT / "src/onnxdyno/app/places.py").read_text(encoding="utf-8"))
    assert list(readings(function(places, "now"))) == ["datetime.now"]


def test_other_clocks_of_the_time_module_are_known() -> None:
    """A new way to read time has to be added here with a thought."""
    used = {
        node.attr
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time"
    }
    assert used <= MONOTONIC | {"sleep"}


def test_the_check_sees_every_way_to_write_it() -> None:
    for code in ("import time\ntime.time()", "from time import time_ns", "import datetime\ndatetime.datetime.now()"):
        assert list(readings(ast.parse(code)))
