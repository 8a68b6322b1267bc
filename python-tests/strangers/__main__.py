# SPDX-License-Identifier: GPL-2.0-only
"""`python -m strangers [NAME ...]`: build servers, try the engine on them, print a table.

Exit status 1 where a trial fails that docs/servers.md has a "yes" for.
"""

import shutil
import sys

from jobs import Fio
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import BUILD, ROOT
from nfsmulti.processes import end_politely
from strangers.servers import STRANGERS, Running, Stranger
from strangers.trials import TRIALS

_RUNS = BUILD / "strangers" / "runs"
_DOCUMENT = ROOT / "docs" / "servers.md"
_COLUMNS = ("server", "version", "from", "NFS", *TRIALS)


def main(names: list[str]) -> int:
    """Try the servers that are named, or all; return the exit status."""
    known = {stranger.name: (number, stranger) for number, stranger in enumerate(STRANGERS, 1)}
    if unknown := set(names) - set(known):
        raise HarnessError(f"no such server: {', '.join(unknown)}; there are {', '.join(known)}")
    print(_row(_COLUMNS), _row([":--"] * len(_COLUMNS)), sep="\n", flush=True)
    broken: list[str] = []
    for name in names or known:
        number, stranger = known[name]
        stranger.program()
        lacks = {one: _lacks(one, stranger, f"127.0.34.{number}") for one in TRIALS}
        cells = ["no" if lines else "yes" for lines in lacks.values()]
        facts = (name, stranger.version, stranger.source, stranger.nfs)
        print(_row([*facts, *cells]), flush=True)
        for trial, lines in lacks.items():
            for line in lines:
                print(f"  {trial}: {line}", file=sys.stderr)
            if lines and _promised(name, trial):
                broken.append(f"{name}: {trial}")
    if broken:
        print(f"{_DOCUMENT.name} says that these work: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _lacks(trial: str, stranger: Stranger, address: str) -> list[str]:
    """Put a server through a trial, on a fresh one; return lines that say what fell short."""
    folder = _RUNS / stranger.name / trial.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with Running(stranger, address, folder) as server:
            return TRIALS[trial](server, Fio(Engine.built()), folder / "fio")
    except HarnessError as error:
        return [str(error)]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _promised(name: str, trial: str) -> bool:
    """Tell whether the documents say "yes" to a trial of a server."""
    columns: list[str] = []
    for line in _DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if trial in cells:
            columns = cells
        elif columns and cells[0].startswith(name):
            return cells[columns.index(trial)].startswith("yes")
    return False


if __name__ == "__main__":
    end_politely()
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(f"strangers: {error}")
