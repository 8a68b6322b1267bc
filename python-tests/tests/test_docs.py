# SPDX-License-Identifier: GPL-2.0-only
"""README.md, docs/ and the manual page say what is so."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from conftest import call_harness
from engine_c import CData, terms_rows, text, zeros

import made_docs
import messages
import site_files
from nfsmulti import texts, units
from nfsmulti.arguments import COMMANDS, STORIES, understand
from nfsmulti.bench import stall
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.processes import run
from nfsmulti.report import cells, measures
from nfsmulti.report.told import Run
from nfsmulti.stories import SCENARIOS, security
from nfsmulti.story import Levels
from nfsmulti.summary import Cell, Summary

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_README_LINES = 120
_SECONDS = 20.0

# A block of code and its kind; what has none is commands.
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= _README_LINES


# --- links ---


def _prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _BLOCK.sub("", page.read_text())


def _anchors(page: Path) -> set[str]:
    """Return what its headings can be linked to by, as GitHub and MkDocs make it of them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_resolve() -> None:
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", _prose(page))
        for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            assert file.exists(), (page, target)
            assert not anchor or anchor in _anchors(file), (page, target)


def test_architecture_names_files_that_there_are() -> None:
    named = re.findall(r"`(\w+/[\w-]+\.[ch])`", (DOCS / "architecture.md").read_text())
    assert named
    assert [file for file in named if not (ROOT / "engine" / file).exists()] == []


def test_every_page_is_in_the_site() -> None:
    named = set(re.findall(r"(\w[\w-]*\.md)", (ROOT / "mkdocs.yml").read_text()))
    assert named == {page.name for page in DOCS.glob("*.md")}


def test_what_lies_beside_the_pages_is_in_the_site() -> None:
    text = "".join(map(Path.read_text, DOCS.glob("*.md")))
    targets = set(re.findall(r"\]\(\.\./([^)#]+)", text))
    assert targets
    assert targets - set(site_files.outside()) == set()


# --- commands ---

_JOB_PAGE = DOCS / "quickstart.md"
# What a test cannot run: it changes the machine, needs a server, or is another tool's.
_NOT_TRIED = {
    "apt", "apt-get", "chromium", "cmake", "echo", "export", "git", "mkdocs", "modprobe", "mount",
    "grep", "kadmin", "openssl", "pip", "python3", "rdma", "ssh", "valgrind", "vserver",
}  # fmt: skip


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the commands in a page's blocks and sentences, as words, without comments."""
    for line in re.findall(r"`((?:\./nfsmulti|fio -)[^`\n]*)`", _prose(page)):
        yield shlex.split(line)
    for kind, block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines() if not kind else ():
            if words := shlex.split(line, comments=True):
                yield words


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the paths of the pages' commands exist."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("build", "results/dd/TIME", "results/dd/LATER"):
        (folder / name).mkdir(parents=True)
    (folder / "FILE.c").touch()
    (folder / "build/libnfsmulti.so").symlink_to(Engine.built().library)
    (folder / "jobfiles").symlink_to(ROOT / "jobfiles")
    (job,) = [text for kind, text in _BLOCK.findall(_JOB_PAGE.read_text()) if kind == "ini"]
    (folder / "job.fio").write_text(job.replace("/usr/local/lib/fio/", "./build/"))
    return folder


