"""What a capture left out, in the tree as in the table of declines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.story.conftest import Story


def test_every_node_that_declined_is_a_seam_in_the_tree_and_no_other_is(story: Story) -> None:
    story.open("declines")
    story.do("prefill")
    story.do("steps", count=2)
    story.do("capture")
    capture = story.state.capture
    assert capture is not None
    table = story.window.nodes.model.table
    paths = dict(zip(table.column("name"), table.column("path"), strict=True))
    seams = {name: path.partition(" · ")[2] for name, path in paths.items() if " · " in path}
    assert seams == {item.node: item.seam for item in capture.declines}
    assert sum(path == "captured" for path in paths.values()) == capture.nodes_captured
    story.window.nodes.search.setText("path:seam")
    story.window.nodes._filter()
    assert story.window.nodes.model.shown == len(seams)
