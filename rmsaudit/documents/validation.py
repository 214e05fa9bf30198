"""What pydantic found, in our words and at the node it is about."""

from typing import Any

from pydantic import ValidationError

from rmsaudit.documents.nodes import Mapping, Node, Scalar, child
from rmsaudit.documents.problems import Problems, quoted


def report(error: ValidationError, node: Mapping, name: str, problems: Problems, *, whole: bool) -> None:
    """Adds pydantic's errors about one model, each at the node it is about.

    whole: every key was there and readable; otherwise what follows from the gaps was said already.
    """
    by_key: dict[int | str, list[Any]] = {}
    for details in error.errors(include_url=False):
        if whole or (details["loc"] and details["type"] != "missing"):
            by_key.setdefault(next(iter(details["loc"]), ""), []).append(details)
    for about in by_key.values():
        spoken: list[Node] = []  # one problem a node: the branches of a union each have their own
        for details in [d for d in about if not _is_noise(d["type"])] or about[:1]:
            target, target_name = _follow(node, name, details["loc"])
            if not any(target is before for before in spoken):
                problems.add(target.mark, *_worded(details, target, target_name))
                spoken.append(target)


def _is_noise(kind: str) -> bool:
    """True for what says nothing where the same key has another error.

    Types were settled before, so a type error is the other branch of a union speaking; and a list whose items are
    refused is too short only because they are.
    """
    return kind.endswith("_type") or kind in ("literal_error", "too_short")


def _follow(node: Node, name: str, location: tuple[int | str, ...]) -> tuple[Node, str]:
    """The node a location leads to, and its name; what is no key or index there names a branch of a union."""
    for step in location:
        if (inner := child(node, step)) is not None:
            node, name = inner, step if isinstance(step, str) else f"{name}[{step}]"
    return node, name


_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _worded(details: Any, node: Node, name: str) -> tuple[str, str]:
    """A pydantic error in our words, and its kind."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in _BOUNDS:
        side, limit = _BOUNDS[kind]
        stands = quoted(node.text) if isinstance(node, Scalar) else details["input"]
        return f"{name} must be {side} {context[limit]:g}, and it is {stands}; write another number", "out-of-range"
    if kind in ("too_short", "string_too_short"):
        least = context["min_length"]
        says = f"{name} is empty; fill it in" if least == 1 else f"{name} is too short; write at least {least}"
        return says, "too-short"
    says = str(context["error"]) if kind == "value_error" else details["msg"]
    return f"{name}: {says}", kind.replace("_", "-")
