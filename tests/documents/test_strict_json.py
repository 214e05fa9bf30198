"""JSON of other programs."""

import pytest

from rmsaudit.documents.problems import Refused
from rmsaudit.documents.strict_json import loads


def test_an_object() -> None:
    assert loads(b'\xef\xbb\xbf{"a": [1, Infinity]} \n') == {"a": [1, float("inf")]}


@pytest.mark.parametrize(
    ("data", "says", "kind"),
    [
        (b'{"a": 1,\n "b" 2}', "is not JSON at 2:6 (Expecting ':' delimiter); mend it there", "bad-json"),
        (b"", "is not JSON at 1:1 (Expecting value); mend it there", "bad-json"),
        (b"[1]", "is not a JSON object; name another file", "bad-json"),
        (b'{"a": {"b": 1, "b": 1}}', "gives `b` twice; keep one of them", "duplicate-key"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7; save it as UTF-8", "not-utf8"),
        (b'{"a": ' * 100_000, "is nested too deeply for a reader; flatten it", "too-deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number of thousands of digits; mend it", "bad-json"),
    ],
    ids=["syntax", "empty", "list", "twice", "latin-1", "deep", "digits"],
)
def test_refused(data: bytes, says: str, kind: str) -> None:
    with pytest.raises(Refused) as caught:
        loads(data)
    assert (caught.value.says, caught.value.kind) == (says, kind)
