"""recorded: outputs that were computed elsewhere, on an exported battery, found by the digest of their inputs.

`export_cases` writes what another machine needs: one safetensors file with every operand, each once, whose metadata
list the cases. What comes back is one safetensors file with an output for each case; its metadata, or a JSON sidecar,
say which digest each output belongs to. Names mean nothing: a tensor counts for the input whose digest it carries.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.case import Case
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.loaders import Failed, Observation
from rmsaudit.loaders.exchange import (
    TensorFile,
    UnusableTensors,
    fed,
    listed,
    observed,
    open_tensors,
    parse_json,
    read_whole,
    write_tensors,
)
from rmsaudit.semantics import NormSpec

INPUTS = "rmsaudit/inputs/1"
OUTPUTS = "rmsaudit/outputs/1"
SCHEMA_KEY = "rmsaudit.schema"
DIGEST_KEY = "rmsaudit.digest."
MOST_SIDECAR_BYTES = 8 * 2**20
_DIGEST = re.compile(r"[0-9a-f]{64}")
OPERANDS = ("x", "gain", "bias", "residual")


@dataclass(frozen=True, kw_only=True)
class RecordedSection:
    """What `recorded:` says. file: safetensors. sidecar: JSON with the digests, in place of the file's metadata."""

    file: Path
    sidecar: Path | None = None


class RecordedSide:
    """A side whose outputs lie in a file."""

    def __init__(
        self,
        outputs: TensorFile,
        names_by_digest: Mapping[str, tuple[str, ...]],
        *,
        declared: Mapping[str, Any],
        spec: NormSpec,
        gain: Array | None,
    ) -> None:
        self.declared, self.spec, self.gain = declared, spec, gain
        self._outputs, self._names_by_digest = outputs, names_by_digest
        self._used: set[str] = set()

    def observe(self, case: Case) -> Observation:
        """The output that belongs to `case`."""
        try:
            digest = fed(case, self.spec).digest()
        except UnusableTensors as problem:
            return Failed(problem.says)
        names = self._names_by_digest.get(digest, ())
        self._used.update(names)
        match names:
            case ():
                return Failed(self._none(digest))
            case (name,) if name in self._outputs.entries:
                return observed(self._outputs, name, case)
            case (name,):
                return Failed(f"{self._file} does not hold {name!r}, which is listed as the output for this input")
            case _:
                says = f"{self._file} has {len(names)} outputs for this input: {listed(names)}; keep one of them"
                return Failed(says)

    @property
    def notes(self) -> tuple[str, ...]:
        """Tensors that no input asked for, as sentences. Complete once every category has run."""
        digested = {name for names in self._names_by_digest.values() for name in names}
        unknown = [name for name in self._outputs.entries if name not in digested]
        unasked = [name for name in self._outputs.entries if name in digested and name not in self._used]
        notes = []
        if unknown:
            notes.append(f"{self._file} holds {listed(unknown)} without a digest; not used")
        if unasked:
            notes.append(
                f"{self._file} holds {listed(unasked)} for inputs that were not among those compared; not used"
            )
        return tuple(notes)

    @property
    def _file(self) -> str:
        return self._outputs.path.name

    def _none(self, digest: str) -> str:
        return (
            f"{self._file} has no output for this input (digest {digest[:12]}…) and {len(self._names_by_digest)} for"
            " others; was it made for another battery version, seed, width, number of rows, dtype, eps or gains?"
        )


