"""What pydantic found, in our words and at the node it is about."""

from typing import Any

from pydantic import ValidationError

from rmsaudit.documents.nodes import Mapping, Node, Scalar, child
from rmsaudit.documents.problems import Problems, quoted


def report(error: ValidationError, node: Mapping, name: str, problems: Problems, *, whole: bool) -> None:
    """Adds pydantic's errors about one model, each at the node it is about.

    whole: every key was there and readable; otherwise what follows from the gaps was said already. Types were settled
    before, so a type error is the other branch of a union speaking: it counts only where nothing else is said.
    """
    found: dict[int, tuple[Node, str, list[Any]]] = {}
    for details in error.errors(include_url=False):
        if whole or (details["loc"] and details["type"] != "missing"):
            target, target_name = _follow(node, name, details["loc"])
            found.setdefault(id(target), (target, target_name, []))[2].append(details)
    for target, target_name, about in found.values():
        details = next((d for d in about if not d["type"].endswith(("_type", "literal_error"))), about[0])
        problems.add(target.mark, *_worded(details, target, target_name))


def _follow(node: Node, name: str, location: tuple[int | str, ...]) -> tuple[Node, str]:
    """The node a location leads to, and its name; what is no key or index (a branch of a union) ends the way."""
    for step in location:
        if (inner := child(node, step)) is None:
            break
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
