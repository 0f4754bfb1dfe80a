"""Areas of a profile: they fill the picture in proportion, and hostile names stay text."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factories as make
from onnxdyno.reporting.treemap import Box, node_areas, squarified


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=40))
def test_boxes_fill_the_whole_in_proportion(sizes: list[float]) -> None:
    ordered = sorted(sizes, reverse=True)
    whole = Box(x=10, y=20, width=300, height=200)
    boxes = squarified(ordered, whole)
    for size, box in zip(ordered, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size / sum(ordered) * 60_000, rel=1e-6)
        assert box.x >= 10 - 1e-6
        assert box.x + box.width <= 310 + 1e-6
        assert box.y >= 20 - 1e-6
        assert box.y + box.height <= 220 + 1e-6


def test_boxes_do_not_overlap() -> None:
    boxes = squarified([6, 6, 4, 3, 2, 2, 1], Box(x=0, y=0, width=6, height=4))
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart_x = one.x + one.width <= other.x + 1e-9 or other.x + other.width <= one.x + 1e-9
            apart_y = one.y + one.height <= other.y + 1e-9 or other.y + other.height <= one.y + 1e-9
            assert apart_x or apart_y


def test_a_hostile_name_stays_text() -> None:
    point = make.point(batch=1)
    nodes = (make.node("</title><script>x</script>", 600_000), make.node("b", 100_000, index=1))
    picture = node_areas(make.profile_finding(point, nodes))
    assert picture is not None
    assert "<script" not in picture
    assert len(ET.fromstring(picture).findall("rect")) >= 3  # noqa: S314  our own text


def test_a_profile_without_times_has_no_picture() -> None:
    assert node_areas(replace(make.profile_finding(make.point(batch=1)), nodes=())) is None


def test_a_box_with_room_names_its_node_and_a_type_without_room_stands_below() -> None:
    nodes = (
        make.node("/model.2/cv1/conv/Conv_output_0_nchwc", 900_000),
        *(make.node(f"s{place}", 4_000, index=place, op_type=f"SmallOperator{place}") for place in range(1, 20)),
    )
    picture = node_areas(make.profile_finding(make.point(batch=1), nodes))
    assert picture is not None
    texts = [each.text or "" for each in ET.fromstring(picture).findall("text")]  # noqa: S314  our own text
    assert "/model.2/cv1" in texts
    assert "SmallOperator1 0.4 %" in texts
    assert texts[-1] == f"and {19 - sum(text.startswith('Small') for text in texts)} more"
