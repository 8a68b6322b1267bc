# SPDX-License-Identifier: GPL-2.0-only
"""What the runs of two engines on a case say together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nfsmulti.bench.cases import Bar, Case, Ratioed
from nfsmulti.bench.ratios import Ratio, Verdict
from nfsmulti.bench.runs import Contender, Sample

# Runs a contender on a case, for the so manieth time.
RunOnce = Callable[[Contender, Case, int], Sample]


@dataclass(frozen=True)
class Judgement:
    """A bar held against what was measured."""

    bar: Bar
    value: float
    text: str
    verdict: Verdict


@dataclass
class CaseResult:
    """All runs of a case: ours and the peer's, in pairs; `peer_calls` are counted apart."""

    case: Case
    ours: list[Sample] = field(default_factory=list)
    peer: list[Sample] = field(default_factory=list)
    peer_calls: float | None = None

    def ratio(self, figure: Ratioed) -> Ratio:
        """Give our CPU per operation, or our rate, as a ratio to the peer's."""
        ours, peer = (
            [run.cpu if figure == "cpu" else run.iops for run in runs]
            for runs in (self.ours, self.peer)
        )
        return Ratio.of_pairs(ours, peer)

    @property
    def our_calls(self) -> float | None:
        """System calls per operation, as the engine counts them."""
        return median(self.ours, lambda run: run.calls)

    def judgements(self) -> list[Judgement]:
        """Hold every bar of the case against the runs."""
        return [judged for bar in self.case.bars if (judged := self._judge(bar)) is not None]

    def _judge(self, bar: Bar) -> Judgement | None:
        if bar.figure != "calls":
            ratio = self.ratio(bar.figure)
            return Judgement(bar, ratio.value, ratio.text, ratio.verdict(bar))
        calls = self.our_calls
        if calls is None:
            return None
        verdict = Verdict.MET if bar.met(calls) else Verdict.NOT_MET
        return Judgement(bar, calls, f"{calls:.2f}", verdict)


def median(runs: Sequence[Sample], figure: Callable[[Sample], float | None]) -> float | None:
    """Give the median of a figure over the runs that have it."""
    values = [value for run in runs if (value := figure(run)) is not None]
    return statistics.median(values) if values else None
