# SPDX-License-Identifier: GPL-2.0-only
"""`python -m nfsmulti`, the command line that ./nfsmulti hands over to."""

from __future__ import annotations

import codecs
import contextlib
import inspect
import io
import locale
import re
import sys

import typer

from nfsmulti.bench.command import app as bench_app
from nfsmulti.compare import compare
from nfsmulti.demo import demo
from nfsmulti.doctor import doctor
from nfsmulti.errors import HarnessError
from nfsmulti.faults.command import faults
from nfsmulti.faults.soak import soak
from nfsmulti.fioreleases import fio_releases
from nfsmulti.lab.commands import app as lab_app
from nfsmulti.paths import COMMAND, as_typed
from nfsmulti.processes import end_politely
from nfsmulti.report.pages import report
from nfsmulti.run.clean import clean
from nfsmulti.run.command import run
from nfsmulti.testrun import run_tests

app = typer.Typer(
    name="nfsmulti",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# Options that a command does not know are for the tool that it runs.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app.add_typer(bench_app, name="bench")
app.add_typer(lab_app, name="lab")
app.command()(demo)
app.command()(doctor)
app.command()(run)
app.command()(clean)
app.command()(report)
app.command()(soak)
app.command()(compare)
app.command()(faults)
app.command()(fio_releases)
app.command("test", context_settings=_PASS_ON)(run_tests)


def _unwrap_help(commands: typer.Typer) -> None:
    """Let a terminal wrap the paragraphs of docstrings, whose lines end where ours do."""
    for command in commands.registered_commands:
        text = inspect.getdoc(command.callback) or ""
        command.help = re.sub(r"(?<=\S)\n(?=\S)", " ", text)
    for group in commands.registered_groups:
        if group.typer_instance:
            _unwrap_help(group.typer_instance)


_unwrap_help(app)


def _print_in_the_locale() -> None:
    """Print the characters of the locale, and "?" for those it has not.

    What is read and written otherwise is UTF-8: ./nfsmulti asks for Python's UTF-8 mode. In the
    locale C, which says nothing of the terminal, so is what is printed.
    """
    with contextlib.suppress(LookupError):  # Python does not know each locale's encoding
        encoding = codecs.lookup(locale.getencoding()).name
        for stream in (sys.stdout, sys.stderr):
            if encoding not in ("ascii", "utf-8") and isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=encoding, errors="replace")


def main() -> None:
    """Run one command. Exit status: 0, the command's own, 1 for an error, 2 for bad usage."""
    end_politely()
    _print_in_the_locale()
    try:
        app(prog_name=COMMAND)
    except HarnessError as error:
        print(as_typed(f"nfsmulti: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
