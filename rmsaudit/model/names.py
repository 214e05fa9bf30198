"""Many module paths in few words: `model.layers.{0-3}.input_layernorm`."""

import re
from collections.abc import Iterable, Sequence

from rmsaudit.activations.layers import runs_of

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def compact(names: Iterable[str]) -> tuple[str, ...]:
    """The names with those that differ in one number written as one, in the order of their first member.

    Only a part of the path that is all digits counts as a number. What differs in several numbers is gathered along the
    first of them.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for name in names:
        numbers = list(_NUMBER.finditer(name))
        if not numbers:
            groups[(name,)] = []
            continue
        first = numbers[0]
        groups.setdefault((name[: first.start()], name[first.end() :]), []).append(int(first.group()))
    return tuple(_written(key, numbers) for key, numbers in groups.items())


def _written(key: Sequence[str], numbers: list[int]) -> str:
    if not numbers:
        return key[0]
    before, after = key
    if len(numbers) == 1:
        return f"{before}{numbers[0]}{after}"
    return f"{before}{{{','.join(_ranges(sorted(numbers)))}}}{after}"


def _ranges(numbers: list[int]) -> list[str]:
    """Sorted numbers as runs: 0-3, 5, 7-8."""
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs_of(numbers)]
