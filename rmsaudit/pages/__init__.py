"""Pages about causes, as text: `<cause>.md`.

What a cause is stands in the docstring of its module in `rmsaudit.causes`; the page adds the public cases. A cause that
is no change of variables, such as a broken belief, has no module, and its page begins with its one sentence.
"""

from functools import cache
from importlib import resources

from rmsaudit import causes


@cache
def names() -> tuple[str, ...]:
    """Every cause that something is known about."""
    here = {
        entry.name.removesuffix(".md") for entry in resources.files(__name__).iterdir() if entry.name.endswith(".md")
    }
    return tuple(sorted(here.union(causes.names())))


def summary(name: str) -> str:
    """One sentence. Raises KeyError for a name that is not in `names()`."""
    if name in causes.names():
        return causes.describe(name).summary
    return _file(name).partition("\n")[0]


def page(name: str) -> str:
    """The whole page, its sentence first. Raises KeyError for a name that is not in `names()`."""
    if name not in causes.names():
        return _file(name).strip()
    cause = causes.describe(name)
    more = _file(name) if resources.files(__name__).joinpath(f"{name}.md").is_file() else ""
    return "\n\n".join(part for part in (cause.summary, cause.page, more.strip()) if part)


def of_word(word: str) -> str | None:
    """The cause that `word` stands for: its name, or that of a variable with dashes or underscores; None for others."""
    if word in names():
        return word
    cause = causes.of_variable(word.replace("-", "_"))
    return cause if cause in names() else None


def _file(name: str) -> str:
    if name not in names():
        raise KeyError(name)
    return resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
