"""From declared values, which may name other variables, to a `NormSpec` in which every value is final."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmsaudit.formats import FORMATS, canonical, promote
from rmsaudit.semantics import NormSpec, takes_root_of_sum, variables
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.gain import NORMALIZE_FIRST
from rmsaudit.semantics.scope import statistic_size
from rmsaudit.semantics.variables import OPERANDS, PROMOTE, TOKENS, Variable


@dataclass(frozen=True)
class Conflict:
    """Declared values that cannot hold together; `variable` is the one to point at."""

    variable: str
    says: str


class CannotResolve(ValueError):
    """Raised with every conflict that was found."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__("; ".join(c.says for c in conflicts))


def resolve(declared: Mapping[str, Any]) -> NormSpec:
    """The spec that `declared` (name to value, as read from YAML; missing ones take their default) stands for.

    Raises CannotResolve. The types of the values are the reader's business; their sense together is checked here.
    """
    values = {name: declared.get(name, v.default) for name, v in variables().items()}
    if values["width"] is None:
        raise CannotResolve([Conflict("width", "width is not given; write `width:` or name a gain tensor")])
    dtypes = _Dtypes(values)
    for name, described in variables().items():
        if described.kind == "dtype":
            values[name] = dtypes.final(name)
    if dtypes.conflicts:
        raise CannotResolve(dtypes.conflicts)
    if values["eps"] is None:
        values["eps"] = FORMATS[values["compute_dtype"]].machine_epsilon
    spec = NormSpec(**values)
    conflicts = find_conflicts(spec)
    if conflicts:
        raise CannotResolve(conflicts)
    return spec


def at_width(spec: NormSpec, width: int) -> NormSpec | None:
    """The same spec for another width, or None where its groups do not fit into it."""
    if width % spec.groups:
        return None
    return replace(spec, width=width)


class _Dtypes:
    """Follows dtype words from variable to variable, and notices circles."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.conflicts: list[Conflict] = []

    def final(self, name: str, trail: tuple[str, ...] = ()) -> str:
        word = self.values[name]
        if name in trail:
            circle = " -> ".join((*trail[trail.index(name) :], name))
            self.conflicts.append(Conflict(name, f"the dtypes refer to each other in a circle: {circle}"))
            return "float32"
        trail = (*trail, name)
        if word == "none" or (dtype := canonical(word)) is None:
            return self._follow(name, word, trail)
        return dtype

    def _follow(self, name: str, word: str, trail: tuple[str, ...]) -> str:
        if word == PROMOTE:
            return promote(self.final("input_dtype", trail), self.final("gain_dtype", trail))
        if word == OPERANDS:
            return self._operands(trail)
        if word in TOKENS:
            return self.final(TOKENS[word], trail)
        return word  # "none" of gain_cast

    def _operands(self, trail: tuple[str, ...]) -> str:
        """The promoted dtype of x·i (at its rounding point) and of the gain (cast, offset)."""
        if not self.values["gain_applied"] or self.values["gain_position"] == "before_statistic":
            return self._rounding_point(trail)
        return promote(self._rounding_point(trail), self._gain_as_used(trail))

    def _rounding_point(self, trail: tuple[str, ...]) -> str:
        if self.values["association"] != NORMALIZE_FIRST:
            return self.final("compute_dtype", trail)
        match self.values["cast_point"]:
            case "before_gain":
                return self.final("normalized_dtype", trail)
            case "weight_if_half" if FORMATS[gain := self.final("gain_dtype", trail)].is_half:
                return gain
            case _:
                return self.final("compute_dtype", trail)

    def _gain_as_used(self, trail: tuple[str, ...]) -> str:
        if self.values["gain_offset"] != 0:
            return self.final("gain_offset_dtype", trail)
        if self.values["gain_cast"] != "none":
            return self.final("gain_cast", trail)
        return self.final("gain_dtype", trail)


def find_conflicts(spec: NormSpec) -> list[Conflict]:
    """Every combination in `spec` that has no meaning."""
    return [Conflict(name, says) for name, broken, says in _rules(spec) if broken]


def _rules(spec: NormSpec) -> list[tuple[str, bool, str]]:
    on_sum = spec.eps_placement in ("inside_sum", "floor_sum", "floor_norm")
    kept = statistic_size(max(spec.width // max(spec.groups, 1), 1), spec)
    return [
        ("width", spec.width < 1, f"width {spec.width} leaves nothing to normalise"),
        ("groups", spec.groups < 1 or spec.width % max(spec.groups, 1) != 0, f"groups {spec.groups} do not divide width {spec.width} evenly"),
        ("groups", spec.groups > 1 and spec.axes != (-1,), "groups need axes [-1]"),
        ("statistic_width", kept < 1, f"statistic_width {spec.statistic_width} leaves no element for the statistic"),
        ("statistic_width", isinstance(spec.statistic_width, int) and spec.statistic_width > spec.width // max(spec.groups, 1), f"statistic_width {spec.statistic_width} is more than a row (or group) has"),
        ("eps", _eps_vanishes(spec), _eps_vanishes_says(spec)),
        ("cast_point", spec.cast_point != "after_gain" and spec.association != NORMALIZE_FIRST, f"cast_point {spec.cast_point} rounds x·i, which association {spec.association} never forms; use after_gain"),
        ("mean_scaling", spec.mean_scaling == "after_root" and spec.eps_placement in ("inside_sqrt", "inside_sum"), f"eps_placement {spec.eps_placement} adds eps to a mean, and mean_scaling after_root forms none before the root"),
        ("mean_scaling", spec.mean_scaling == "per_element" and (on_sum or spec.statistic_algorithm != "direct"), "mean_scaling per_element forms no plain sum; it needs statistic_algorithm direct and an eps_placement that is not on the sum"),
        ("statistic_algorithm", spec.statistic_algorithm == "variance_plus_mean_square" and (spec.statistic != "mean_square" or on_sum or takes_root_of_sum(spec)), "statistic_algorithm variance_plus_mean_square yields a mean square; it needs statistic mean_square and an eps_placement that is not on the sum"),
        ("gain_applied", spec.gain_position == "before_statistic" and not spec.gain_applied, "gain_position before_statistic needs gain_applied true"),
    ]  # fmt: skip


def _eps_vanishes(spec: NormSpec) -> bool:
    value, fmt = effective(spec), FORMATS[spec.eps_dtype]
    if spec.eps_placement == "none" or value <= 0:
        return False
    if spec.subnormals == "flush":
        return value < fmt.smallest_normal - fmt.smallest_subnormal / 2  # what rounds up to a normal survives
    return value <= fmt.smallest_subnormal / 2  # a tie goes to even, which is zero


def _eps_vanishes_says(spec: NormSpec) -> str:
    fmt = FORMATS[spec.eps_dtype]
    smallest = fmt.smallest_normal if spec.subnormals == "flush" else fmt.smallest_subnormal
    return (
        f"eps {effective(spec):g} becomes 0 in eps_dtype {spec.eps_dtype}, whose smallest positive value is {smallest:.3g};"
        " declare the eps_dtype that is really used, or eps_placement: none if eps is lost there"
    )


def default_of(name: str) -> Any:
    """The default of a variable as it would be written in YAML."""
    return variables()[name].default


def describe(name: str) -> Variable:
    return variables()[name]
