"""kind: python. Every way in which foreign code goes wrong becomes a sentence; what goes right is seen as it is."""

import hashlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.errors import Exit, InputProblem
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.python import PythonSection, PythonSide, Returned, load
from rmsaudit.semantics.resolve import resolve

SOURCE = Path(__file__).with_name("misbehaving.py")
PATIENT = 30.0  # seconds; no test waits for it
HASTY = 0.3  # for calls that never end


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The declaring file's folder, with kernels.py in it."""
    shutil.copy(SOURCE, tmp_path / "kernels.py")
    return tmp_path


def new_case(width: int = 8, rows: int = 3) -> Case:
    draw = np.random.default_rng(width)

    def normal(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(np.float32)

    return Case(
        category="ordinary",
        label="",
        x=normal(rows, width),
        gain=normal(width),
        bias=normal(width),
        residual=normal(rows, width),
    )


def a_side(home: Path, section: PythonSection, **declared: Any) -> PythonSide:
    declared = {"width": 8, "eps": 1e-6, **declared}
    return load(section, declared=declared, spec=resolve(declared), gain=None, home=home, allow_code=True)


def a_function(home: Path, name: str, **section: Any) -> PythonSide:
    section = {"timeout": PATIENT, **section}
    return a_side(home, PythonSection(function=f"kernels.py:{name}", **section))


def honest(case: Case, eps: float = 1e-6) -> Array:
    """What the function of that name returns, here: the same numpy on the same machine gives the same bits."""
    root = np.sqrt((case.x * case.x).mean(-1, keepdims=True) + np.float32(eps))
    return case.x / root * case.gain


def what_it_says(side: PythonSide) -> str:
    with side:
        failed = side.observe(new_case())
    assert isinstance(failed, Failed), failed
    return failed.says


def returned(side: PythonSide, case: Case | None = None, **options: Any) -> Returned:
    got = side.call(case or new_case(), **options)
    assert isinstance(got, Returned), got
    return got


def line_of(text: str) -> int:
    """The line of misbehaving.py that holds `text`."""
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


class TestFaults:
    """Where numpy is not needed to go wrong, arrays: dlpack starts faster."""

    @pytest.mark.parametrize(
        ("name", "says", "at"),
        [
            ("raises", "raised ValueError: width 8 is not a multiple of 128: <object object>", 'f"width {'),
            ("raises_without_text", "raised KeyError", "raise KeyError"),
            (
                "raises_the_unspeakable",
                "raised Unspeakable: (no text: asking for it raised RuntimeError)",
                "raise Unspeakable",
            ),
            ("raises_base", "raised Strange: not even an Exception", "raise Strange"),
            ("raises_in_a_library", "raised JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "json.loads"),
            ("recurses", "raised RecursionError: maximum recursion depth exceeded", "return recurses("),
            ("exits", "called exit(3)", "    exit(3)"),
            ("segfaults", "died of SIGSEGV (segmentation fault)", "ctypes.string_at(0)"),
            ("aborts", "died of SIGABRT (aborted)", "os.abort()"),
        ],
    )
    def test_each_is_told_with_its_line(self, name: str, says: str, at: str, home: Path) -> None:
        told = what_it_says(a_function(home, name, arrays="dlpack"))
        assert told == f"kernels.py:{name} {says} (kernels.py:{line_of(at)})"

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("exits_hard", "ended its own process with exit code 3; it printed: about to leave"),
            ("exits_hard_with_zero", "ended its own process with exit code 0"),
            ("is_killed", "died of SIGKILL (killed, as by a system that is out of memory)"),
            ("kills_its_group", "died of SIGKILL (killed, as by a system that is out of memory)"),
            (
                "closes_every_pipe",
                "ended its own process with exit code 1; it printed: it closed a pipe that belongs to rmsaudit",
            ),
            ("speaks_on_every_pipe", "wrote into the pipe on which rmsaudit reads its answers"),
            ("returns_none", "returned None, not an array of dlpack"),
            ("returns_a_generator", "returned a generator, not an array of dlpack"),
            ("returns_a_number", "returned a float, not an array of dlpack"),
            ("returns_a_list", "returned a list of 2, not an array of dlpack; say which one with `output:`"),
            (
                "wants_a_stream",
                "cannot be called as wants_a_stream(x, gain, eps): wants_a_stream() missing 1 required positional"
                " argument: 'stream'; say how with `call:`",
            ),
            ("not_a_function", "cannot be called: it is an int"),
            ("honset", "does not exist: kernels.py has no honset; did you mean honest?"),
        ],
    )
    def test_each_is_told(self, name: str, says: str, home: Path) -> None:
        assert what_it_says(a_function(home, name, arrays="dlpack")) == f"kernels.py:{name} {says}"

    def test_what_was_printed_meanwhile_is_told_too(self, home: Path) -> None:
        says = what_it_says(a_function(home, "complains_and_raises", arrays="dlpack"))
        assert re.search(r"raised RuntimeError: launch failed \(kernels.py:\d+\); it printed: kernel: error 700$", says)

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("returns_one_short", "returned shape (3, 7); the input has (3, 8)"),
            ("returns_complex", "returned complex64; what is compared is one of float64, float32, float16, bfloat16,"),
            ("returns_integers", "returned int32; what is compared is one of"),
            ("returns_objects", "returned object; what is compared is one of"),
            ("returns_longer_doubles", f"returned {np.dtype(np.longdouble).name}; what is compared is one of"),
        ],
    )
    def test_what_cannot_be_compared_is_told(self, name: str, says: str, home: Path) -> None:
        assert what_it_says(a_function(home, name)).startswith(f"kernels.py:{name} {says}")

    @pytest.mark.parametrize(
        ("name", "at"),
        [
            ("loops", None),
            ("sleeps", "    time.sleep(1000)"),
            ("ignores_signals_and_sleeps", None),
            ("holds_the_lock", "ctypes.PyDLL(None).pause()"),
            ("floods_for_ever", None),
        ],
    )
    def test_what_does_not_end_is_ended(self, name: str, at: str | None, home: Path) -> None:
        says = what_it_says(a_function(home, name, arrays="dlpack", timeout=HASTY))
        place = rf"kernels\.py:{line_of(at)}" if at else r"kernels\.py:\d+"
        assert re.match(rf"kernels\.py:{name} was still running after 0\.3 s \({place}\)", says)

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux applies the limit")
    def test_memory_has_a_limit_where_one_is_declared(self, home: Path) -> None:
        says = what_it_says(a_function(home, "takes_memory", memory_mib=512))
        assert says.startswith("kernels.py:takes_memory raised MemoryError: ")
        assert says.endswith("; its limit is memory_mib: 512")


