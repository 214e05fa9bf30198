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
    "rms_norm_epsilon",
    "rmsnorm_eps",
    "rmsnorm_epsilon",
    "rms_eps",
    "rms_epsilon",
    "layer_norm_rms_epsilon",
    "layer_norm_rms_eps",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "layernorm_epsilon",
    "layernorm_eps",
    "ln_eps",
    "ln_epsilon",
    "norm_eps",
    "norm_epsilon",
    "norm_layer_eps",
    "normalization_layer_epsilon",
    "model_norm_eps",
    "post_norm_eps",
    "variance_epsilon",
)
"""Names that configurations give the eps of their norms, the plainest first: those of transformers 5.24, of GPT-NeoX,
Megatron-LM, MaxText and GGUF, and others that published configurations have."""

LAST_RESORT = ("eps", "epsilon")  # an optimiser's or a loss's as often as a norm's

NESTED = "text_config"  # where multimodal models keep their language model's settings


def eps_of_config(path: Path) -> tuple[float, str]:
    """eps as a float64, and the key it stands under (`text_config.` before it where it is nested). Raises Refused.

    Keys that hold null give nothing. Several keys are fine as long as they agree.
    """
    found = dict(_eps_values(strict_json.loads(read_bytes(path))))
    if not found:
        raise Refused(f"gives no eps; looked for {some_keys()}, there and in {NESTED}; write the number", "no-eps")
    for key, value in found.items():
        check_eps(key, value)
    if len(set(found.values())) > 1:
        values = " and ".join(f"{key} is {value!r}" for key, value in found.items())
        raise Refused(
            f"gives eps more than once, and not the same: {values}; write the number that is used", "eps-disagrees"
        )
    key, value = next(iter(found.items()))
    return float(value), key


def some_keys() -> str:
    """The plainest of EPS_KEYS, and how many more there are, for a message."""
    return f"rms_norm_eps, layer_norm_epsilon, norm_eps and {len(EPS_KEYS) - 3} more spellings"


def _eps_values(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    nested = config.get(NESTED)
    for prefix, section in (("", config), (f"{NESTED}.", nested if isinstance(nested, dict) else {})):
        for key in EPS_KEYS:
            if section.get(key) is not None:
                yield prefix + key, section[key]


def check_eps(key: str, value: Any) -> None:
    """Raises Refused for what is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"gives {key} as {quoted(f'{value!r}')}, which is no number; mend it there", "not-a-number")
    if not 0 < value <= float_info.max:  # false for NaN too
        raise Refused(f"gives {key} as {quoted(f'{value!r}')}; eps must be a finite number above 0", "out-of-range")
