# SPDX-License-Identifier: GPL-2.0-only
"""The sweep's report: of servers whose settings matter, and of those where none does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from itertools import product

import made_runs
import pytest
from made_runs import faster, only, placed, report_of

from nfsmulti.run.plan import crossed
from nfsmulti.scenario import Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Factor, Summary

_SWEEP = SCENARIOS["sweep"]


_TWO_BUFFERS: tuple[Factor, ...] = (65536, 131072)


def made_sweep(
    speed: Callable[[dict[str, Factor]], float], /, repeats: int = 3, **more: tuple[Factor, ...]
) -> Summary:
    """Make a sweep of a server of which `speed` gives the MB/s; `more` has other levels."""
    made = made_runs.Maker("sweep", repeats)
    levels: dict[str, tuple[Factor, ...]] = {
        "direction": ("read", "write"), "sync": ("sync", "async"), "mount": ("soft", "hard"),
        "buffer": (16384, 32768, 65536, 131072), "transfer": (64,), **more,
    }  # fmt: skip
    for values in product(*levels.values()):
        factors = dict(zip(levels, values, strict=True))
        made.add(factors, rate=speed(factors) * 1e6, block=1 << 20)
    return made.summary()


def _drifting(run: Summary, drift: Callable[[Cell], float]) -> Summary:
    cells = [faster(cell, drift(cell)) for cell in run.cells]
    return dataclasses.replace(run, cells=cells)


def test_the_page_of_a_server_that_is_flat_from_32768_up() -> None:
    """The buffer alone matters."""
    text = report_of(made_runs.sweep())
    assert "MB/s writes at most; what matters is rsize and wsize." in text
    matters = r"\d+\.\d %, matters: (32768|65536|131072)"
    assert re.search(rf"\| rsize and wsize \| {matters} \| {matters} \|", text)
    assert re.search(r"\| sync or async \| \d\.\d %, no effect \| \d\.\d %, no effect \|", text)
    assert "may be chance" not in text
    published = (
        r"\| best read, buffers of 131072; ours: mean of all settings \| 118 MB/s \| 11\d MB/s"
    )
    assert re.search(published, text)
    assert "| read of 4096 MB, buffers of 131072 | 36.547 s | 4.00 s |" in text


def test_plots_are_open_where_a_setting_matters() -> None:
    matters = made_sweep(lambda factors: 200 if factors["sync"] == "sync" else 100)
    for run, folded in ((matters, False), (made_sweep(lambda _: 100), True)):
        plots, *_ = _SWEEP.report.tell(run).sections
        assert (plots.title, plots.folded) == ("Plots", folded)


def test_a_drift_between_repeats_hides_nothing() -> None:
    made = made_sweep(lambda factors: 1.03 * 100 if factors["sync"] == "sync" else 100)
    text = report_of(_drifting(made, lambda cell: 2**cell.repeat))
    assert "at most; what matters is sync or async." in text


def test_what_fills_the_labs_link_is_alike_by_construction() -> None:
    def speed(factors: dict[str, Factor]) -> float:
        if factors["direction"] == "write":
            return 84
        return 60 if factors["buffer"] == 16384 else 119

    lab = {"kind": "lab", "pool": "", "limits": {"link": "1gbit"}}
    found = _SWEEP.report.findings(placed(made_sweep(speed), **lab))
    assert [(one.what, one.judged.verdict.value) for one in found] == [
        ("reads are flat for buffers from 32768 up", "reproduced by construction"),
        ("writes are flat for buffers from 32768 up", "reproduced"),
        ("sync or async, soft or hard", "reproduced"),
    ]
    assert "the lab's link is 95 % full at each level" in found[0].judged.why

    text = report_of(placed(made_sweep(lambda _: 119), **lab))
    assert " whatever the setting (within 2 %): the 1 Gbit/s link is full." in text
    assert "⚠ A faster link may show differences." in text


def test_a_direction_that_cannot_be_told_leaves_the_verdict_on_both_open() -> None:
    made = made_sweep(lambda _: 100)
    reads = only(made, lambda cell: cell.factors["direction"] == "read").cells
    for more, verdict in (([], "reproduced"), (made.cells[-1:], "inconclusive")):
        some = dataclasses.replace(made, cells=[*reads, *more])
        assert _SWEEP.report.findings(some)[-1].judged.verdict.value == verdict


def test_the_best_level_of_what_matters_is_named() -> None:
    def speed(factors: dict[str, Factor]) -> float:
        best = factors["buffer"] == (65536 if factors["direction"] == "read" else 32768)
        return 100 * (1.2 if best else 1) * (1.1 if factors["sync"] == "sync" else 1)

    text = report_of(made_sweep(speed, 4))
    span = r"\d+\.\d %, matters:"
    assert re.search(rf"\| rsize and wsize \| {span} 65536 \| {span} 32768 \|", text)
    assert re.search(rf"\| sync or async \| {span} sync \| {span} sync \|", text)
    assert "nfs(5)" not in text


def test_soft_is_never_recommended_without_a_warning() -> None:
    text = report_of(made_sweep(lambda factors: 130 if factors["mount"] == "soft" else 100))
    assert re.search(r"\| hard or soft \| \d+\.\d %, matters: soft \|", text)
    assert "nfs(5) warns of lost data" in text


def test_nconnect_and_version_are_in_the_answer_and_its_plots() -> None:
    def speed(factors: dict[str, Factor]) -> float:
        both = factors["nconnect"] == 4 and factors["version"] == "4.1"
        return 100 * (1.5 if factors["nconnect"] == 4 else 1) * (1.2 if both else 1)

    summary = made_sweep(speed, nconnect=(1, 4), version=(3, "4.1"), buffer=_TWO_BUFFERS)
    text = report_of(summary)
    assert "at most; what matters is nconnect and version." in text
    plots = [plot for one in _SWEEP.report.tell(summary).sections for plot in one.plots]
    for direction in ("read", "write"):
        (drawn,) = [plot.figure for plot in plots if plot.name == f"main-effects-{direction}"]
        assert {"nconnect", "version"} <= {axes.get_xlabel() for axes in drawn.axes}
    assert re.search(r"\| version \| \d+\.\d %, matters: 4\.1 \|", text)


def test_a_quick_sweep_tells_its_effects_in_half_of_all_cells() -> None:
    made = made_runs.Maker("sweep", 3)
    for spec in crossed(_SWEEP.cells(Scale(True)), {"nconnect": (1, 4)}):
        gain = 1.5 if (spec.factors["nconnect"], spec.factors["sync"]) == (4, "async") else 1
        made.add(spec.factors, rate=80e6 * gain)
    text = report_of(made.summary())
    assert "at most; what matters is sync or async and nconnect." in text
    assert re.search(r"\| nconnect \| \d+\.\d %, matters: 4 \|", text)


def _under_threads(summary: Summary) -> str:
    """Return the page of a run whose factor threads was a setting of the server."""
    return report_of(placed(summary, setting={"name": "threads", "values": [1, 8, 64]}))


def test_setting_of_the_server_is_told_as_any_other() -> None:
    summary = made_sweep(
        lambda factors: 100 * float(factors["threads"]), threads=(1, 8), buffer=_TWO_BUFFERS
    )
    text = _under_threads(summary)
    assert "at most; what matters is threads." in text
    assert re.search(r"\| threads \| \d+\.\d %, matters: 8 \|", text)


def test_a_drift_between_blocks_is_no_effect_of_a_setting() -> None:
    made = made_sweep(lambda _: 100, threads=(1, 8))
    drift = {(1, 8): 1.06, (2, 8): 0.99, (3, 8): 1.02}
    run = _drifting(made, lambda cell: drift.get((cell.repeat, int(cell.factors["threads"])), 1.0))
    assert "at most; no setting is shown to matter." in _under_threads(run)
    once = _under_threads(only(run, lambda cell: cell.repeat == 1))
    assert re.search(r"\| threads \| 6\.\d %, may be chance \|", once)


def test_a_level_that_few_repeats_have_costs_itself_alone() -> None:
    made = made_sweep(
        lambda at: 100 * float(at["threads"]), threads=(1, 8, 64), buffer=_TWO_BUFFERS
    )
    left = only(made, lambda cell: cell.factors["threads"] != 64 or cell.repeat == 1)
    text = _under_threads(left)
    assert "at most; what matters is threads." in text


def test_levels_of_further_factors_stand_beside_the_published_figures_apart() -> None:
    summary = made_sweep(lambda factors: 100 * float(factors["nconnect"]), 1, nconnect=(1, 2))
    rows = [row for row in _SWEEP.report.beside(summary) if row.figure.startswith("best read")]
    assert [row.figure.split("; ")[-1] for row in rows] == ["nconnect 1", "nconnect 2"]
    means = [float(row.ours.removesuffix(" MB/s")) for row in rows]
    assert means[1] / means[0] == pytest.approx(2, rel=0.05)


def test_noise_shows_no_plateau() -> None:
    summary = made_sweep(lambda _: 100)
    rng = made_runs.Maker("noise").rng
    text = report_of(_drifting(summary, lambda _: rng.uniform(0.5, 2)))
    assert re.search(r"reads are flat for buffers from 32768 up \| (inconclusive|not rep)", text)
    assert "at most; no setting is shown to matter." in text
    assert text.count("%, may be chance") == 6


def test_a_fraction_has_main_effects() -> None:
    summary = made_runs.sweep()
    indices: dict[str, list[Factor]] = {}
    for cell in summary.cells:
        for name, value in cell.factors.items():
            known = indices.setdefault(name, [])
            known += [value] if value not in known else []
    third = only(
        summary,
        lambda cell: (
            sum(indices[name].index(value) for name, value in cell.factors.items()) % 3 == 0
        ),
    )
    assert "at most; what matters is rsize and wsize." in report_of(third)