class TestFreshWorkers:
    """acts_by_width writes down its process; width 2 raises, 3 dies, 4 leaves by sys.exit, any other one returns."""

    def side(self, home: Path) -> PythonSide:
        return a_function(home, "acts_by_width", arrays="dlpack")

    def observed(self, side: PythonSide, *widths: int) -> list[type]:
        return [type(side.observe(new_case(width))) for width in widths]

    def workers(self, home: Path) -> list[int]:
        """Which worker served each call, counted from 0."""
        pids = (home / "pids").read_text().split()
        return [list(dict.fromkeys(pids)).index(pid) for pid in pids]

    @pytest.mark.parametrize(
        ("widths", "workers"),
        [
            ((8, 8, 8), [0, 0, 0]),
            ((8, 2, 8), [0, 0, 1]),  # it had worked, then raised: replaced
            ((2, 2, 2, 8), [0, 0, 0, 0]),  # it only ever raised: kept, or each of these would cost an import
            ((3, 8), [0, 1]),
            ((4, 8), [0, 1]),
        ],
    )
    def test_a_worker_that_failed_is_replaced(self, widths: tuple[int, ...], workers: list[int], home: Path) -> None:
        with self.side(home) as side:
            seen = self.observed(side, *widths)
        assert seen == [Ran if width == 8 else Failed for width in widths]
        assert self.workers(home) == workers

    def test_a_closed_side_starts_again(self, home: Path) -> None:
        side = self.side(home)
        for _ in range(2):
            with side:
                assert self.observed(side, 8) == [Ran]
        assert self.workers(home) == [0, 1]

    def test_code_that_cannot_be_loaded_is_tried_twice(self, home: Path) -> None:
        (home / "broken.py").write_text("open('tries', 'a').write('x')\nimport no_such_package.sub\n")
        with a_side(home, PythonSection(function="broken.py:norm", arrays="dlpack")) as side:
            says = {side.observe(new_case()).says for _ in range(5)}
        assert (home / "tries").read_text() == "xx"
        assert says == {
            "broken.py:norm needs no_such_package, which its Python does not have (broken.py:2);"
            " if that is a package: python -m pip install no_such_package"
        }

    def test_code_that_changes_its_mind_is_tried_again(self, home: Path) -> None:
        code = (
            "from pathlib import Path\nif not Path('go').exists():\n    raise OSError('busy')\ndef norm(x): return x\n"
        )
        (home / "moody.py").write_text(code)
        with a_side(home, PythonSection(function="moody.py:norm", arrays="dlpack")) as side:
            first = side.observe(new_case())
            (home / "go").touch()
            assert (type(first), type(side.observe(new_case()))) == (Failed, Ran)