def test_commands_parse(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    for words in (words for page in PAGES for words in _commands(page)):
        if words[0] == "fio":
            _check_fio(words, work)
        elif words[0] == "./nfsmulti":
            _check_harness(words[1:], work)
        elif words[0].startswith("build/"):
            assert Path(words[0]).name in _NOT_TRIED
        elif words[0].startswith("./build/"):
            assert (Engine.built().library.parent / words[0].removeprefix("./build/")).exists()
        else:
            assert words[0] in _NOT_TRIED, shlex.join(words)


def _check_fio(words: list[str], work: Path) -> None:
    """Let fio parse a command, with the engine; a client's names job files that it would send."""
    if words == ["fio", "--server"]:
        return
    if words[1].startswith("--enghelp="):
        assert run(words, timeout=_SECONDS, cwd=work).status == 0
        return
    words = [word for word in words if not word.startswith("--client=")]
    words = list(dict.fromkeys(words))
    done = run([*words, "--parse-only"], timeout=_SECONDS, cwd=work)
    assert done.status == 0, done.stderr + done.stdout


def _check_harness(words: list[str], work: Path) -> None:
    """Parse a command of the harness, and the fio that it may run."""
    if words[0] in ("build", "package", "--help"):  # the front end's; cmake's options
        return
    inner = words[words.index("--") + 1 :] if "--" in words else []
    if (named := shlex.join(words).removesuffix(" --help")) in COMMANDS or named in (
        "lab",
        "bench",
    ):
        return  # it is only named
    understand(words)
    if inner[:1] == ["fio"]:
        _check_fio(inner, work)


def test_help_is_wrapped_by_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is narrower than the lines of docstrings."""
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["run"], ["lab", "kernel"], ["faults"], ["soak"], ["demo"]):
        prose = (
            call_harness(*words, "--help")
            .stdout.partition("arguments:")[0]
            .partition("options:")[0]
            .splitlines()
        )
        for line, after in itertools.pairwise(prose):
            if line.strip() and after.strip():
                assert len(line.rstrip()) + 1 + len(after.split()[0]) > 78, (words, line)


# --- what is generated ---


def test_pictures_show_the_reference_runs(tmp_path: Path) -> None:
    """A reference run that came later: made_docs.py draws them again."""
    for drawn in made_docs.write_pictures(tmp_path):
        assert drawn.read_bytes() == (DOCS / drawn.name).read_bytes(), drawn.name


def test_options_are_the_engines(tmp_path: Path) -> None:
    """An option or a message that changed: made_docs.py writes them again."""
    files = (made_docs.PAGE, made_docs.MANUAL, made_docs.MESSAGES)
    copies = [Path(shutil.copy(file, tmp_path)) for file in files]
    assert made_docs.write_options(*copies) == copies
    for copy, file in zip(copies, files, strict=True):
        assert copy.read_text() == file.read_text(), file.name


def test_every_scenario_is_named_where_one_looks_for_it() -> None:
    text = (DOCS / "scenarios.md").read_text()
    assert [name for name in STORIES if not re.search(rf"\b{name}\b", text)] == []


def test_manual_names_every_job_file() -> None:
    manual = made_docs.MANUAL.read_text()
    assert [job.stem for job in ROOT.glob("jobfiles/*.fio") if job.stem not in manual] == []


# --- figures ---


def test_figures_are_of_the_reference_runs() -> None:
    """A reference run that came later: bring the pages' ratios up to date.

    Of `compare` the example is no reference run's.
    """
    reports = "".join(map(Path.read_text, ROOT.glob("results/reference/*/report.md")))
    interval = re.compile(r"\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\)")
    texts = [
        re.sub(r"```text\n[^\n]*: worse\.\n.*?```", "", page.read_text(), flags=re.DOTALL)
        for page in PAGES
    ]
    quoted = {ratio for text in texts for ratio in interval.findall(text)}
    assert quoted
    assert sorted(ratio for ratio in quoted if ratio not in reports) == []


def test_the_verdict_quoted_is_the_reference_runs() -> None:
    of_story = (DOCS / "scenarios.md").read_text().partition("\n## connections\n")[2]
    quote = re.findall(r"(?:^> .*\n)+", of_story, re.MULTILINE)[0]
    report = (ROOT / "results/reference/connections/report.md").read_text()
    assert " ".join(quote.replace("> ", " ").split()) in " ".join(report.split())


def _run(name: str) -> Summary:
    return Summary.load(ROOT / "results/reference" / name)


def _headline(name: str) -> str:
    """Return how the answer of a reference run begins, made from its kept figures."""
    return SCENARIOS[name].report.tell(_run(name)).answer.headline


def _capped() -> dict[int, list[Cell]]:
    """Return the capped cells of one job, by their connections."""
    found = cells.at(_run("connections").done, {"limits": "capped", "jobs": 1})
    return {int(cell.connections or 0): [c for c in found if c.connections == cell.connections]
            for cell in sorted(found, key=lambda one: one.connections or 0)}  # fmt: skip


def _limits() -> dict[str, str]:
    limits: dict[str, str] = _run("connections").place["limits"]["capped"]
    return limits


def _row(count: int) -> str:
    """Return a row of README's text: MB/s, times one connection, p99 and CPU."""
    every = _capped()
    gain = cells.ratio(every[count], every[1], measures.MB_PER_S)
    p99, cpu = (
        cells.percentile_of(every[count], 99), cells.sample(every[count], measures.MACHINE_CPU)
    )  # fmt: skip
    assert gain
    assert p99
    times = "1" if count == 1 else f"{gain.value:.2f}"
    rate = texts.mean(cells.sample(every[count], measures.MB_PER_S))
    return " ".join([str(count), rate, times, texts.number(p99 / 1000), texts.mean(cpu)])


def _gains() -> str:
    every = _capped()
    gains = [cells.ratio(of, every[1], measures.MB_PER_S) for of in every.values()]
    told = texts.several([f"{gain.value:.1f}" for gain in gains if gain])
    return f"{told} times with {texts.several([*map(str, every)])} connections"


def _range(scale: int, places: int) -> str:
    ratios = [scale * ratio.value for _, ratio in made_docs.cost_ratios()]
    assert len(ratios) == 10
    return f"{min(ratios):.{places}f} to {max(ratios):.{places}f}"


def _p99_ms(line: str) -> str:
    names = {label: name for name, label in stall._LINES.items()}
    wait = stall.ms(stall.waits_of(_run("stall"))[names[line]], 99)
    return f"{wait:.0f}" if wait >= 1 else f"{wait:.2f}"


def _dearer(flavor: str, workload: str = "64k-read", *, server: bool = False) -> str:
    """Return what a flavor takes in times the CPU of sys, as the tables have it."""
    run = Run(SCENARIOS["security"], _run("security"))
    at: Levels = {"workload": workload, "client": "engine", "connections": 1}
    sides = ({**at, "flavor": one} for one in (flavor, "sys"))
    ratio = run.ratio(security.SERVER if server else security.CLIENT, *sides)
    return texts.marked(ratio).rstrip("?") if ratio else ""


def _dear(flavor: str) -> str:
    asked = [(one, False) for one in ("64k-read", "64k-write", "1m-read", "4k-randread")]
    every = (_dearer(flavor, one, server=of) for one, of in [*asked, ("64k-read", True)])
    return " | ".join(every).strip()


def _lookups(jobs: int) -> str:
    found = cells.at(
        _run("metadata").done, {"operation": "lookup", "client": "filestat", "jobs": jobs}
    )
    return texts.mean(cells.sample(found, measures.IOPS))


# What is quoted, with a group for each figure, and how each is made from the run's kept figures.
_RATIO = r"([\d.]+ \([\d.]+ to [\d.]+\))"
_QUOTED: list[tuple[str, str, Sequence[Callable[[], str]]]] = [
    (
        "README.md", r"```text\n\$.*\n(.*)\n",
        [lambda: _headline("connections").split("; uncapped")[0]],
    ),
    *(
        ("README.md", rf"capped, 1 job +({count} .*)\n", [functools.partial(_row, count)])
        for count in (1, 4, 16)
    ),
    ("README.md", r"each of which is capped: (.*);", [_gains]),
    ("README.md", r"([\d]+ to [\d]+) %\.\]", [lambda: _range(100, 0)]),
    ("docs/client-cost.md", r"([\d]+ to [\d]+) % of what", [lambda: _range(100, 0)]),
    ("README.md", r"workloads \| (.*) \| 1 \| not compared", [lambda: _range(1, 2)]),
    (
        "README.md", r"capped at ([\d.]+ Gbit/s)\n",
        [lambda: texts.rate_text(units.parse_rate(_limits()["per_connection"]))],
    ),
    ("README.md", r"users see, (.*) ms at p99", [lambda: _p99_ms("what users see")]),
    ("README.md", r"reports (0.*) ms\.\]", [lambda: _p99_ms("rate_iops")]),
    (
        "README.md", r"every five wait (.*) ms at p99; fio's `rate_iops` says (.*) ms",
        [lambda: _p99_ms("what users see"), lambda: _p99_ms("rate_iops")],
    ),
    ("README.md", rf"krb5p takes {_RATIO} times", [lambda: _dearer("krb5p")]),
    (
        "docs/security.md", rf"{_RATIO} times the CPU with krb5i, {_RATIO} .*\n.* {_RATIO} times",
        [functools.partial(_dearer, flavor) for flavor in ("krb5i", "krb5p", "tls")],
    ),
    *(
        ("docs/security.md", rf"\n\| {flavor} \| (.*) \|\n", [functools.partial(_dear, flavor)])
        for flavor in ("krb5", "krb5i", "krb5p", "tls", "mtls")
    ),
    *(
        ("docs/scenarios.md", rf"\n\*(.*{word}.*)\*\n", [functools.partial(_headline, name)])
        for name, word in (("security", "krb5p costs"), ("latency", "keep p99"))
    ),
    (
        "docs/scenarios.md", r"\n> (300 of 300 clients were back .*)\n",
        [lambda: SCENARIOS["clients"].report.tell(_run("clients-restart")).answer.headline],
    ),
    (
        "docs/scenarios.md", r"looked up (\d+) files .*\n.* 625 each did (\d+)",
        [lambda: _lookups(1), lambda: _lookups(32)],
    ),
]  # fmt: skip
# Of README's figures those that are ours to show: what fio is given and the limits are none.
_FIGURE = re.compile(
    r"(?<![\w.,])\d[\d.,]* ?(?:times|%|MB/s|IOPS|ms|Gbit/s|µs)(?!\w)|"
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten) (?:times|seconds)"
)


