"""The table of architectures as a whole."""

from collections import Counter

from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.documents.sites.architecture import OFFSETS, Lookup
from rmsaudit.documents.sites.known import ARCHITECTURES, BY_GGUF, BY_MODEL_TYPE

NORMS = [(known, norm) for known in ARCHITECTURES for norm in known.norms]


def test_more_than_a_hundred_are_known_each_once() -> None:
    assert Counter(known.model_type for known in ARCHITECTURES).most_common(1)[0][1] == 1
    assert len(ARCHITECTURES) > 100
    assert len([known for known in BY_GGUF.values() if known.norms]) > 50


def test_presets_exist_and_offsets_are_theirs() -> None:
    presets = {norm.preset or known.preset for known, norm in NORMS}
    assert presets <= set(preset_names())
    offsets = {preset: read_preset(preset).values.get("gain_offset", 0) for preset in presets}
    assert {preset: offset for preset, offset in offsets.items() if offset} == OFFSETS


def test_every_tower_is_a_known_model_with_norms() -> None:
    for known in ARCHITECTURES:
        for tower in known.towers:
            assert BY_MODEL_TYPE[tower.model_type].norms


def test_each_has_norms_or_a_remark_and_no_norm_twice() -> None:
    for known in ARCHITECTURES:
        assert bool(known.norms or known.towers) != bool(known.remark)
        names = [norm.at for norm in known.norms]
        assert len(set(names)) == len(names)
        in_gguf = [norm.gguf for norm in known.norms if norm.gguf and known.gguf]
        assert len(set(in_gguf)) == len(in_gguf)


def test_model_types_that_share_a_gguf_architecture_have_the_same_names_there() -> None:
    """A file says only the latter, so that the first of them stands for all."""
    for known in ARCHITECTURES:
        if known.gguf and known.norms:
            first = BY_GGUF[known.gguf]
            ours = {norm.gguf: norm.at for norm in known.norms if norm.gguf}
            theirs = {norm.gguf: norm.at for norm in first.norms if norm.gguf}
            assert ours == theirs


def test_lookup() -> None:
    lookup = Lookup([["layers.{}.norm"], ["layers.{}.layer.0.norm", None], ["norm", "ln_f"], []])
    names = ("layers.3.norm", "layers.12.layer.0.norm", "layers.12.layer.1.norm", "ln_f", "norm", "layers.x.norm", "")
    found = [lookup.find(name) for name in names]
    assert [(each.index, each.numbers) if each else None for each in found] == [
        (0, (3,)),
        (1, (12,)),
        None,
        (2, ()),
        (2, ()),
        None,
        None,
    ]
