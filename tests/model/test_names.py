"""Many module paths in few words."""

import pytest

from rmsaudit.model.names import compact


@pytest.mark.parametrize(
    ("names", "few"),
    [
        (["a.0.n", "a.1.n", "a.2.n"], ("a.{0-2}.n",)),
        (["a.0.n", "a.0.m", "a.1.n", "a.1.m", "z"], ("a.{0-1}.n", "a.{0-1}.m", "z")),
        (["a.3.n", "a.1.n", "a.0.n", "a.7.n"], ("a.{0-1,3,7}.n",)),
        (["a.4.n"], ("a.4.n",)),
        (["v.blocks.2.norm1", "v.blocks.3.norm1"], ("v.blocks.{2-3}.norm1",)),
        (["e.0.x.1.n", "e.1.x.1.n", "e.0.x.2.n"], ("e.{0-1}.x.1.n", "e.0.x.2.n")),
        ([], ()),
    ],
)
def test_paths_that_differ_in_one_number_become_one(names, few):
    assert compact(names) == few


def test_a_number_inside_a_word_is_not_a_layer():
    assert compact(["ln1", "ln2"]) == ("ln1", "ln2")
