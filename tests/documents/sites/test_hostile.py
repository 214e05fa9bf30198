"""Names made to cost time or to end the program."""

from collections.abc import Callable

from rmsaudit.documents.sites import Sites

Find = Callable[..., Sites]


def test_long_names_and_long_numbers(of_config: Find) -> None:
    shapes = {
        f"net.{'9' * 5000}.norm.weight": 8,  # more digits than int() takes
        f"model.layers.{'9' * 50}.input_layernorm.weight": 8,
        f"{'norm_' * 40}!.weight": 8,  # backtracks, where a pattern can be read in several ways
        f"norm{'a1' * 100}.bias.weight.": 8,
        "net.0.norm.weight": 8,
    }
    assert "net.0.norm" in {site.name for site in of_config({"norm_eps": 1e-5}, shapes).sites}
    assert of_config({"model_type": "llama"}, shapes).sites == ()


def test_names_with_braces_and_controls(of_config: Find) -> None:
    shapes = {"net.{0}.norm.weight": 8, "net.\x1b[2J.norm.weight": 8, "net.\n.norm.weight": 8}
    sites = of_config({"norm_eps": 1e-5}, shapes)
    assert all(text.isprintable() for site in sites.sites for text in site.source.values())
