"""Finding one's way in a tree."""

from rmsaudit.documents.nodes import Mark, Scalar
from rmsaudit.documents.source import parse

TREE = parse(b"rules:\n  - {atol: 1e-6}\n0x: {}\n", "f.yaml")


def test_keys_and_indices_lead_to_a_node() -> None:
    assert TREE.at("rules", 0, "atol") == Scalar("1e-6", plain=True, mark=Mark(2, 12))
    assert TREE.mark_of("rules", 0) == Mark(2, 5)
    assert TREE.at() is TREE.root


def test_what_is_not_there_is_none() -> None:
    for steps in (
        ("rule",),
        ("rules", 1),
        ("rules", -1),
        ("rules", "atol"),
        ("rules", 0, 0),
        ("rules", 0, "atol", "x"),
    ):
        assert TREE.at(*steps) is None
        assert TREE.mark_of(*steps) is None
