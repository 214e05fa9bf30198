"""Speed as ratios, measured in one run: rmsaudit against what a user would use instead.

    python benchmarks/run.py [--repeat 7]

torch and mpmath are peers to compare with (`pip install torch mpmath`); without one, its lines say so. Both sides of
a ratio are run in turn, and the medians are compared, so that a machine that slows down slows both. Nothing here is a
test.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).parent
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WIDTH = 4096


@dataclass(frozen=True)
class Line:
    """One row of the table: ours against theirs, as seconds, and the ratio to reach."""

    what: str
    ours: float | None
    theirs: float | None
    reach: str
    faster_is_more: bool = False

    def __str__(self) -> str:
        if self.ours is None or self.theirs is None:
            return f"| {self.what} | peer not installed | | | {self.reach} |"
        ratio = self.theirs / self.ours if self.faster_is_more else self.ours / self.theirs
        unit = "times as fast" if self.faster_is_more else "of its time"
        times = f"{1000 * self.ours:.4g} ms | {1000 * self.theirs:.4g} ms"
        return f"| {self.what} | {times} | {ratio:.3g} {unit} | {self.reach} |"


def main() -> None:
    """Runs every benchmark and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    os.environ.update(ONE_THREAD)
    print("| What | rmsaudit | peer | ratio | reach |")
    print("|---|---|---|---|---|")
    for bench in (whole_processes, search, emulator, measures, oracle):
        for line in bench(repeat):
            print(line, flush=True)


def in_turn(repeat: int, *jobs: Callable[[], object]) -> list[float]:
    """The median seconds of each job, run in turn; one round of warming up is not counted."""
    seconds: list[list[float]] = [[] for _ in jobs]
    for turn in range(repeat + 1):
        for job, found in zip(jobs, seconds, strict=True):
            started = perf_counter()
            job()
            if turn:
                found.append(perf_counter() - started)
    return [statistics.median(found) for found in seconds]


def process(*arguments: str) -> Callable[[], object]:
    """A job that runs a whole process; exit codes 0 and 1 (rejected) are both a finished run."""

    def job() -> None:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr.decode())

    return job


def whole_processes(repeat: int) -> list[Line]:
    """rmsaudit as a person runs it, against starting Python with torch."""
    with tempfile.TemporaryDirectory() as folder:
        record = str(Path(folder) / "record.yaml")
        pair = ["--ref", str(HERE / "reference.yaml"), "--cand", str(HERE / "candidate.yaml")]
        judged = [*pair, "--tolerance", str(HERE / "tolerance.yaml")]
        process("-m", "rmsaudit", "compare", *judged, "--out", record)()
        jobs = {
            "compare, two specs, width 4096, whole battery, oracle, record": (
                process("-m", "rmsaudit", "compare", *judged, "--no-ladder", "--out", record + ".2"), "0.35"),
            "the same with ladder and findings": (
                process("-m", "rmsaudit", "compare", *judged, "--out", record + ".3"), "0.7"),
            "gate on a stored record": (
                process("-m", "rmsaudit", "gate", record, "--tolerance", str(HERE / "tolerance.yaml")), "0.25"),
            "--help": (process("-m", "rmsaudit", "--help"), "0.08"),
        }  # fmt: skip
        peers = [process("-c", "import torch")] if find_spec("torch") else []
        seconds = in_turn(repeat, *(job for job, _ in jobs.values()), *peers)
    theirs = seconds[-1] if peers else None
    return [
        Line(f"`{what}` against `import torch`", ours, theirs, reach)
        for (what, (_, reach)), ours in zip(jobs.items(), seconds, strict=False)
    ]


def search(repeat: int) -> list[Line]:
    """compare on a side that runs code and breaks its declaration, with and without the search for the cause."""
    lines = []
    for name in ("one-change", "two-changes", "unexplained"):
        live = HERE / "live"
        command = ["-m", "rmsaudit", "compare", "--ref", str(live / "reference.yaml"), "--allow-code"]
        command += ["--cand", str(live / f"{name}.yaml")]
        ours, theirs = in_turn(repeat, process(*command), process(*command, "--no-explain"))
        lines.append(Line(f"`compare` that finds the cause, {name}, against `--no-explain`", ours, theirs, "2"))
    return lines


