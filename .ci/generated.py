"""Keeps what is generated true: JSON Schemas, the tables in docs/, and every command shown with its output.

    python .ci/generated.py            rewrite
    python .ci/generated.py --check    compare; exit 1 and name the files that are stale

In Markdown, `<!-- table: NAME -->` … `<!-- end -->` holds a generated table, and a ```console block whose first line
begins with `$ ` holds a command and, below it, exactly what it prints (its first lines, after `| head -N`). Commands
run in the top folder.
"""

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TOP = Path(__file__).parent.parent
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
CONSOLE = re.compile(r"(```console\n)(\$ (?:[^\n]*\\\n)*[^\n]*\n)(.*?)(```)", re.DOTALL)
HEAD = re.compile(r" \| head -(\d+)\s*$")


def variables() -> Iterator[tuple[str, ...]]:
    """Every variable of a norm."""
    from rmsaudit.semantics import variables as all_variables

    yield "variable", "stage", "values", "default", "meaning"
    for v in all_variables().values():
        values = ", ".join(v.words) if v.kind == "word" else " or ".join((v.kind, *v.words[:1] * (v.kind == "number")))
        default = {None: "must be given", True: "true", False: "false", (-1,): "[-1]"}.get(v.default, v.default)
        yield f"`{v.name}`", v.stage, values, f"{default}", v.means


def categories() -> Iterator[tuple[str, ...]]:
    """Every category of the battery."""
    from rmsaudit import battery

    yield "category", "holds", "reveals"
    for name in battery.names():
        category = battery.describe(name)
        yield f"`{name}`", category.summary, ", ".join(category.reveals)


def presets() -> Iterator[tuple[str, ...]]:
    """Every preset, and where it was read."""
    from rmsaudit.documents.preset import preset_names, read_preset

    yield "preset", "computes", "read at"
    for name in preset_names():
        preset = read_preset(name)
        yield f"`{name}`", preset.about, f"{preset.source.project} {preset.source.version}, `{preset.source.file}`"


def rules() -> Iterator[tuple[str, ...]]:
    """Every rule of a tolerance file."""
    from rmsaudit.tolerance import RULES

    yield "rule", "passes when"
    for name, rule in RULES.items():
        yield f"`{name}`", " ".join((rule.__doc__ or "").split())


def behaviours() -> Iterator[tuple[str, ...]]:
    """Every behaviour of a side that runs code."""
    from rmsaudit.behaviours import describe, names

    yield "behaviour", "a side that keeps it", "finding when it is broken"
    for behaviour in map(describe, names()):
        yield f"`{behaviour.name}`", behaviour.keeps, f"`{behaviour.cause}`"


def implementations() -> Iterator[tuple[str, ...]]:
    """Every live implementation beside its preset, and for which dtypes it does what."""
    yield "implementation", "measured with", "preset", "input and gain", "verdict"
    for found in stored("results").values():
        by_verdict: dict[str, list[str]] = {}
        for pair, verdict in found["pairs"].items():
            by_verdict.setdefault(verdict, []).append(pair.replace(" ", "+"))
        for verdict, pairs in by_verdict.items():
            named = f"all {len(pairs)} pairs" if len(pairs) == 8 else ", ".join(pairs)
            yield found["name"], found["version"], f"`{found['preset']}`", named, verdict


def classes() -> Iterator[tuple[str, ...]]:
    """transformers' norm classes by behaviour."""
    found = stored("transformers-classes")
    yield "preset", "classes", "which"
    groups = [(f"`{preset}`", names) for preset, names in found["presets"].items()]
    groups += [("none of these", names) for names in found["none of these"]]
    for preset, names in sorted(groups, key=lambda group: -len(group[1])):
        which = ", ".join(name.partition(".")[2] for name in names[:12])
        yield preset.replace(", ", "`, `"), str(len(names)), which + (" …" if len(names) > 12 else "")


