"""The neighbourhood drawn: layers in order, nothing on top of anything, mouse and keys."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from vramscope.messages.neighbours import LinkInfo, NeighbourInfo, NeighboursInfo, NeighboursParams
from vramscope_app.panels.graph import BoxItem
from vramscope_app.rows.graph_layout import HEIGHT, WIDTH, Picture, arrange

if TYPE_CHECKING:
    import pytest
    from tests.app.conftest import Script

LINKS = ((0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (0, 5))


def info(links: tuple[tuple[int, int], ...] = LINKS, size: int = 6) -> NeighboursInfo:
    names = ("/model/embed/Gather", "n1", "/model/layers.0/attn/GQA", "n3", "n4", "/lm_head/MatMul")
    return NeighboursInfo(
        ticket=1,
        phase="decode",
        step=2,
        hops=2,
        nodes=[
            NeighbourInfo(step=step, name=names[step], operator="Add", kernel="host", bytes=64, hops=step - 2)
            for step in range(size)
        ],
        links=[LinkInfo(source=a, target=b, value=f"v{a}{b}", shape="1×64") for a, b in links],
        left_out=3,
    )


def test_a_node_stands_right_of_all_it_reads_and_boxes_never_meet() -> None:
    picture = arrange(info())
    place = {box.node.step: box for box in picture.boxes}
    assert all(place[a].x < place[b].x for a, b in LINKS)
    for one, other in combinations(picture.boxes, 2):
        assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT


def test_a_far_link_passes_through_the_gaps() -> None:
    picture = arrange(info())
    far = next(wire for wire in picture.wires if wire.link.value == "v05")
    assert len(far.points) > 2
    for x, y in far.points[1:-1]:
        assert not any(abs(box.x - x) < WIDTH / 2 and abs(box.y - y) < HEIGHT / 2 for box in picture.boxes)


def test_crossings_that_need_not_be_are_swept_out() -> None:
    picture = arrange(info(((0, 4), (1, 3)), size=5))
    place = {box.node.step: box.y for box in picture.boxes}
    assert (place[0] - place[1]) * (place[4] - place[3]) > 0


def test_neighbours_by_direction_and_nothing_beyond_the_edge() -> None:
    picture = arrange(info())
    assert picture.beside(2, 1, 0) in (3, 4)
    assert picture.beside(2, -1, 0) in (0, 1)
    assert picture.beside(5, 1, 0) == 5
    assert {picture.beside(3, 0, 1), picture.beside(3, 0, -1)} == {3, 4}
    assert arrange(info((), size=0)) == Picture()


def test_the_chosen_node_s_neighbours_are_asked_drawn_and_gone_to(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.open()
    script.plan()
    window = script.window
    window.graph.seen = True
    sent: list[NeighboursParams] = []

    def call(method: str, params: NeighboursParams) -> int:
        if method == "neighbours":
            sent.append(params)
        return 1

    monkeypatch.setattr(script.client, "call", call)
    assert window.nodes.jump("/model/layers.0/attn/GQA")
    assert (sent[-1].step, sent[-1].hops) == (2, 2)
    window.graph.hops.setValue(3)
    assert sent[-1].hops == 3
    script.answer("neighbours", sent[-1], info())
    graph = window.graph
    assert len([item for item in graph.scene.items() if isinstance(item, BoxItem)]) == 6
    assert "6 nodes in decode, 3 more nodes left out" in graph.words.text()
    view = graph.view
    window.activateWindow()
    window.actions_by_id["neighbours"].trigger()
    assert view.hasFocus()
    for _ in range(3):
        QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.current == 5
    assert "/lm_head/MatMul" in view.accessibleDescription()
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert window.nodes.chosen_step() == ("decode", 5)
    before = view.transform().m11()
    QTest.keyClick(view, Qt.Key.Key_Minus)
    assert view.transform().m11() < before
    window.actions_by_id["theme"].trigger()
    assert len([item for item in graph.scene.items() if isinstance(item, BoxItem)]) == 6
