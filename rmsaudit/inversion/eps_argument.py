"""What a box does with an eps that it is asked for: uses, rounds or ignores it, or raises it to a hidden minimum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rmsaudit.arrays import round_to
from rmsaudit.inversion.decimals import Written, written
from rmsaudit.inversion.eps_reading import Placed

Use = Literal["used", "rounded", "minimum", "ignored", "changed", "not observable"]


@dataclass(frozen=True)
class EpsArgument:
    """asked: each eps that was asked for, with the one that acted. value: the hidden minimum, or what acts instead.

    used: every asked one acted, as far as can be seen. rounded: after rounding to `dtype`. minimum: those below `value`
    were replaced by it. ignored: the same `value` acted every time (None: no eps did). changed: none of these.
    """

    use: Use
    asked: tuple[tuple[float, Placed], ...]
    value: Written | None = None
    dtype: str | None = None


def compare(asked: Sequence[tuple[float, Placed]], narrow: Sequence[str]) -> EpsArgument:
    """From the eps that acted for each one asked, all under one placement. At least two of `asked` should differ much.

    narrow: dtypes that eps may be rounded to, likeliest first.
    """
    pairs = tuple(sorted(asked, key=lambda pair: pair[0]))
    replaced = [(eps, acted) for eps, acted in pairs if not acted.contains(eps)]
    if not replaced:
        seen = any(acted.lo > 0 for _, acted in pairs)
        return EpsArgument("used" if seen else "not observable", pairs)
    for dtype in narrow:
        if all(acted.contains(float(round_to(np.asarray(eps), dtype))) for eps, acted in pairs):
            return EpsArgument("rounded", pairs, dtype=dtype)
    lo, hi = max(acted.lo for _, acted in replaced), min(acted.hi for _, acted in replaced)
    if lo > hi or len(pairs) == 1:
        return EpsArgument("changed", pairs)
    value = written(lo, hi, narrow=narrow)
    if all(acted.lo <= hi and acted.hi >= lo for _, acted in pairs):
        return EpsArgument("ignored", pairs, value=value)
    kept = [eps for eps, acted in pairs if acted.contains(eps)]
    if all(eps < lo for eps, _ in replaced) and all(eps >= lo for eps in kept):
        return EpsArgument("minimum", pairs, value=value)
    return EpsArgument("changed", pairs)