def load(
    section: RecordedSection, *, declared: Mapping[str, Any], spec: NormSpec, gain: Array | None, home: Path
) -> RecordedSide:
    """The side that `section` declares; no tensor is read yet. `home`: the declaring file's folder.

    Raises InputProblem where a file cannot be used.
    """
    with _naming(section.file):
        outputs = open_tensors(home / section.file)
        if outputs.metadata.get(SCHEMA_KEY) == INPUTS:
            says = "holds the inputs of an exported battery; name the file with the outputs"
            raise UnusableTensors(says, "not-outputs")
        if section.sidecar is None:
            digests = _digests_in(outputs.metadata)
    if section.sidecar is not None:
        with _naming(section.sidecar):
            digests = _digests_beside(home / section.sidecar)
    by_digest: dict[str, tuple[str, ...]] = {}
    for name, digest in digests.items():
        by_digest[digest] = (*by_digest.get(digest, ()), name)
    return RecordedSide(outputs, by_digest, declared=declared, spec=spec, gain=gain)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns what is wrong with a file into a problem that names it."""
    try:
        yield
    except UnusableTensors as problem:
        raise InputProblem([Problem(path=str(path), says=problem.says, kind=problem.kind)]) from None


def _digests_in(metadata: Mapping[str, str]) -> dict[str, str]:
    """Tensor name to digest, from safetensors metadata."""
    found = {key.removeprefix(DIGEST_KEY): value for key, value in metadata.items() if key.startswith(DIGEST_KEY)}
    if not found:
        raise UnusableTensors(
            f"has no digests in its metadata; write {DIGEST_KEY}NAME for each output NAME, or name a `sidecar:`",
            "no-digests",
        )
    return _checked(found)


def _digests_beside(path: Path) -> dict[str, str]:
    """Tensor name to digest, from `{"schema": OUTPUTS, "digests": {name: digest}}`."""
    document = parse_json(read_whole(path, MOST_SIDECAR_BYTES))
    match document:
        case {"schema": "rmsaudit/outputs/1", "digests": dict(digests)} if digests:
            return _checked(digests)
    raise UnusableTensors(
        f'is not a sidecar: that is {{"schema": "{OUTPUTS}", "digests": {{"NAME": "DIGEST"}}}}', "bad-sidecar"
    )


def _checked(digests: Mapping[str, Any]) -> dict[str, str]:
    for name, digest in digests.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise UnusableTensors(f"gives {name!r} a digest that is not 64 of 0-9a-f", "bad-digest")
    return dict(digests)


# --- export ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What the exported cases were made for. eps: by side, as that side is declared."""

    battery: int
    seed: int
    eps: Mapping[str, float]


def export_cases(cases: Iterable[Case], path: Path, origin: Origin) -> int:
    """Writes the operands of `cases` to one safetensors file; how many there are. Equal cases give equal bytes.

    The cases are as that side is fed which runs elsewhere (`exchange.fed`, with its own gains): its outputs are found
    by their digests. Equal arrays are stored once, and so are cases of equal digest. Metadata: `rmsaudit.schema`,
    `.battery`, `.seed`, `.eps.<side>`, and `.cases`, a JSON list of {name, category, label, digest, x, gain, bias,
    residual}, of which the last four name tensors.

    Raises ValueError where there is no case, InputProblem where `path` cannot be written.
    """
    stored = _Stored()
    listed_cases: dict[str, dict[str, str]] = {}
    for case in cases:
        digest = case.digest()
        if digest not in listed_cases:
            named = {name: stored.name_of(name, getattr(case, name)) for name in OPERANDS}
            about = {"category": case.category, "label": case.label, "digest": digest}
            number = sum(other["category"] == case.category for other in listed_cases.values())
            listed_cases[digest] = {"name": f"{case.category}/{number}", **about, **named}
    if not listed_cases:
        raise ValueError("there is no case to export")
    metadata = {
        SCHEMA_KEY: INPUTS,
        "rmsaudit.battery": str(origin.battery),
        "rmsaudit.seed": str(origin.seed),
        **{f"rmsaudit.eps.{side}": repr(eps) for side, eps in origin.eps.items()},
        "rmsaudit.cases": json.dumps(list(listed_cases.values()), separators=(",", ":")),
    }
    try:
        write_tensors(path, stored.tensors, metadata)
    except OSError as error:
        says = f"cannot be written: {error.strerror}; nothing was changed"
        raise InputProblem([Problem(path=str(path), says=says, kind="not-writable")]) from error
    return len(listed_cases)


class _Stored:
    """Tensors to be written, each content once, by the operand's name and a number."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}
        self._names: dict[tuple[str, str, tuple[int, ...], bytes], str] = {}

    def name_of(self, operand: str, array: Array) -> str:
        content = hashlib.sha256(bits(array).tobytes()).digest()
        key = operand, word_of(array), array.shape, content
        if key not in self._names:
            number = sum(name.startswith(f"{operand}/") for name in self.tensors)
            self._names[key] = f"{operand}/{number}"
            self.tensors[self._names[key]] = array
        return self._names[key]