class TestLoading:
    @pytest.mark.parametrize(
        ("target", "text", "says"),
        [
            ("mine.py:norm", "def norm(x):\n    return x +\n", "cannot be read: mine.py:2:15: invalid syntax"),
            ("mine.py:norm", "x = 1\n  y = 2\n", "cannot be read: mine.py:2:2: unexpected indent"),
            ("mine.py:norm", "\0", "raised "),  # SyntaxError or ValueError, by version
            (
                "mine.py:norm",
                "import yaml_but_not\n",
                "needs yaml_but_not, which its Python does not have (mine.py:1);",
            ),
            ("mine.py:norm", "import os.sub\n", "needs os.sub, which its Python's os does not have (mine.py:1)"),
            (
                "mine.py:norm",
                "from json import nothing\n",
                "raised ImportError: cannot import name 'nothing' from 'json'",
            ),
            ("mine.py:norm", "1 / 0\n", "raised ZeroDivisionError: division by zero (mine.py:1)"),
            ("mine.py:norm", "exit()\n", "called exit() (mine.py:1)"),
            ("mine.py:norm", "import os; os._exit(9)\n", "ended its own process with exit code 9"),
            (
                "mine.py:Layer.norm",
                "class Layer: pass\n",
                "does not exist: mine.py has no Layer.norm; did you mean Layer?",
            ),
            ("kernel.py:honest", "", "cannot be run: there is no file kernel.py; did you mean kernels.py"),
            ("deep/kernel.py:honest", "", "cannot be run: there is no file deep/kernel.py"),
            ("no_such_package.sub:norm", "", "needs no_such_package, which its Python does not have; if that is a"),
        ],
    )
    def test_what_cannot_be_loaded_is_told(self, target: str, text: str, says: str, home: Path) -> None:
        (home / "mine.py").write_text(text)
        side = a_side(home, PythonSection(function=target, arrays="dlpack"))
        assert what_it_says(side).startswith(f"{target} {says}")

    def test_a_framework_that_is_not_there(self, home: Path) -> None:
        says = what_it_says(a_function(home, "honest", arrays="mlx"))
        told = "is declared with arrays: mlx, which its Python does not have: python -m pip install mlx"
        assert says == f"kernels.py:honest {told}"

    def test_a_device_that_is_not_there(self, home: Path) -> None:
        says = what_it_says(a_function(home, "honest", arrays="dlpack", device="cuda:0"))
        assert says == "kernels.py:honest cannot use device: cuda:0: arrays: dlpack are always on the cpu"

    def test_an_interpreter_that_is_not_there(self, home: Path) -> None:
        says = what_it_says(a_function(home, "honest", interpreter=Path("venv/bin/python")))
        assert says == "kernels.py:honest cannot be run: venv/bin/python: No such file or directory"

    def test_siblings_are_found_and_rmsaudits_own_files_are_not(self, home: Path) -> None:
        (home / "sibling.py").write_text("factor = 3\n")
        (home / "mine.py").write_text(
            "import sibling, importlib.util\n"
            "def norm(x):\n"
            "    assert not importlib.util.find_spec('recorded')  # rmsaudit/loaders/recorded.py\n"
            "    return x * sibling.factor\n"
        )
        with a_side(home, PythonSection(function="mine.py:norm")) as side:
            case = new_case()
            np.testing.assert_array_equal(returned(side, case).output, case.x * 3)

    def test_a_file_may_be_named_as_a_module_that_is_already_there(self, home: Path) -> None:
        (home / "json.py").write_text("def norm(x): return -x\n")
        with a_side(home, PythonSection(function="json.py:norm")) as side:
            assert (returned(side).output == -new_case().x).all()

    def test_a_package_beside_the_declaring_file(self, home: Path) -> None:
        (home / "mine").mkdir()
        (home / "mine" / "__init__.py").write_text("__version__ = '1.2'\n")
        (home / "mine" / "norms.py").write_text("def norm(x): return x\n")
        with a_side(home, PythonSection(function="mine.norms:norm")) as side:
            returned(side)
        assert side.versions["mine"] == "1.2"
        assert side.digests == {"mine.norms": hashlib.sha256(b"def norm(x): return x\n").hexdigest()}

    def test_no_cache_is_left_beside_the_code(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        with a_function(home, "only_x", arrays="dlpack") as side:
            returned(side)
        assert sorted(path.name for path in home.iterdir()) == ["kernels.py"]

    def test_versions_and_digest_are_those_of_what_ran(self, home: Path) -> None:
        with a_function(home, "honest") as side:
            assert (side.versions, side.digests, side.layouts) == ({}, {}, ())
            returned(side)
        assert side.versions == {"python": sys.version.split()[0], "numpy": np.__version__}
        assert side.digests == {"kernels.py": hashlib.sha256(SOURCE.read_bytes()).hexdigest()}

    def test_where_rmsaudit_is_not_installed(self, home: Path) -> None:
        """An interpreter that sees the standard library, numpy and ml_dtypes, and nothing else."""
        packages = home / "packages"
        packages.mkdir()
        for module in (np, ml_dtypes):
            folder = Path(module.__file__ or "").parent
            for found in folder.parent.glob(f"{folder.name}*"):  # numpy keeps libraries in numpy.libs
                (packages / found.name).symlink_to(found)
        python = home / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)
        (home / "mine.py").write_text(
            "import importlib.util, sys\n"
            "def norm(x):\n"
            "    assert not importlib.util.find_spec('rmsaudit') and 'rmsaudit' not in sys.modules\n"
            "    return x\n"
        )
        section = PythonSection(function="mine.py:norm", interpreter=Path("python"))
        with a_side(home, section, input_dtype="bfloat16") as side:
            assert returned(side).output.dtype == ml_dtypes.bfloat16

    def test_bfloat16_without_ml_dtypes_is_told(self, home: Path) -> None:
        (home / "ml_dtypes.py").write_text("raise ImportError('as if it were not there')\n")
        with a_function(home, "only_x") as side:
            returned(side)  # the twin: float32 needs nothing
        bfloat16 = a_side(home, PythonSection(function="kernels.py:only_x"), input_dtype="bfloat16")
        assert what_it_says(bfloat16).startswith(
            "kernels.py:only_x takes bfloat16, which numpy does not have by itself"
        )


