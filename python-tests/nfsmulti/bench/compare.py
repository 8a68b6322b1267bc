# SPDX-License-Identifier: GPL-2.0-only
"""What the runs of several engines on a case say together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nfsmulti.bench.cases import Bar, Case, Ratioed, Role, Verdict
from nfsmulti.bench.runs import Contender, Sample
from nfsmulti.stats.ratio import Ratio

# Runs a contender on a case: its run of that number.
RunOnce = Callable[[Contender, Case, int], Sample]

_TAKE: dict[Ratioed, Callable[[Sample], float]] = {
    "cpu": lambda run: run.cpu,
    "rate": lambda run: run.iops,
    "p50": lambda run: run.p50,
}


@dataclass(frozen=True)
class Judgement:
    """A bar held against what was measured."""

    bar: Bar
    value: float
    text: str
    verdict: Verdict


@dataclass
class CaseResult:
    """All runs of a case, those of one number next to each other; `counted` calls have own runs."""

    case: Case
    runs: dict[Role, list[Sample]] = field(default_factory=dict)
    counted: dict[Role, float] = field(default_factory=dict)

    def ratio(self, figure: Ratioed, beside: Role) -> Ratio:
        """Give a figure of ours as a ratio to that of another, which has run."""
        take = _TAKE[figure]
        ours, others = ([take(run) for run in self.runs[role]] for role in ("ours", beside))
        return Ratio.paired(ours, others)

    def calls(self, role: Role) -> float | None:
        """Give system calls per operation, as the engine counts them or as they were counted."""
        return self.counted.get(role, median(self.runs[role], lambda run: run.calls))

    def judgements(self) -> list[Judgement]:
        """Hold every bar of the case against the runs, beside those engines that have run."""
        return [judged for bar in self.case.bars if (judged := self._judge(bar)) is not None]

    def _judge(self, bar: Bar) -> Judgement | None:
        if bar.figure != "calls":
            if bar.beside not in self.runs:
                return None
            ratio = self.ratio(bar.figure, bar.beside)
            return Judgement(bar, ratio.value, ratio.text, bar.verdict(ratio))
        calls = self.calls("ours")
        if calls is None:
            return None
        verdict = Verdict.MET if bar.met(calls) else Verdict.NOT_MET
        return Judgement(bar, calls, f"{calls:.2f}", verdict)


def median(runs: Sequence[Sample], figure: Callable[[Sample], float | None]) -> float | None:
    """Give the median of a figure over the runs that have it."""
    values = [value for run in runs if (value := figure(run)) is not None]
    return statistics.median(values) if values else None
