"""pydantic's errors in our words, each at the node it is about."""

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.source import parse
from rmsaudit.errors import InputProblem


class Limits(BaseModel):
    model_config = ConfigDict(strict=True)
    above: float = Field(1, gt=0)
    least: int = Field(1, ge=1)
    below: float = Field(0, lt=1)
    most: float = Field(0, le=1)
    items: tuple[Annotated[float, Field(ge=0)], ...] = Field((), min_length=2)
    pattern: str = Field("x", pattern="^x+$")
    either: Annotated[float, Field(gt=0)] | tuple[Annotated[int, Field(ge=1)], ...] | None = None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("above: 0.0", "1:8: above must be above 0, and it is `0.0`; write another number [out-of-range]"),
        ("least: 0", "1:8: least must be at least 1, and it is `0`; write another number [out-of-range]"),
        ("below: 1", "1:8: below must be below 1, and it is `1`; write another number [out-of-range]"),
        ("most: 1.5", "1:7: most must be at most 1, and it is `1.5`; write another number [out-of-range]"),
        ("items: [1, -1]", "1:12: items[1] must be at least 0, and it is `-1`; write another number [out-of-range]"),
        ("items: [1]", "1:8: items is too short; write at least 2 [too-short]"),
        ("pattern: y", "1:10: pattern: String should match pattern '^x+$' [string-pattern-mismatch]"),
        ("either: -1", "1:9: either must be above 0, and it is `-1`; write another number [out-of-range]"),
        ("either: [1, 0]", "1:13: either[1] must be at least 1, and it is `0`; write another number [out-of-range]"),
    ],
)
def test_each_error_once_in_our_words_and_at_its_node(text: str, said: str) -> None:
    with pytest.raises(InputProblem) as caught:
        read_model(Limits, parse(text.encode(), "f.yaml"))
    assert str(caught.value) == f"f.yaml:{said}"
