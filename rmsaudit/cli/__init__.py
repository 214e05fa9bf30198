"""The command line: words in, words out, exit code. One file per command, imported when it is used.

The only place that turns an exception into text, and the only one that exits.
"""

import sys
from importlib import import_module
from pkgutil import iter_modules

import click

from rmsaudit import __version__
from rmsaudit.errors import Exit, InputProblem, RmsauditError


class Commands(click.Group):
    """A group whose commands are the modules of this package: `list_.py` is `rmsaudit list`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return sorted(module.name.rstrip("_") for module in iter_modules(__path__) if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = f"{__name__}.{cmd_name}_" if cmd_name == "list" else f"{__name__}.{cmd_name}"
        command: click.Command = import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest command in the message."""
        from difflib import get_close_matches

        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(self.list_commands(ctx))}"
            ctx.fail(f"No such command '{name}'; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="rmsaudit")
def rmsaudit() -> None:
    """Audit the numerical parity of two RMSNorm implementations.

    \b
    rmsaudit compare --ref a.yaml --cand b.yaml --tolerance t.yaml --out record.yaml

    Exit codes: 0 accepted or not judged, 1 rejected or reference suspect, 2 unusable input or flags,
    3 a side could not run, 4 nothing compared, 70 a bug in rmsaudit, 130 interrupted.
    """


def main() -> None:
    """The program. Exits with one of `errors.Exit`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command and gives its exit code; every error becomes text on standard error here."""
    try:
        code = rmsaudit.main(args=arguments, prog_name="rmsaudit", standalone_mode=False)
        return int(code or Exit.OK)
    except click.ClickException as problem:
        problem.show()
        return Exit.INPUT_PROBLEM
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing was written", err=True)
        return Exit.INTERRUPTED
    except InputProblem as problem:
        for each in problem.problems:
            click.echo(str(each), err=True)
        return problem.exit_code
    except RmsauditError as problem:
        click.echo(f"rmsaudit: {problem}", err=True)
        return problem.exit_code
    except BrokenPipeError:
        return _broken_pipe()
    except Exception:
        return _bug(arguments)


def _broken_pipe() -> int:
    """The reader of our output went away (`| head`): not an error of ours, and no second message at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK


def _bug(arguments: list[str]) -> int:
    """A report ready to paste: what was run, on what, and where it broke."""
    import platform
    import traceback

    click.echo("rmsaudit: a bug in rmsaudit, not in your files; please report the lines below", err=True)
    click.echo(f"rmsaudit {__version__}, Python {platform.python_version()}, {platform.platform()}", err=True)
    click.echo(f"arguments: {arguments}", err=True)
    click.echo(traceback.format_exc(), err=True)
    return Exit.BUG
