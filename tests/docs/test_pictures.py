"""The pictures of the pages: each is shown, and drawn by docs/pictures/draw.py."""

from __future__ import annotations

import re
import runpy
from xml.etree import ElementTree

import pytest
from pages import PAGES, PROJECT

FOLDER = PROJECT / "docs" / "pictures"
DRAWN = runpy.run_path(str(FOLDER / "draw.py"))
SVG = "{http://www.w3.org/2000/svg}"


def test_every_picture_is_drawn_and_shown_with_a_text() -> None:
    shown = {
        (page.parent / target).resolve(): text
        for page in PAGES
        for text, target in re.findall(r"!\[(.*?)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    committed = {path for path in FOLDER.iterdir() if path.suffix in (".png", ".svg")}
    assert set(shown) == committed
    assert {path.name for path in committed} == set(DRAWN["PICTURES"])
    assert all(len(text) > 20 for text in shown.values())


@pytest.mark.parametrize("name", sorted(DRAWN["PICTURES"]))
def test_picture_is_whole_and_small(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    assert 4_000 < len(data) < 200_000
    if name.endswith(".svg"):
        assert ElementTree.fromstring(data).tag == f"{SVG}svg"
    else:
        assert data.startswith(b"\x89PNG")
        assert data.endswith(b"IEND\xaeB`\x82")


def test_timeline_has_a_box_for_each_phase_and_one_scale() -> None:
    def steps(begin: float, seconds: float) -> list[list[tuple[str, float, float]]]:
        times = [begin + seconds * number for number in range(7)]
        phases = ("compute", "exchange", "update") * 2
        boxes = list(zip(phases, times, times[1:]))
        return [boxes[:3], boxes[3:]]

    rows = [("one process", steps(50.0, 0.2)), ("rank 0", steps(90.0, 0.1)), ("rank 1", steps(90.05, 0.1))]
    text = DRAWN["timeline_of"](rows)
    boxes = [box for box in ElementTree.fromstring(text).iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    assert len(boxes) == 18
    left = [float(box.get("x", "")) for box in boxes]
    width = [float(box.get("width", "")) for box in boxes]
    # Each run begins at 0, and its ranks as far apart as they were.
    assert left[0] == left[6] == DRAWN["LEFT"]
    assert left[12] - left[6] == pytest.approx(width[6] / 2, abs=0.2)
    assert width[0] == pytest.approx(2 * width[6], abs=0.2)
