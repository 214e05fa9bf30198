"""eps from a Hugging Face config.json."""

from collections.abc import Iterator
from pathlib import Path
from sys import float_info
from typing import Any

from rmsaudit.documents import strict_json
from rmsaudit.documents.files import read_bytes
from rmsaudit.documents.problems import Refused, quoted

EPS_KEYS = (
    "rms_norm_eps",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "layernorm_epsilon",
    "norm_eps",
    "norm_epsilon",
    "layer_norm_rms_epsilon",
)
"""Names that model classes give their norm's eps (implementations in transformers 5.24, field 20 of its catalogue)."""

NESTED = "text_config"  # where multimodal models keep their language model's settings


def eps_of_config(path: Path) -> tuple[float, str]:
    """eps as a float64, and the key it stands under (`text_config.` before it where it is nested). Raises Refused.

    Keys that hold null give nothing. Several keys are fine as long as they agree.
    """
    found = dict(_eps_values(strict_json.loads(read_bytes(path))))
    if not found:
        raise Refused(
            f"gives no eps; looked for {', '.join(EPS_KEYS)}, there and in {NESTED}; write the number", "no-eps"
        )
    for key, value in found.items():
        _check(key, value)
    if len(set(found.values())) > 1:
        values = " and ".join(f"{key} is {value!r}" for key, value in found.items())
        raise Refused(
            f"gives eps more than once, and not the same: {values}; write the number that is used", "eps-disagrees"
        )
    key, value = next(iter(found.items()))
    return float(value), key


def _eps_values(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    nested = config.get(NESTED)
    for prefix, section in (("", config), (f"{NESTED}.", nested if isinstance(nested, dict) else {})):
        for key in EPS_KEYS:
            if section.get(key) is not None:
                yield prefix + key, section[key]


def _check(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"gives {key} as {quoted(f'{value!r}')}, which is no number; mend it there", "not-a-number")
    if not 0 < value <= float_info.max:  # false for NaN too
        raise Refused(f"gives {key} as {quoted(f'{value!r}')}; eps must be a finite number above 0", "out-of-range")