@pytest.mark.parametrize(
    ("page", "pattern", "made"),
    _QUOTED,
    ids=[f"{page}-{pattern:.30}" for page, pattern, _ in _QUOTED],
)
def test_a_figure_that_is_quoted_is_the_reference_runs(
    page: str, pattern: str, made: Sequence[Callable[[], str]]
) -> None:
    found = re.search(pattern, (ROOT / page).read_text())
    assert found, pattern
    quoted = [" ".join(one.split()).rstrip(" |") for one in found.groups()]
    assert quoted == [one().rstrip(" |") for one in made]


def test_readme_quotes_no_figure_without_its_data() -> None:
    text = (ROOT / "README.md").read_text()
    held = [found.span() for page, pattern, _ in _QUOTED if page == "README.md"
            for found in re.finditer(pattern, text)]  # fmt: skip
    asked = r"How much load at 1 ms|stall\.svg|within"
    alone = [
        line
        for figure in _FIGURE.finditer(text)
        for line in [text[text.rfind("\n", 0, figure.start()) + 1 : figure.end()]]
        if not any(begin <= figure.start() < end for begin, end in held)
        if not re.search(asked, line)
    ]
    assert alone == []


# --- messages ---

_PAGE = DOCS / "messages.md"


def _composed(lib: CData) -> Iterator[str]:
    """Yield what the engine says of a choice by its row of terms_table."""
    for term in terms_rows(lib):
        word = text(term.in_path or term.word).split()[0]
        values = [value for value in term.values if value.word]
        if term.refusal:
            refused = next(text(one.word) for one in values if one.value == term.refused)
            yield f"{word}={refused}{text(term.refusal)}"
        if term.in_path and values:
            pool, error = zeros("pool"), zeros("pool_error")
            lib.pool_parse(f"nfs://h/x?{word}=?".encode(), pool, error)
            yield text(error.reason)


def test_listed_messages_are_in_the_sources(testlib: CData) -> None:
    printed = [*messages.engine(ROOT / "engine"), *messages.harness(ROOT)]
    printed += [messages.front_end(ROOT / "nfsmulti"), *_composed(testlib)]
    listed = messages.listed(_PAGE.read_text())
    assert [said for said in listed if not any(said in text for text in printed)] == []


def test_composed_messages_are_listed(testlib: CData) -> None:
    listed = messages.listed(_PAGE.read_text())
    composed = set(_composed(testlib))
    assert [text for text in sorted(composed) if not any(said in text for said in listed)] == []


def test_a_message_without_a_row_says_what_to_do() -> None:
    """A new message: let it end with what to do (messages.py has the rule), or add a row."""
    unlisted = messages.unlisted(_PAGE.read_text(), ROOT)
    assert [what for what, remedy in sorted(unlisted) if not remedy] == []