class TestNotes:
    def test_an_honest_function_has_none(self, home: Path) -> None:
        with a_function(home, "honest") as side:
            got = returned(side)
        assert (got.changed, got.shares, got.threads) == ((), (), None)
        assert (side.notes.changed, side.notes.shares, side.notes.left) == (frozenset(), frozenset(), 0)

    def test_nan_everywhere_is_a_result(self, home: Path) -> None:
        with a_function(home, "returns_nan") as side:
            assert np.isnan(returned(side).output).all()

    def test_a_view_of_the_input(self, home: Path) -> None:
        with a_function(home, "returns_its_input") as side:
            assert returned(side).shares == ("x",)
        assert side.notes.shares == {"x"}

    def test_changed_input_is_private_and_noted(self, home: Path) -> None:
        case = new_case()
        digest = case.digest()
        with a_function(home, "changes_its_input") as side:
            first, second = returned(side, case), returned(side, case)
        assert first.changed == ("gain", "x")
        np.testing.assert_array_equal(first.output, second.output)
        assert case.digest() == digest

    def test_any_memory_order_comes_back_in_c_order(self, home: Path) -> None:
        case = new_case()
        with a_function(home, "returns_other_order") as side:
            output = returned(side, case).output
        assert output.dtype == np.float32
        np.testing.assert_array_equal(output, honest(case))

    @pytest.mark.parametrize("name", ["forks_and_both_return", "spoils_the_interpreter", "talks_in_the_background"])
    def test_an_unruly_function_still_answers_once_a_call(self, name: str, home: Path) -> None:
        with a_function(home, name) as side:
            for width in (8, 5):
                case = new_case(width)
                np.testing.assert_array_equal(returned(side, case).output, honest(case))

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there a daemon is found")
    def test_a_daemon_left_behind_is_counted(self, home: Path) -> None:
        with a_function(home, "leaves_a_daemon", arrays="dlpack") as side:
            returned(side)
            assert side.notes.left == 0  # it may live as long as the worker
        assert side.notes.left == 1


