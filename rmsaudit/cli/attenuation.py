"""rmsaudit attenuation: where eps begins to matter, in numbers and as a picture."""

import click

BAR = 50


class PositiveNumber(click.ParamType[float]):
    """A finite number above 0, and at most `at_most` where that is given."""

    name = "number"

    def __init__(self, below: float | None = None) -> None:
        self.below = below

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from math import isfinite

        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not isfinite(number) or number <= 0:
            self.fail(f"{value} is not a finite number above 0", param, ctx)
        if self.below is not None and number >= self.below:
            self.fail(f"{value} is not below {self.below:g}", param, ctx)
        return number


@click.command(name="attenuation")
@click.option("--eps", type=PositiveNumber(), required=True, help="The eps inside the root.")
@click.option(
    "--max-loss", type=PositiveNumber(below=1), default=0.01, show_default=True, help="Loss that is still fine."
)
@click.option("--q-range", type=PositiveNumber(), nargs=2, metavar="LO HI", help="Mean squares to draw A over.")
def command(eps: float, max_loss: float, q_range: tuple[float, float] | None) -> None:
    """Say how far eps attenuates a row: A = sqrt(q / (q + eps)), q the row's mean square.

    \b
    Example: rmsaudit attenuation --eps 1e-6 --max-loss 0.01
    """
    from math import sqrt

    from rmsaudit.attenuation import ratio_for_loss

    ratio = ratio_for_loss(max_loss)
    q = ratio * eps
    if q_range is not None and q_range[0] >= q_range[1]:
        raise click.BadParameter("LO must be below HI", param_hint="--q-range")
    click.echo(f"eps {eps:g} inside the root, loss at most {max_loss:g} (A >= {1 - max_loss:g}):")
    click.echo(f"  q/eps >= {ratio:.12g}")
    click.echo(f"  mean square q >= {q:.6g}, rms >= {sqrt(q):.6g}")
    click.echo("")
    low, high = q_range or (eps / 1000, eps * 10000)
    for line in _picture(eps, low, high, q):
        click.echo(line)


def _picture(eps: float, low: float, high: float, needed: float) -> list[str]:
    """A over q, logarithmic in q, one bar a line; the first line that loses no more than allowed is marked."""
    from math import log10, sqrt

    from rmsaudit.attenuation import attenuation

    steps = max(2, min(40, round(2 * (log10(high) - log10(low)))))
    lines = [f"{'q':>10}  {'rms':>10}  {'q/eps':>10}  {'A':>8}"]
    marked = False
    for step in range(steps + 1):
        q = low * (high / low) ** (step / steps)
        a = attenuation(q / eps)
        mark = "  <- enough from here" if q >= needed and not marked else ""
        marked = marked or bool(mark)
        lines.append(f"{q:10.3g}  {sqrt(q):10.3g}  {q / eps:10.3g}  {a:8.6f}  {'█' * round(a * BAR)}{mark}")
    return lines
