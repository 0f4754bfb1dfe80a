"""What people see: nothing hostile gets through, nothing missing looks like a number, units are one per column."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from rich.console import Console, RenderableType

import factories as make
from onnxdyno.domain.axes import Axis, Role, axis_sizes
from onnxdyno.domain.findings import Estimate, Findings, PointFinding
from onnxdyno.domain.models import Dim, TensorSpec
from onnxdyno.domain.outcomes import Flag, PointState
from onnxdyno.domain.plan import BenchmarkSpec, Point, Variant
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import charts, grid, html, markdown, points, safe, svg, terminal, units

HOSTILE = "\x1b[31mred<script>alert(1)</script>\x9b1m\u202e|`[x](http://e.example)\r\nline\udc80"


def at(batch: int, side: int = 32) -> Point:
    return make.point(batch=batch, height=side, width=side)


def run_of(found: Findings, name: str = "model.onnx", **plan: object) -> BenchmarkRun:
    planned = make.plan(tuple(each.point for each in found.points), model=make.local_model(name), **plan)
    return make.benchmark_run((make.measured(planned.base),), plan=planned)


def swept() -> Findings:
    """A batch sweep that ends out of memory and a resolution sweep with an odd size."""
    return make.findings(
        (
            *(make.point_finding(at(size), 1e6 * size**0.9) for size in (1, 2, 4, 8)),
            make.skipped_finding(at(16), PointState.OOM, "Failed to allocate memory"),
            make.skipped_finding(at(32), PointState.OOM, "Failed to allocate memory"),
            make.point_finding(at(1, 64), 4e6),
            make.skipped_finding(at(1, 33), PointState.SHAPE_ERROR, "dimensions must match"),
        )
    )


def hostile() -> tuple[BenchmarkRun, Findings]:
    """Every text that a model, a runtime or a host can choose is hostile."""
    base = Point(sizes=axis_sizes({"batch": 1, HOSTILE: 2}), variant=Variant.DEVICE)
    large = Point(sizes=axis_sizes({"batch": 2, HOSTILE: 2}), variant=Variant.DEVICE)
    bad = make.skipped_finding(large, reason=HOSTILE, remedy=HOSTILE)
    node = make.node(HOSTILE, op_type=HOSTILE, path=HOSTILE, output_shapes=HOSTILE)
    found = make.findings(
        (make.point_finding(base), bad),
        best_batch=make.choice(reason=HOSTILE),
        profiles=(make.profile_finding(base, (node,), reason=HOSTILE),),
        tiers=(make.tier(device_name=HOSTILE, reason=HOSTILE),),
        warnings=(HOSTILE,),
    )
    run = run_of(found, HOSTILE, device=make.cpu_device(name=HOSTILE, device_class=HOSTILE))
    signature = make.image_signature(
        producer=HOSTILE, notes=(HOSTILE,), axes=(Axis(name=HOSTILE, role=Role.OTHER, size=None),)
    )
    return replace(run, signature=signature, origin=make.origin(reason=HOSTILE)), found


def shown(renderable: RenderableType, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False, color_system=None).print(renderable)
    return stream.getvalue()


class _Reader(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    return reader


def test_the_terminal_never_gets_a_control_character() -> None:
    run, found = hostile()
    for renderable in (
        terminal.bench(run, found),
        terminal.inspect(make.model_ref(HOSTILE), run.signature, make.cost(run.plan.base.sizes)),
        terminal.devices((make.cpu_device(name=HOSTILE),)),
        terminal.refusal(HOSTILE, HOSTILE, HOSTILE),
    ):
        text = shown(renderable)
        assert "red" in text
        assert not [character for character in text if character != "\n" and not character.isprintable()]


def test_long_names_of_axes_leave_room_for_the_numbers() -> None:
    names = tuple(f"\x1b[31m{'a long name of an axis ' * 4}{number}" for number in range(40))
    groups = tuple((name,) for name in names)
    point = Point(sizes=axis_sizes(dict.fromkeys(names, 8)), variant=Variant.DEVICE)
    assert len(points.group_title(groups[0])) <= 24
    assert points.brief(point, point, groups).endswith(" 8, 34 more")
    assert len(points.brief(point, point, groups)) < 200


def test_a_long_title_of_a_column_does_not_push_numbers_off_the_screen() -> None:
    sizes = [
        Point(sizes=axis_sizes({"the longest name of all the axes": size}), variant=Variant.DEVICE) for size in (1, 2)
    ]
    found = make.findings(tuple(make.point_finding(point, state=PointState.UNCONVERGED) for point in sizes))
    axis = Axis(name="the longest name of all the axes", role=Role.BATCH, size=None)
    run = replace(run_of(found), signature=make.image_signature(axes=(axis,)))
    assert "memory MiB" in shown(terminal.bench(run, found), 80).partition("Points")[2].splitlines()[1]


def test_an_expression_that_nobody_would_read_does_not_fill_the_shape() -> None:
    floor = Dim(role=Role.OTHER, symbol="floor(floor(floor(height/2 - 1/2)/2 + 1/2)/2)")
    total = Dim(role=Role.SEQUENCE, axes=("past_sequence_length", "sequence_length"))
    spec = TensorSpec(name="y", kind="tensor", dtype="float32", dims=(total, floor, Dim(role=Role.OTHER, constant=3)))
    assert terminal.shape_text(spec) == "[past_sequence_length + sequence_length, …, 3]"


def test_markup_in_a_name_is_shown_and_not_obeyed() -> None:
    assert "[bold red]x[/]" in shown(
        terminal.inspect(make.model_ref("[bold red]x[/]"), make.image_signature(), make.cost())
    )


def test_the_page_has_no_foreign_tag_and_no_way_out() -> None:
    page = html.page(*hostile())
    reader = read(page)
    assert set(reader.tags) <= {
        "html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer", "h1", "h2", "p", "b",
        "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "abbr", "sup", "span", "ul", "li",
        "figure", "svg", "text", "line", "polyline", "circle", "path", "rect", "details", "summary",
    }  # fmt: skip
    assert {"href", "src", "style", "xlink:href", "srcset"}.isdisjoint(name for name, _ in reader.attributes)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    page.encode("utf-8")


def test_the_page_forbids_itself_to_load_anything() -> None:
    found = swept()
    reader = read(html.page(run_of(found), found))
    policies = [value for name, value in reader.attributes if name == "content" and value and "default-src" in value]
    assert policies
    assert "default-src 'none'" in policies[0]
    assert "unsafe-inline" not in policies[0]
    assert "url(" not in "".join(reader.texts)
    assert "@import" not in "".join(reader.texts)


def test_markdown_has_no_raw_html_and_no_broken_table() -> None:
    page = markdown.summary(*hostile())
    assert not re.search(r"<\w", page)
    assert "\x1b" not in page
    assert not re.search(r"(?<!\\)\]\(", page)
    assert not re.search(r"(?<!\\):(?=//)", page)
    for table in re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    page.encode("utf-8")


@pytest.mark.parametrize("escape", [safe.terminal, safe.html, safe.markdown])
def test_harmless_text_stays_as_it_is(escape: object) -> None:
    assert callable(escape)
    assert escape("ResNet-50 v1.5 é 320 × 320") == "ResNet-50 v1.5 é 320 × 320"


def cells(found: Findings, title: str) -> list[str]:
    table = grid.points_grid(run_of(found), found)
    place = next(i for i, column in enumerate(table.columns) if column.title.startswith(title))
    return [row[place].text for row in table.rows]


def test_what_is_missing_is_a_dash_with_its_reason_and_never_zero() -> None:
    found = swept()
    table = grid.points_grid(run_of(found), found)
    for point, row in zip(found.points, table.rows, strict=True):
        if not point.state.is_measured:
            numbers = [cell for cell, column in zip(row, table.columns, strict=True) if column.is_number][2:]
            assert [cell.text for cell in numbers] == [units.MISSING] * len(numbers)
            assert all(cell.reason for cell in numbers)


def test_nan_is_shown_as_missing() -> None:
    odd = replace(make.point_finding(at(1)), p50_ns=Estimate(value=float("nan"), low=float("nan"), high=1.0))
    found = make.findings((odd, make.point_finding(at(2))))
    assert cells(found, "p50")[0] == units.MISSING
    for page in (html.page(run_of(found), found), markdown.summary(run_of(found), found)):
        assert not re.search(r"\bnan\b|\binf\b", page, flags=re.IGNORECASE)


def test_a_column_has_one_unit() -> None:
    small = make.findings((make.point_finding(at(1), 4e3), make.point_finding(at(2), 90e3)))
    mixed = make.findings((make.point_finding(at(1), 4e3), make.point_finding(at(2), 5e9)))
    large = make.findings((make.point_finding(at(1), 2e9), make.point_finding(at(2), 3e9)))
    assert cells(small, "p50 µs") == ["4.000 ± 0.040", "90.00 ± 0.90"]
    assert cells(mixed, "p50 ms") == ["0.004000 ± 0.000040", "5,000 ± 50"]
    assert cells(large, "p50 s") == ["2.000 ± 0.020", "3.000 ± 0.030"]


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(value=12.345e6, low=12.285e6, high=12.36e6), "12.35 ± 0.06"),
        (Estimate(value=12.345e6, low=12.3444e6, high=12.3459e6), "12.3450 ± 0.0009"),
        (Estimate(value=12.345e6, reason="one launch"), "12.35"),
        (Estimate(value=None, reason="skipped"), units.MISSING),
        (Estimate(value=0.0, low=0.0, high=0.0), "0 ± 0"),
    ],
)
def test_an_interval_is_shown_with_digits_that_mean_something(estimate: Estimate, expected: str) -> None:
    assert units.with_interval(estimate, units.MILLISECONDS) == expected


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_report_fits_its_terminal_and_cuts_no_number(width: int) -> None:
    found = swept()
    text = shown(terminal.bench(run_of(found), found), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    for number in cells(found, "p50"):
        assert number in text
    assert "shape_error" in text
    assert "Failed to allocate memory. Choose another size." in text


def test_points_that_share_a_story_share_a_note() -> None:
    found = swept()
    notes = grid.notes(run_of(found), found)
    assert [(note.points, note.state) for note in notes] == [
        (("batch 16", "batch 32"), "oom"),
        (("33 × 33",), "shape_error"),
    ]


def test_stories_that_differ_in_numbers_only_are_told_once() -> None:
    found = make.findings(
        (
            make.point_finding(at(1)),
            make.skipped_finding(at(2), PointState.TIMEOUT, "one call is expected to take 0.21 s"),
            make.skipped_finding(at(4), PointState.TIMEOUT, "one call is expected to take 0.41 s"),
        )
    )
    (note,) = grid.notes(run_of(found), found)
    assert note.points == ("batch 2", "batch 4")
    assert note.reason == "one call is expected to take 0.21 s (of batch 2; the others alike)"


def test_reasons_that_differ_in_numbers_only_share_a_footnote() -> None:
    few = [Estimate(value=None, reason=f"{n} samples are too few for p99") for n in (209, 75)]
    found = make.findings(tuple(replace(make.point_finding(at(n)), p99_ns=each) for n, each in enumerate(few, 1)))
    page = html.page(run_of(found), found)
    assert page.count("1. 209 samples are too few for p99 (others alike)") == 1
    assert '<abbr title="75 samples are too few for p99">' in page
    assert markdown.summary(run_of(found), found).count("samples are too few") == 1


@pytest.mark.parametrize(
    ("size_bytes", "expected"), [(1236, "1.21 KiB"), (22 * 2**20, "22.0 MiB"), (6 * 2**30, "6.00 GiB"), (None, "–")]
)
def test_a_size_says_its_unit(size_bytes: int | None, expected: str) -> None:
    assert units.size(size_bytes) == expected


def test_a_flag_is_told_beside_a_good_number() -> None:
    flagged = make.point_finding(at(1), flags=(Flag.NON_FINITE,))
    found = make.findings((flagged,))
    assert "non_finite" in shown(terminal.bench(run_of(found), found))
    assert "non_finite" in html.page(run_of(found), found)
    assert "non\\_finite" in markdown.summary(run_of(found), found)


def test_the_sweeps_are_found_and_ordered() -> None:
    found = swept()
    batch, resolution = points.sweeps(found.points, found.points[0].point, make.image_signature())
    assert [batch.label(each.point) for each in batch.points] == ["1", "2", "4", "8", "16", "32"]
    assert [resolution.label(each.point) for each in resolution.points] == ["32 × 32", "33 × 33", "64 × 64"]


def chart_of(found: Findings, sweep: int = 0, target_ns: float | None = None) -> ElementTree.Element:
    swept_points = points.sweeps(found.points, found.points[0].point, make.image_signature())[sweep]
    picture = charts.sweep_chart(swept_points, "Latency", units.MILLISECONDS, charts.LATENCIES, target_ns)
    assert picture is not None
    return ElementTree.fromstring(picture)  # noqa: S314 — our own text


def marks(picture: ElementTree.Element, css: str) -> list[ElementTree.Element]:
    return [each for each in picture.iter() if css in (each.get("class") or "").split()]


def test_a_chart_marks_every_number_and_every_missing_point() -> None:
    picture = chart_of(swept())
    assert len([each for each in marks(picture, "dot") if "first" in (each.get("class") or "")]) == 4
    assert len(marks(picture, "skip")) == 2
    assert "Failed to allocate memory" in (marks(picture, "skip")[0].findtext("title") or "")


def test_a_slower_point_stands_higher_and_a_larger_batch_further_right() -> None:
    dots = [each for each in marks(chart_of(swept()), "dot") if "first" in (each.get("class") or "")]
    places = [(float(each.get("cx", "nan")), float(each.get("cy", "nan"))) for each in dots]
    assert places == sorted(places, key=lambda place: (place[0], -place[1]))
    steps = [right[0] - left[0] for left, right in pairwise(places)]
    assert max(steps) - min(steps) < 0.3, "doublings are equally far apart"


def test_whiskers_enclose_their_point() -> None:
    picture = chart_of(swept())
    heights = {float(each.get("cy", "nan")) for each in marks(picture, "dot")}
    verticals = [each for each in marks(picture, "whisker") if each.get("x1") == each.get("x2")]
    assert len(verticals) == 12
    for each in verticals:
        low, high = float(each.get("y1", "nan")), float(each.get("y2", "nan"))
        assert any(high <= height <= low for height in heights)


def test_a_range_beyond_two_decades_gets_a_log_axis_that_says_so() -> None:
    near = make.findings((make.point_finding(at(1), 1e6), make.point_finding(at(2), 50e6)))
    far = make.findings((make.point_finding(at(1), 1e6), make.point_finding(at(2), 500e6)))
    assert "(log)" not in (marks(chart_of(near), "axis-title")[0].text or "")
    assert "(log)" in (marks(chart_of(far), "axis-title")[0].text or "")


def test_one_number_is_no_curve() -> None:
    found = make.findings((make.point_finding(at(1)), make.skipped_finding(at(2))))
    sweep = points.sweeps(found.points, at(1), make.image_signature())[0]
    assert charts.sweep_chart(sweep, "Latency", units.MILLISECONDS, charts.LATENCIES) is None


def test_the_target_is_drawn_where_it_is() -> None:
    picture = chart_of(swept(), target_ns=4e6)
    (line,) = marks(picture, "target")
    dots = [each for each in marks(picture, "dot") if "first" in (each.get("class") or "")]
    above = [each for each in dots if float(each.get("cy", "nan")) < float(line.get("y1", "nan"))]
    assert len(above) == 1


@pytest.mark.parametrize("highest", [0.003, 0.9, 1.0, 7.0, 99.0, 100.0, 123456.0])
def test_ticks_reach_the_highest_value_in_few_round_steps(highest: float) -> None:
    ticks = svg.linear_ticks(highest)
    assert ticks[0] == 0.0
    assert ticks[-2] < highest <= ticks[-1] * (1 + 1e-9)
    assert 3 <= len(ticks) <= 7


def test_labels_that_would_touch_are_left_out_but_never_the_last() -> None:
    chosen = svg.thinned([10.0, 20.0, 30.0, 100.0], ["128 × 128"] * 4)
    assert chosen == (True, False, False, True)


def test_names_that_would_touch_are_moved_apart() -> None:
    assert svg.spread([50.0, 49.0, 10.0], 11.0) == (60.0, 49.0, 10.0)


def test_a_model_without_axes_still_has_a_page() -> None:
    only = make.point_finding(make.point(), items=1)
    found = make.findings((only,), profiles=())
    run = replace(run_of(found), signature=make.image_signature(axes=()))
    assert "fixed" in shown(terminal.bench(run, found))
    assert "<svg" not in html.page(run, found)
    assert "fixed" in markdown.summary(run, found)


def test_nothing_measured_is_still_a_page() -> None:
    found = make.findings((make.skipped_finding(at(1), PointState.TIMEOUT, "no answer in 10 s"),), profiles=())
    run = replace(run_of(found), launches=(), profiles=())
    for page in (html.page(run, found), markdown.summary(run, found), shown(terminal.bench(run, found))):
        assert "no answer in 10 s" in page


def test_the_page_says_what_the_numbers_mean() -> None:
    found = swept()
    run = run_of(found, spec=BenchmarkSpec(launches=7, budget_s=33, seed=5))
    page = html.page(run, found)
    for said in (
        "7 fresh processes",
        "budget 33 s",
        "seed 5",
        make.SHA256,
        run.origin.run_id,
        "governor",
        "not readable",
    ):
        assert said in page


def slowest(finding: PointFinding) -> list[str]:
    nodes = tuple(make.node(f"n{i}", 10**6 // (i + 1), index=i) for i in range(20))
    picture = charts.node_bars(make.profile_finding(finding.point, nodes), most=8)
    assert picture is not None
    return [each.get("width", "") for each in marks(ElementTree.fromstring(picture), "bar")]  # noqa: S314 — our own text


def test_bars_are_as_long_as_their_share() -> None:
    widths = [float(width) for width in slowest(make.point_finding(at(1)))]
    assert len(widths) == 8
    assert widths == sorted(widths, reverse=True)
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.1)


def test_devices_are_listed_with_what_could_not_be_read() -> None:
    text = shown(terminal.devices((make.cpu_device(), make.gpu_device())), 80)
    assert make.gpu_device().id in text
    assert "14.8 GiB" in text
    assert "governor" in text
