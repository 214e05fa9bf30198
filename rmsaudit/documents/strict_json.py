"""JSON that other programs wrote, refused where it is ambiguous."""

import json
from typing import Any

from rmsaudit.documents.problems import Refused, quoted


def loads(data: bytes) -> dict[str, Any]:
    """The object that UTF-8 bytes hold. Raises Refused for what is no JSON object, and for a key given twice.

    NaN and Infinity are let through, as Python writes them (the configs of Mamba models hold Infinity).
    """
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        says = f"is not JSON at {error.lineno}:{error.colno} ({error.msg}); mend it there"
        raise Refused(says, "bad-json") from None
    except UnicodeDecodeError as error:
        raise Refused(f"is not UTF-8 at byte {error.start}; save it as UTF-8", "not-utf8") from None
    except RecursionError:
        raise Refused("is nested too deeply for a reader; flatten it", "too-deep") from None
    except ValueError:  # Python's limit for integers
        raise Refused("holds a number of thousands of digits; mend it", "bad-json") from None
    if not isinstance(value, dict):
        raise Refused("is not a JSON object; name another file", "bad-json")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Refused(f"gives {quoted(key)} twice; keep one of them", "duplicate-key")
        found[key] = value
    return found