class TestCalls:
    @pytest.mark.parametrize(
        ("name", "called"),
        [
            ("honest", "honest(x, gain=gain, eps=eps)"),
            ("other_order", "other_order(x, epsilon=eps, weight=gain)"),
            ("by_name", "by_name(x, gamma=gain, eps=eps)"),
            ("any_number", "any_number(x, gain, eps)"),
            ("unknown_names", "unknown_names(x, gain, eps)"),
        ],
    )
    def test_a_function_is_called_as_its_signature_asks(self, name: str, called: str, home: Path) -> None:
        case = new_case()
        with a_function(home, name) as side:
            np.testing.assert_array_equal(returned(side, case).output, honest(case))
        assert side.notes.called == called

    @pytest.mark.parametrize(
        ("name", "called"), [("only_x", "only_x(x)"), ("without_eps", "without_eps(x, weight=gain)")]
    )
    def test_a_function_that_takes_less_is_given_less(self, name: str, called: str, home: Path) -> None:
        with a_function(home, name, arrays="numpy") as side:
            returned(side)
        assert side.notes.called == called

    @pytest.mark.parametrize(
        "call",
        [("$x", "$residual", "$gain", "$eps"), {"eps": "$eps", "weight": "$gain", "residual": "$residual", "x": "$x"}],
    )
    def test_what_is_written_is_what_is_called(self, call: Any, home: Path) -> None:
        case = new_case()
        total = case.x + case.residual
        with a_function(home, "added", call=call, output=0) as side:
            output = returned(side, case).output
        root = np.sqrt((total * total).mean(-1, keepdims=True) + np.float32(1e-6))
        np.testing.assert_array_equal(output, total / root * case.gain)

    def test_which_of_several_results_counts(self, home: Path) -> None:
        case = new_case()
        with a_function(home, "returns_a_tuple", output=0) as side:
            np.testing.assert_array_equal(returned(side, case).output, case.x + 1)
        says = what_it_says(a_function(home, "returns_a_tuple", output=2))
        assert says.endswith("returned a tuple of 2, which has no item 2 (`output: 2`)")

    def test_operands_have_the_dtypes_of_the_spec(self, home: Path) -> None:
        declared = {"input_dtype": "bfloat16", "gain_dtype": "float16"}
        with a_side(home, PythonSection(function="kernels.py:tells_its_dtypes"), **declared) as side:
            returned(side)

    def test_eps_is_the_declared_one_or_the_one_of_the_call(self, home: Path) -> None:
        with a_function(home, "tells_its_eps") as side:
            assert returned(side).output[0, 0] == 1e-6
            assert returned(side, eps=1e-12).output[0, 0] == 1e-12

    def test_an_eps_of_null_arrives_as_none(self, home: Path) -> None:
        with a_side(home, PythonSection(function="kernels.py:tells_its_eps"), eps=None) as side:
            assert returned(side).output[0, 0] == -1

    def test_layouts(self, home: Path) -> None:
        case = new_case()
        with a_function(home, "tells_its_layout") as side:
            returned(side)
            assert [returned(side, layout=layout).output[0, 0] for layout in side.layouts] == [0, 1, 2, 3]
        with a_function(home, "honest") as side:
            outputs = {"contiguous": returned(side, case).output}
            outputs |= {layout: returned(side, case, layout=layout).output for layout in side.layouts}
        for layout in ("transposed", "strided"):
            # numpy's mean of a transposed array adds in another order: at most a few ulp of float32
            np.testing.assert_allclose(outputs[layout], outputs["contiguous"], rtol=1e-6)
        np.testing.assert_allclose(outputs["broadcast"], np.tile(outputs["contiguous"][:1], (3, 1)), rtol=1e-6)

    def test_who_ignores_strides_reads_nan(self, home: Path) -> None:
        with a_function(home, "ignores_strides") as side:
            assert np.isfinite(returned(side).output).all()
            assert np.isnan(returned(side, layout="strided").output).any()

    def test_who_writes_into_the_holes_is_seen(self, home: Path) -> None:
        with a_function(home, "writes_into_the_holes") as side:
            assert returned(side).changed == ()
            assert returned(side, layout="strided").changed == ("x",)


