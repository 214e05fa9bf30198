"""What a reader says when it cannot go on: refusals, the list they gather in, and how foreign text is quoted."""

from collections.abc import Iterable
from difflib import get_close_matches

from rmsaudit.documents.nodes import Mark
from rmsaudit.errors import InputProblem, Problem

MOST_PROBLEMS = 100  # of one file; a hostile one could hold millions
LONGEST_QUOTE = 60
LONGEST_COMPARED = (
    128  # characters of a word that is looked up among known ones: difflib's time grows with their square
)


class Refused(Exception):
    """Input that is refused by code which does not know where it stands; whoever does makes a `Problem` of it."""

    def __init__(self, says: str, kind: str) -> None:
        super().__init__(says)
        self.says = says
        self.kind = kind


class Problems:
    """The problems of one file or flag, gathered so that all are reported at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Problem] = []

    def add(self, mark: Mark | None, says: str, kind: str) -> None:
        """Raises InputProblem when there are too many to be of use."""
        self.found.append(_problem(self.path, mark, says, kind))
        if len(self.found) == MOST_PROBLEMS:
            self.found.append(_problem(self.path, mark, "there is more; mend these first", "too-many"))
            self.raise_any()

    def raise_any(self) -> None:
        """Raises InputProblem if any problem was added."""
        if self.found:
            raise InputProblem(self.found)


def _problem(path: str, mark: Mark | None, says: str, kind: str) -> Problem:
    if mark is None:
        return Problem(path=path, says=says, kind=kind)
    return Problem(path=path, line=mark.line, column=mark.column, says=says, kind=kind)


def quoted(text: str) -> str:
    """Foreign text as it may stand in a message: on one line, printable, of bounded length, between backticks."""
    if len(text) > LONGEST_QUOTE:
        text = text[: LONGEST_QUOTE - 1] + "…"
    if not text.isprintable():
        text = repr(text)[1:-1]
    return f"`{text}`"


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Up to `count` of the known words that `word` may be a slip of the pen for, nearest first."""
    if len(word) > LONGEST_COMPARED:
        return []
    by_lower = {k.lower(): k for k in known}
    return [by_lower[match] for match in get_close_matches(word.lower(), by_lower, n=count)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean …?`, or an empty string where nothing is near."""
    found = nearest(word, known)
    return f"did you mean {quoted(found[0])}?" if found else ""