def architectures() -> Iterator[tuple[str, ...]]:
    """Every architecture whose norms are known: where eps is from, how its kinds of norms are computed."""
    from rmsaudit.documents.sites.known import ARCHITECTURES

    yield "`model_type`", "eps", "kinds of norms", "computed as", "GGUF"
    for known in (each for each in ARCHITECTURES if not each.remark):
        presets = dict.fromkeys(f"`{norm.preset or known.preset}`" for norm in known.norms)
        parts = [f"its `{tower.section}`" for tower in known.towers]
        constant = {f"{norm.eps:g}" for norm in known.norms if isinstance(norm.eps, float)}
        fixed = len([norm for norm in known.norms if isinstance(norm.eps, float)])
        keys = {norm.eps.name for norm in known.norms if norm.eps and not isinstance(norm.eps, float)}
        keys |= {known.eps.name for norm in known.norms if norm.eps is None}
        defaults = f" ({known.eps.default:g} if missing)" if keys == {known.eps.name} else ""
        read = [", ".join(f"`{key}`" for key in sorted(keys)) + defaults] if keys else []
        fixed_eps = (
            [f"{'always' if not keys else f'{fixed} of {len(known.norms)} kinds always'} {min(constant)}"]
            if fixed
            else []
        )
        yield (
            f"`{known.model_type}`",
            "; ".join([*read, *fixed_eps, *(["as its parts"] if parts else [])]),
            " and those of ".join(
                [*([str(len(known.norms))] if known.norms else []), *([" and ".join(parts)] if parts else [])]
            ),
            ", ".join(presets),
            f"`{known.gguf}`" if known.gguf else "",
        )


def stored(name: str) -> dict[str, Any]:
    """What a script in fixtures/frameworks has measured."""
    import yaml

    read: dict[str, Any] = yaml.safe_load((TOP / "fixtures" / "frameworks" / f"{name}.yaml").read_text("utf-8"))
    return read


TABLES: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "variables": variables,
    "categories": categories,
    "presets": presets,
    "rules": rules,
    "behaviours": behaviours,
    "implementations": implementations,
    "classes": classes,
    "architectures": architectures,
}


def table(name: str) -> str:
    """A Markdown table."""
    head, *rows = TABLES[name]()
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def output_of(command: str) -> str:
    """What a command shown in the docs prints. `rmsaudit` runs in this process; anything else is passed over."""
    from rmsaudit.cli import run

    printed = io.StringIO()
    shortened = HEAD.search(command)
    command = HEAD.sub("", command)
    for part in command.replace("\\\n", " ").split("&&"):
        words = shlex.split(part, comments=True)
        if words[:1] != ["rmsaudit"]:
            continue
        with TemporaryDirectory() as folder, redirect_stdout(printed), redirect_stderr(printed):
            previous = ["", *words[1:-1]]
            run([str(Path(folder) / w) if p == "--out" else w for p, w in zip(previous, words[1:], strict=True)])
    lines = printed.getvalue().splitlines(keepends=True)
    return "".join(lines[: int(shortened[1])] if shortened else lines)


def fresh(text: str) -> str:
    """A Markdown page with its tables and outputs made anew."""
    text = TABLE.sub(lambda m: m[1] + table(m[2]) + m[3], text)
    return CONSOLE.sub(lambda m: m[1] + m[2] + output_of(m[2][2:]) + m[4], text)


def pages() -> dict[Path, str]:
    """Every generated file with the text that it should have."""
    from rmsaudit.documents.schema import schemas

    wanted = {TOP / "schemas" / name: text for name, text in schemas().items()}
    for page in [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]:
        wanted[page] = fresh(page.read_text(encoding="utf-8"))
    return wanted


def main() -> int:
    """Rewrites what is stale, or names it; the exit code."""
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'stale' if check else 'rewritten'}: {path.relative_to(TOP)}")
        if not check:
            path.write_text(pages()[path], encoding="utf-8")
    if check and stale:
        print("run `python .ci/generated.py` and look at the difference")
    return int(check and bool(stale))


if __name__ == "__main__":
    import os

    os.chdir(TOP)
    sys.exit(main())
