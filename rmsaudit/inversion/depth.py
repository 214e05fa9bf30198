"""How many additions the most travelled term of a sum goes through, in each order of `semantics.orders`."""

from functools import cache

import numpy as np

from rmsaudit.semantics.orders import sum_last_axis


class _Depth:
    """A partial sum that only counts its roundings. Adding a plain 0 is exact, so it does not count."""

    def __init__(self, additions: int) -> None:
        self.additions = additions

    def __add__(self, other: object) -> "_Depth":
        if isinstance(other, _Depth):
            return _Depth(1 + max(self.additions, other.additions))
        return self

    __radd__ = __add__


@cache
def depth(order: str, terms: int) -> int:
    """The h of (1 + δ)^h: a sum of `terms` numbers of one sign is off by h roundings at most, relative.

    Found by running the order itself on numbers that count, so the two cannot part ways. `exact` rounds once.
    """
    if order == "exact":
        return 1
    counters = np.array([[_Depth(0) for _ in range(terms)]], dtype=object)
    total = sum_last_axis(counters, order)[0, 0]
    return total.additions if isinstance(total, _Depth) else 0
