"""Whole models: how time and memory grow with sites and width, and the same audit written as a torch loop.

    python benchmarks/models.py [--repeat 3]

The checkpoints are written to a temporary folder: Llama's layout, 2 norms a layer and one at the end, gains drawn in
float32, everything else left as a hole in the file. The candidate has another eps at every site, so that every site has
to be run, judged by the oracle and explained. torch is the peer (`pip install torch`). Nothing here is a test.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

HERE = Path(__file__).parent
WEIGHT_BYTES = 2**30  # of a hole after the norms: what a reader must not read
SIZES = ((253, 4096), (253, 8192), (63, 16384), (127, 16384), (253, 16384))


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print("| sites | width | rmsaudit model | peak memory | per site and 1000 columns |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for sites, width in SIZES:
            reference, candidate = checkpoints(Path(folder), sites, width)
            runs = [audit(reference, candidate) for _ in range(repeat)]
            seconds, peak = statistics.median(s for s, _ in runs), max(p for _, p in runs)
            each = 1e6 * seconds / sites / width
            print(f"| {sites} | {width} | {seconds:.2f} s | {peak / 2**20:.0f} MiB | {each:.2f} ms |", flush=True)
        print("\n| 253 sites, width 16384 | seconds |\n|---|---|")
        for jobs in ("1", "2"):
            print(
                f"| rmsaudit model --jobs {jobs} | {audit(reference, candidate, '--jobs', jobs)[0]:.2f} |", flush=True
            )
        same = audit(reference, reference)
        print(f"| the same model twice | {same[0]:.2f}, {same[1] / 2**20:.0f} MiB |")
        print(f"| a torch loop | {loop(reference, candidate)} |")


def checkpoints(folder: Path, sites: int, width: int) -> tuple[Path, Path]:
    """A model and the same one with another eps."""
    made = []
    rng = np.random.default_rng(0)
    names = [f"model.layers.{i // 2}.{('input', 'post_attention')[i % 2]}_layernorm.weight" for i in range(sites - 1)]
    gains = {name: rng.normal(1, 0.1, width).astype("<f4") for name in (*names, "model.norm.weight")}
    for eps in (1e-5, 1e-6):
        made.append(folder / f"{sites}x{width}-{eps}")
        made[-1].mkdir(exist_ok=True)
        config = {"model_type": "llama", "rms_norm_eps": eps, "hidden_size": width, "num_hidden_layers": sites // 2}
        (made[-1] / "config.json").write_text(json.dumps(config))
        write(made[-1] / "model.safetensors", gains)
    return made[0], made[1]


def write(path: Path, gains: dict[str, np.ndarray]) -> None:
    """The gains, and a hole in place of the weights."""
    header, at = {}, 0
    for name, values in gains.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    header["lm_head.weight"] = {"dtype": "U8", "shape": [WEIGHT_BYTES], "data_offsets": [at, at + WEIGHT_BYTES]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in gains.values():
            file.write(values.tobytes())
        file.truncate(file.tell() + WEIGHT_BYTES)


def audit(reference: Path, candidate: Path, *options: str) -> tuple[float, int]:
    """Seconds, and the peak resident bytes of the whole process (and, with --jobs, of its largest child)."""
    command = [sys.executable, "-m", "rmsaudit", "model", "--ref", str(reference), "--cand", str(candidate), *options]
    watched = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
    watched += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
    start = perf_counter()
    done = subprocess.run([sys.executable, "-c", watched, *command], capture_output=True, text=True, check=True)
    return perf_counter() - start, int(done.stdout)


def loop(reference: Path, candidate: Path) -> str:
    """The same inputs, both norms and their float64 counterparts, in a loop over the sites."""
    script = HERE / "_torch_loop.py"
    done = subprocess.run(
        [sys.executable, str(script), str(reference), str(candidate)], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return done.stdout.strip() or "torch is not installed"


if __name__ == "__main__":
    main()
