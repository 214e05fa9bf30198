"""Where a norm sits: small models as they are and with a norm moved, layers computed here, and what cannot be seen."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmsaudit.arrays import Array, round_to
from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.documents.preset import read_preset
from rmsaudit.documents.sites.find import find_sites
from rmsaudit.documents.tensors import tensors_in
from rmsaudit.loaders import tensors
from rmsaudit.placement import (
    Boundary,
    Placement,
    Sublayer,
    disagreement,
    names_around,
    place_of,
    place_sites,
    run_dtype,
)
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import resolve

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
WIDTH = 96

LLAMA = {"input_layernorm": [("self_attn", "before")], "post_attention_layernorm": [("mlp", "before")]}
GEMMA2 = {
    "input_layernorm": [("self_attn", "before")],
    "post_attention_layernorm": [("self_attn", "after")],
    "pre_feedforward_layernorm": [("mlp", "before")],
    "post_feedforward_layernorm": [("mlp", "after")],
}
WANTED: dict[str, dict[str, list[tuple[str, str]]]] = {
    "llama": LLAMA,
    "llama-after-attention": {**LLAMA, "post_attention_layernorm": [("self_attn", "after")]},
    "llama-after-addition": {**LLAMA, "post_attention_layernorm": [("self_attn", "after_addition")]},
    "llama-on-residual": {
        "input_layernorm": [("self_attn", "before"), ("self_attn", "on_residual")],
        "post_attention_layernorm": [("mlp", "before"), ("mlp", "on_residual")],
    },
    "gemma2": GEMMA2,
    "gemma2-after-addition": {
        **GEMMA2,
        "post_attention_layernorm": [("self_attn", "after_addition")],
        "post_feedforward_layernorm": [("mlp", "after_addition")],
    },
    "qwen3-bfloat16": LLAMA,
}


def found_in(file: str, layer: int) -> dict[str, Placement]:
    """Every norm of a layer of a recorded model, under the end of its name."""
    recorded = {n: tensors.load(p) for n, p in tensors_in(MODELS / "placement" / f"{file}.safetensors").items()}
    word, path = run_dtype(list(recorded.values())), f"model.layers.{layer}"
    norms = {
        site.name: (
            resolve({**read_preset(site.preset).values, **site.declared, "input_dtype": word, "gain_dtype": word}),
            tensors.load(site.tensor),
        )
        for site in find_sites(open_checkpoint(MODELS / f"{file.split('-')[0]}-tiny")).sites
        if site.tensor and site.name.startswith(f"{path}.")
    }
    return {name.rpartition(".")[2]: each for name, each in place_sites(path, norms, recorded).items()}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("file", WANTED)
def test_every_norm_is_found_where_it_was_put(file: str, layer: int) -> None:
    found = found_in(file, layer)
    assert {name: list(each.places) for name, each in found.items()} == WANTED[file]
    assert not any(each.is_unexplained for each in found.values())


@pytest.mark.parametrize("file", WANTED)
def test_what_explains_is_far_from_what_does_not(file: str) -> None:
    """The limit of 1 is not what decides: the next formula misses what rounding can do by a factor of ten or more."""
    for each in found_in(file, 0).values():
        shares = [trial.share for trial in each.trials if trial.boundary]
        assert not [share for share in shares if 0.9 < share < 10]


def test_a_norm_with_another_eps_explains_nothing() -> None:
    """Rows of the first layer are small: eps 1e-3 in place of 1e-5 moves them by 20 % (the twin of the test above)."""
    recorded = {n: tensors.load(p) for n, p in tensors_in(MODELS / "placement" / "llama.safetensors").items()}
    site = find_sites(open_checkpoint(MODELS / "llama-tiny")).sites[0]
    assert site.tensor is not None
    declared = {**read_preset(site.preset).values, **site.declared, "eps": 1e-3, "gain_dtype": "float32"}
    norms = {site.name: (resolve(declared), tensors.load(site.tensor))}
    found = place_sites("model.layers.0", norms, recorded)[site.name]
    assert found.is_unexplained
    assert found.says.startswith("at no boundary that was recorded; the nearest is before self_attn, 0.")


# --- layers computed here --------------------------------------------------------------------------------------------


def norm_of(x: Array, gain: Array, word: str) -> Array:
    """float32 inside, rounded to `word`; np.mean adds pairwise."""
    wide = x.astype(np.float32)
    found = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + np.float32(1e-5)) * gain.astype(np.float32)
    return round_to(found, word)


def added(one: Array, other: Array, word: str) -> Array:
    return round_to(one.astype(np.float64) + other.astype(np.float64), word)


def computed(boundary: str, word: str, gain: Array, scale: float = 1.0) -> Sublayer:
    """A sublayer that is a matrix, with a norm at one boundary."""
    rng = np.random.default_rng(7)
    h = round_to(rng.standard_normal((12, WIDTH)) * scale, word)
    matrix = rng.standard_normal((WIDTH, WIDTH)) / 4
    s = norm_of(h, gain, word) if boundary == "before" else h
    f = round_to(s.astype(np.float64) @ matrix, word)
    y = {
        "after": lambda: added(h, norm_of(f, gain, word), word),
        "after_addition": lambda: norm_of(added(h, f, word), gain, word),
        "on_residual": lambda: added(norm_of(h, gain, word), f, word),
    }.get(boundary, lambda: added(h, f, word))()
    return Sublayer(name="mlp", before=h, input=s, output=f, after=y)


def declared(word: str) -> NormSpec:
    return resolve({"width": WIDTH, "eps": 1e-5, "input_dtype": word, "gain_dtype": word, "cast_point": "after_gain"})


def gains(word: str) -> Array:
    return round_to(1 + np.random.default_rng(3).standard_normal(WIDTH) / 2, word)


@pytest.mark.parametrize("word", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("boundary", ["before", "after", "after_addition", "on_residual"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_a_computed_layer_is_read(boundary: Boundary, word: str, scale: float) -> None:
    found = place_of(declared(word), gains(word), [computed(boundary, word, gains(word), scale)])
    assert found.places == (("mlp", boundary),)


@pytest.mark.parametrize("word", ["float32", "bfloat16"])
def test_a_layer_without_the_norm_has_it_nowhere(word: str) -> None:
    found = place_of(declared(word), gains(word), [computed("none", word, gains(word))])
    assert found.places == ()
    assert found.is_unexplained


def test_gains_that_were_rounded_when_loaded_are_recognised() -> None:
    stored = gains("float32")
    found = place_of(declared("bfloat16"), stored, [computed("before", "bfloat16", round_to(stored, "bfloat16"))])
    assert found.says == "before mlp"


# --- what cannot be seen ---------------------------------------------------------------------------------------------


def test_gains_of_one_on_rows_of_rms_one_show_nothing() -> None:
    """N(h) is h, but for eps: both formulas explain what enters the sublayer."""
    ones = np.ones(WIDTH, np.float32)
    h = np.where(np.random.default_rng(0).random((4, WIDTH)) < 0.5, -1.0, 1.0).astype(np.float32)
    spec = resolve({"width": WIDTH, "eps": 1e-12})
    f = (h[:, ::-1] * np.float32(0.25)).copy()
    found = place_of(spec, ones, [Sublayer(name="mlp", before=h, input=h, output=f, after=h + f)])
    assert found.places == ()
    assert found.says == "not observable (mlp: no norm at mlp and before mlp explain the same)"


def test_gains_of_one_on_other_rows_show_it() -> None:
    ones = np.ones(WIDTH, np.float32)
    assert place_of(declared("float32"), ones, [computed("before", "float32", ones, 3.0)]).says == "before mlp"


@pytest.mark.parametrize("field", ["before", "input"])
def test_what_was_not_recorded_is_named(field: str) -> None:
    whole = computed("before", "float32", gains("float32"))
    parts = {name: getattr(whole, name) for name in ("before", "input", "output", "after") if name != field}
    found = place_of(declared("float32"), gains("float32"), [Sublayer(name="mlp", **parts)])
    assert found.places == ()
    assert found.says == "not observable (what enters mlp and the stream before it were not both recorded)"


def test_a_part_is_enough_for_what_it_shows() -> None:
    whole = computed("before", "float32", gains("float32"))
    found = place_of(
        declared("float32"), gains("float32"), [Sublayer(name="mlp", before=whole.before, input=whole.input)]
    )
    assert found.says == "before mlp"
    assert found.open_ == ("what leaves mlp and the stream on both sides of it were not all recorded",)


def test_rows_that_are_not_finite_are_passed_over() -> None:
    whole = computed("after", "float32", gains("float32"))
    assert whole.before is not None
    h = whole.before.copy()
    h[0, 0], h[1, 1] = np.nan, np.inf
    layer = Sublayer(name="mlp", before=h, input=whole.input, output=whole.output, after=whole.after)
    assert place_of(declared("float32"), gains("float32"), [layer]).places == (("mlp", "after"),)


def test_a_norm_without_a_bound_says_so() -> None:
    spec = resolve({"width": WIDTH, "eps": 1e-5, "center": True})
    found = place_of(spec, gains("float32"), [computed("before", "float32", gains("float32"))])
    assert found.says.startswith("not observable (subtracting a mean can cancel every digit")


def test_sites_of_equal_gains_are_told_together() -> None:
    ones = np.ones(WIDTH, np.float32)
    layer = computed("before", "float32", ones, 3.0)
    assert layer.before is not None
    assert layer.input is not None
    recorded = {"layers.0/input": layer.before, "layers.0.attn/input": layer.input}
    norms = {f"layers.0.{name}": (declared("float32"), ones) for name in ("one", "other")}
    found = place_sites("layers.0", norms, recorded)
    assert found["layers.0.one"].says == "before attn (or layers.0.other, of equal gains)"


def test_disagreement_needs_both_to_be_known() -> None:
    here, there, nowhere = (
        place_of(declared("float32"), gains("float32"), [computed(boundary, "float32", gains("float32"))])
        for boundary in ("before", "after_addition", "none")
    )
    says = "reference: before mlp; candidate: after the residual addition of mlp"
    assert disagreement(here, there) == says
    assert disagreement(here, here) is None
    assert disagreement(here, nowhere) is None


def test_disagreement_is_about_what_both_have_recorded() -> None:
    """On the residual and before: of a candidate without the stream behind the sublayer only one of both is known."""
    rng = np.random.default_rng(0)
    h, gain = rng.standard_normal((4, WIDTH)).astype(np.float32), gains("float32")
    n = norm_of(h, gain, "float32")
    f = n[:, ::-1].copy()
    whole = Sublayer(name="mlp", before=h, input=n, output=f, after=n + f)
    part = Sublayer(name="mlp", before=h, input=n)
    placed, partly = (place_of(declared("float32"), gain, [layer]) for layer in (whole, part))
    assert placed.says == "before mlp and on the residual beside mlp"
    assert partly.says == "before mlp"
    assert disagreement(placed, partly) is None


def test_tensors_of_different_shapes_are_refused() -> None:
    recorded = {
        "layers.0/input": np.ones((3, WIDTH), np.float32),
        "layers.0.mlp/input": np.ones((4, WIDTH), np.float32),
    }
    with pytest.raises(ValueError, match=r"different shapes: layers.0/input \[3, 96\], layers.0.mlp/input \[4, 96\]"):
        place_sites("layers.0", {"layers.0.norm": (declared("float32"), gains("float32"))}, recorded)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def around() -> Callable[..., dict[str, dict[str, str]]]:
    def build(*names: str) -> dict[str, dict[str, str]]:
        return names_around("model.layers.0", names)

    return build


def test_names_around_attention_and_what_follows(around: Callable[..., dict[str, dict[str, str]]]) -> None:
    layer = "model.layers.0"
    names = [f"{layer}/{end}" for end in ("input", "after_attention", "output")]
    names += [f"{layer}.{part}/{end}" for part in ("mlp", "self_attn") for end in ("input", "output")]
    assert around(*names) == {
        "self_attn": {
            "before": f"{layer}/input",
            "input": f"{layer}.self_attn/input",
            "output": f"{layer}.self_attn/output",
            "after": f"{layer}/after_attention",
        },
        "mlp": {
            "before": f"{layer}/after_attention",
            "input": f"{layer}.mlp/input",
            "output": f"{layer}.mlp/output",
            "after": f"{layer}/output",
        },
    }


def test_names_of_the_next_layer_and_of_a_single_sublayer(around: Callable[..., dict[str, dict[str, str]]]) -> None:
    layer = "model.layers.0"
    found = around(f"{layer}/input", f"{layer}.mixer/output", "model.layers.1/input", "model.layers.1.mixer/output")
    assert found == {
        "mixer": {"before": f"{layer}/input", "output": f"{layer}.mixer/output", "after": "model.layers.1/input"}
    }


def test_attention_alone_does_not_borrow_the_stream_of_the_layer(
    around: Callable[..., dict[str, dict[str, str]]],
) -> None:
    layer = "model.layers.0"
    found = around(f"{layer}/input", f"{layer}/output", f"{layer}.self_attn/input")
    assert found == {"self_attn": {"before": f"{layer}/input", "input": f"{layer}.self_attn/input"}}


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float32", "float64"])
def test_run_dtype_is_the_one_that_holds_every_value(word: str) -> None:
    rows = round_to(np.random.default_rng(0).standard_normal((4, 8)), word).astype(np.float64)
    assert run_dtype([rows]) == word
    assert run_dtype([rows, np.array([1e30, 1 + 2.0**-52, np.nan])]) == "float64"
