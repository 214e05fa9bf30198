"""From declared values, which may name other variables, to a `NormSpec` in which every value is final."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmsaudit.formats import FORMATS, canonical, promote
from rmsaudit.semantics import NormSpec, takes_root_of_sum, variables
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.gain import NORMALIZE_FIRST
from rmsaudit.semantics.scope import statistic_size
from rmsaudit.semantics.variables import OPERANDS, PROMOTE, TOKENS


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


def fitted(spec: NormSpec, width: int) -> NormSpec:
    """As `at_width`, for a width that the spec is known to take. Raises ValueError for another one."""
    found = at_width(spec, width)
    if found is None:
        raise ValueError(f"width {width} does not hold {spec.groups} groups")
    return found


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
            return self._follow(word, trail)
        return dtype

    def _follow(self, word: str, trail: tuple[str, ...]) -> str:
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
    return [*_scope_conflicts(spec), *_formula_conflicts(spec)]


def _scope_conflicts(spec: NormSpec) -> Iterator[Conflict]:
    if spec.width < 1:
        yield Conflict("width", f"width {spec.width} leaves nothing to normalise")
        return
    if spec.groups < 1 or spec.width % spec.groups:
        yield Conflict("groups", f"groups {spec.groups} do not divide width {spec.width} evenly")
        return
    if spec.groups > 1 and spec.axes != (-1,):
        yield Conflict("groups", "groups need axes [-1]")
    size = spec.width // spec.groups
    if statistic_size(size, spec) < 1:
        says = f"statistic_width {spec.statistic_width} leaves no element for the statistic"
        yield Conflict("statistic_width", says)
    elif isinstance(spec.statistic_width, int) and spec.statistic_width > size:
        says = f"statistic_width {spec.statistic_width} is more than the {size} elements of a row (or group)"
        yield Conflict("statistic_width", says)


def _formula_conflicts(spec: NormSpec) -> Iterator[Conflict]:
    eps_on_sum = spec.eps_placement in ("inside_sum", "floor_sum", "floor_norm")
    if _eps_vanishes(spec):
        yield Conflict("eps", _eps_vanishes_says(spec))
    if spec.cast_point != "after_gain" and spec.association != NORMALIZE_FIRST:
        says = f"cast_point {spec.cast_point} rounds x·i, which association {spec.association} never forms"
        yield Conflict("cast_point", f"{says}; use after_gain")
    if spec.mean_scaling == "after_root" and spec.eps_placement in ("inside_sqrt", "inside_sum"):
        says = f"eps_placement {spec.eps_placement} adds eps to a mean, and mean_scaling after_root forms none"
        yield Conflict("mean_scaling", f"{says}; use divide_by_n, or another placement")
    if spec.mean_dtype != spec.statistic_dtype and takes_root_of_sum(spec):
        says = f"mean_dtype {spec.mean_dtype} rounds the mean square, and here the root is taken of the sum"
        yield Conflict("mean_dtype", f"{says}; leave it out")
    if spec.mean_scaling == "per_element" and (eps_on_sum or spec.statistic_algorithm != "direct"):
        says = "mean_scaling per_element forms no plain sum; it needs statistic_algorithm direct"
        yield Conflict("mean_scaling", f"{says} and an eps_placement that is not on the sum")
    if spec.statistic_algorithm == "variance_plus_mean_square" and not _yields_mean_square(spec, eps_on_sum):
        says = "statistic_algorithm variance_plus_mean_square yields a mean square; it needs statistic mean_square"
        yield Conflict("statistic_algorithm", f"{says} and an eps_placement that is not on the sum")
    if spec.gain_position == "before_statistic" and not spec.gain_applied:
        yield Conflict("gain_applied", "gain_position before_statistic needs gain_applied true")


def _yields_mean_square(spec: NormSpec, eps_on_sum: bool) -> bool:
    return spec.statistic == "mean_square" and not eps_on_sum and not takes_root_of_sum(spec)


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
        f"eps {effective(spec):g} becomes 0 in eps_dtype {spec.eps_dtype}, whose smallest positive value is"
        f" {smallest:.3g}; declare the eps_dtype that is really used, or eps_placement: none if eps is lost there"
    )