def emulator(repeat: int) -> list[Line]:
    """bfloat16 in and out, float32 inside, 1024 rows of 4096, one thread, against torch's F.rms_norm."""
    import numpy as np

    from rmsaudit.arrays import round_to
    from rmsaudit.emulator import emulate_arrays
    from rmsaudit.semantics.resolve import resolve

    spec = resolve({"width": WIDTH, "input_dtype": "bfloat16"})
    draw = np.random.default_rng(0)
    x = round_to(draw.standard_normal((1024, WIDTH)), "bfloat16")
    gain = round_to(draw.standard_normal(WIDTH), "bfloat16")
    reach = "2 times"
    what = "emulator, bfloat16, float32 inside, against torch `F.rms_norm`"
    ours = partial(emulate_arrays, spec, x, gain, gain, x)
    if not find_spec("torch"):
        return [Line(what, in_turn(repeat, ours)[0], None, reach, faster_is_more=True)]
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) for a in (x, gain)]
    theirs = partial(torch.nn.functional.rms_norm, tensors[0], (WIDTH,), tensors[1], 1e-6)
    return [Line(what, *in_turn(repeat, ours, theirs), reach, faster_is_more=True)]


def measures(repeat: int) -> list[Line]:
    """All statistics of two 4096 × 4096 float32 tensors, against numpy's bare yes or no."""
    import numpy as np

    from rmsaudit.measure.statistics import measure

    draw = np.random.default_rng(0)
    reference = draw.standard_normal((WIDTH, WIDTH), dtype=np.float32)
    everywhere = reference * np.float32(1 + 2**-20)
    few = reference.copy()
    few.reshape(-1)[::1000] *= np.float32(1 + 2**-20)
    lines = []
    for what, candidate, reach in (
        ("statistics, every element differs", everywhere, "3 times"),
        ("statistics, one element in 1000 differs", few, "20 times"),
    ):
        ours, theirs = in_turn(
            repeat,
            partial(measure, reference, candidate),
            partial(np.testing.assert_allclose, candidate, reference, rtol=1e-5),
        )
        lines.append(Line(f"{what}, against `assert_allclose`", ours, theirs, reach, faster_is_more=True))
    return lines


def oracle(repeat: int) -> list[Line]:
    """Certified float32 outputs against mpmath at 60 digits; mpmath runs one row and is scaled by the rows."""
    import numpy as np

    from rmsaudit.case import Case
    from rmsaudit.oracle import oracle as answer
    from rmsaudit.semantics.resolve import resolve

    rows = 256
    spec = resolve({"width": WIDTH})
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, WIDTH), dtype=np.float32)
    gain = draw.standard_normal(WIDTH, dtype=np.float32)
    case = Case(category="ordinary", label="", x=x, gain=gain, bias=gain, residual=x)
    what, reach = "oracle, float32, certified, against mpmath at 60 digits", "500 times"
    if not find_spec("mpmath"):
        return [Line(what, in_turn(repeat, lambda: answer(spec, case))[0], None, reach, faster_is_more=True)]
    import mpmath

    mpmath.mp.dps = 60

    def with_mpmath() -> list[float]:
        row = [mpmath.mpf(float(v)) for v in x[0]]
        scale = mpmath.sqrt(mpmath.fsum(v * v for v in row) / WIDTH + mpmath.mpf("1e-6"))
        return [float(v * mpmath.mpf(float(g)) / scale) for v, g in zip(row, gain, strict=True)]

    ours, theirs = in_turn(max(3, repeat // 2), lambda: answer(spec, case), with_mpmath)
    return [Line(what, ours, theirs * rows, reach, faster_is_more=True)]


if __name__ == "__main__":
    main()
