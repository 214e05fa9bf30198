"""What a reader says when it cannot go on: refusals, the list they gather in, and how foreign text is quoted."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from rmsaudit.documents.nodes import Mark
from rmsaudit.errors import InputProblem, Problem

MOST_PROBLEMS = 100  # of one file; a hostile one could hold millions
LONGEST_QUOTE = 100
LONGEST_COMPARED = 128  # characters of a word that is looked up among known ones; difflib takes their square
NEAR = 0.65  # difflib's ratio from which a word counts as a slip of the pen


class Refused(Exception):
    """Input that is refused by code which does not know where it stands; whoever does makes a `Problem` of it."""

    def __init__(self, says: str, kind: str) -> None:
        super().__init__(says)
        self.says = says
        self.kind = kind


class Problems:
    """The problems of one file or flag, gathered so that all are reported at once."""

    def __init__(self, path: str, found: Iterable[Problem] = ()) -> None:
        self.path = path
        self.found = list(found)

    def add(self, mark: Mark | None, says: str, kind: str) -> None:
        """Raises InputProblem when there are too many to be of use."""
        self.found.append(problem_at(self.path, mark, says, kind))
        if len(self.found) == MOST_PROBLEMS:
            self.found.append(problem_at(self.path, mark, "there is more; mend these first", "too-many"))
            self.raise_any()

    def raise_any(self) -> None:
        """Raises InputProblem if any problem was added."""
        if self.found:
            raise InputProblem(self.found)


def problem_at(path: str, mark: Mark | None, says: str, kind: str) -> Problem:
    """A problem at a place in a file; about the whole file, or about a flag, where there is no mark."""
    if mark is None:
        return Problem(path=path, says=says, kind=kind)
    return Problem(path=path, line=mark.line, column=mark.column, says=says, kind=kind)


def quoted(text: str) -> str:
    """Foreign text as it may stand in a message: on one line, printable, of bounded length, between backticks."""
    return f"`{printable(text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + '…')}`"


def printable(text: str) -> str:
    """Foreign text that cannot begin a line of its own, or reach into a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Up to `count` of the known words that `word` may be a slip of the pen for, nearest first."""
    if len(word) > LONGEST_COMPARED:
        return []
    likeness = {candidate: _likeness(word.lower(), candidate.lower()) for candidate in known}
    near = [candidate for candidate, ratio in likeness.items() if ratio >= NEAR]
    return sorted(near, key=lambda candidate: -likeness[candidate])[:count]


def _likeness(word: str, candidate: str) -> float:
    """difflib's ratio, and more for a word that only says more: `epsilon` means eps, though eps_min is as near."""
    ratio = SequenceMatcher(None, candidate, word).ratio()
    return ratio + 0.2 * (len(candidate) >= 3 and word.startswith(candidate))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean …?`, or an empty string where nothing is near."""
    found = nearest(word, known)
    return f"did you mean {quoted(found[0])}?" if found else ""