class TestLayers:
    def layer(self, home: Path, **section: Any) -> PythonSide:
        section = {"init": ("$width",), "gain": "weight", **section}
        return a_side(home, PythonSection(module="kernels.py:Layer", **section))

    @pytest.mark.parametrize(
        ("init", "gain"), [(("$width",), "weight"), ({"width": "$width", "eps": "$eps"}, "inner.gain")]
    )
    def test_it_is_built_for_each_width_and_given_the_gains(self, init: Any, gain: str, home: Path) -> None:
        with self.layer(home, init=init, gain=gain) as side:
            for width in (8, 5, 8):
                case = new_case(width)
                np.testing.assert_array_equal(returned(side, case).output, honest(case))
        assert side.notes.called == "Layer(x)"

    def test_its_eps_follows_that_of_the_call(self, home: Path) -> None:
        case = new_case()
        with self.layer(home, init={"width": "$width", "eps": "$eps"}) as side:
            for eps in (1e-6, 0.5, 1e-6):
                np.testing.assert_array_equal(returned(side, case, eps=eps).output, honest(case, eps))

    @pytest.mark.parametrize(
        ("section", "says"),
        [
            ({"gain": "weigth"}, "has no parameter weigth; did you mean weight?"),
            ({"gain": "scalar"}, "has scalar of shape (1,); the gains have (8,)"),
            ({"init": ()}, "raised TypeError: Layer.__init__() missing 1 required positional argument: 'width'"),
        ],
    )
    def test_what_does_not_fit_is_told(self, section: dict[str, Any], says: str, home: Path) -> None:
        assert what_it_says(self.layer(home, **section)).startswith(f"kernels.py:Layer {says}")


class TestConsent:
    def refused(self, section: PythonSection, allow_code: bool = True) -> str:
        declared = {"width": 8}
        with pytest.raises(InputProblem) as caught:
            load(
                section,
                declared=declared,
                spec=resolve(declared),
                gain=None,
                home=Path("nowhere"),
                allow_code=allow_code,
            )
        assert caught.value.exit_code == Exit.INPUT_PROBLEM
        return str(caught.value)

    def test_nothing_runs_without_it(self) -> None:
        assert self.refused(PythonSection(function="kernels.py:honest"), allow_code=False) == (
            "kernels.py:honest: this would run the function honest of kernels.py with the Python that runs rmsaudit;"
            " if you trust it, add --allow-code [code-not-allowed]"
        )
        section = PythonSection(module="torch.nn:RMSNorm", interpreter=Path("../venv/bin/python"))
        assert self.refused(section, allow_code=False) == (
            "torch.nn:RMSNorm: this would run the class RMSNorm of torch.nn with ../venv/bin/python;"
            " if you trust it, add --allow-code [code-not-allowed]"
        )

    @pytest.mark.parametrize(
        ("section", "says"),
        [
            ({}, "name one of `function:` and `module:`"),
            ({"function": "a.py:f", "module": "a.py:F"}, "name one of `function:` and `module:`"),
            ({"function": "kernels.py"}, "kernels.py names no code; write file.py:name or package.module:name"),
            ({"function": "kernels.py:"}, "kernels.py: names no code; write file.py:name or package.module:name"),
            ({"function": "a.py:f", "gain": "weight"}, "`init:`, `gain:` and `bias:` are for a class"),
            ({"module": "a.py:F", "init": ("$gain",)}, "`init:` has $gain; what it can have is $width, $eps"),
            ({"function": "a.py:f", "call": ("x", "$gain")}, "`call:` has the text x; write $x for the value"),
            ({"function": "a.py:f", "call": {"x": ["$y"]}}, "`call:` has $y; what it can have is $x, $residual"),
            ({"module": "a.py:F", "init": {"d": Path("x")}}, "which cannot be handed on"),
            ({"function": "a.py:f", "timeout": 0}, "a call cannot take 0 s"),
            ({"function": "a.py:f", "timeout": float("nan")}, "a call cannot take nan s"),
        ],
    )
    def test_a_section_without_sense_is_refused(self, section: dict[str, Any], says: str) -> None:
        assert says in self.refused(PythonSection(**section))
