# SPDX-License-Identifier: GPL-2.0-only
"""The best settings that a sweep has found, as lines to paste, and what they are worth.

One mount serves both directions: rsize is chosen for reads and wsize for writes, all else together,
by the geometric mean of both directions' speeds. The margin over the default is the model's, and
its p is corrected for having looked at all settings (Bonferroni). A setting that is not shown to be
better than its default stays at the default.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti import texts
from nfsmulti.effects import Level
from nfsmulti.paths import as_typed
from nfsmulti.report.story import Section
from nfsmulti.stats import Ratio
from nfsmulti.stories.sweep_model import ALIKE, Direction, alike, ratio
from nfsmulti.texts import Table

_SIGNIFICANT = 0.05
_DEFAULTS: dict[str, Level] = {
    "sync": "async",
    "mount": "hard",
    "spread": "job",
    "stable": "unstable",
    "nconnect": 1,
    "version": 3,
    "nfsvers": 3,
    "proto": "tcp",
}
_STABLE = {"sync": "file_sync", "async": "unstable"}
_SOFT = (
    "The best mount is soft: if a server is silent for longer than timeo and retrans allow, I/O"
    " fails, and nfs(5) warns of lost data. Use hard where data matters."
)

_MEASURED = (
    "All of this was measured with this engine, one request at a time. A kernel mount reads ahead"
    " and writes behind: measure there too."
)

Settings = dict[str, Level]


@dataclass(frozen=True)
class Margin:
    """The best settings' speed against the default's in one direction; `p` is corrected.

    `alike` is the p of two one-sided tests that both are within ALIKE of each other.
    """

    direction: str
    best: Settings
    ratio: Ratio
    p: float
    alike: float

    @property
    def significant(self) -> bool:
        """Whether the best settings are better than the default."""
        return self.p < _SIGNIFICANT and self.ratio.value > 1


def section(directions: Sequence[Direction], of_server: str) -> Section:
    """Name the best settings at the report's end. Directions without a model have no say.

    `of_server` is the factor that is the server's setting, and no option of a client.
    """
    judged = [one for one in directions if one.model and one.settings]
    title = "The best settings for this server"
    if not judged:
        return Section(title, ["Too few runs to name any."])
    default = {one.name: _default(one) for one in judged}
    measured = _best(judged)
    best = _better(judged, measured, default)
    margins = [_margin(one, best[one.name], default[one.name]) for one in judged]
    words = [_verdict(margin) for margin in margins]
    lines = ["# the default", *_lines(default, of_server)]
    if best != default:
        lines += ["", "# the best as measured, where it is better than the default"]
        lines += _lines(best, of_server)
    else:
        words.append("No setting is shown to be better than the default.")
        highest = [_margin(one, measured[one.name], default[one.name]) for one in judged]
        if measured == default:
            words.append("By the model it is the fastest of all.")
        elif all(margin.alike < _SIGNIFICANT for margin in highest):
            words.append(
                f"The default does as well: the best are shown to be within {100 * ALIKE:g} % of it"
                " (two one-sided tests, p below 0.05)."
            )
    words.append(_MEASURED)
    if any(settings.get("mount") == "soft" for settings in best.values()):
        words.append(_SOFT)
    return Section(title, words, [_table(margins, default)], lines=lines)


def _default(direction: Direction) -> Settings:
    """Give the default among the levels that were run: async, hard, the largest buffer."""
    chosen: Settings = {}
    for name in direction.settings:
        levels = direction.levels[name]
        first = levels[-1] if name == "buffer" else levels[0]
        chosen[name] = _DEFAULTS[name] if _DEFAULTS.get(name) in levels else first
    return chosen


def _combinations(direction: Direction) -> list[Settings]:
    names = direction.settings
    levels = [direction.levels[name] for name in names]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*levels)]


def _best(directions: Sequence[Direction]) -> dict[str, Settings]:
    """Choose what both directions share together, and a buffer for each."""
    choices: dict[tuple[tuple[str, Level], ...], dict[str, tuple[float, Settings]]] = {}
    for direction in directions:
        assert direction.model is not None
        for settings in _combinations(direction):
            shared = tuple(item for item in settings.items() if item[0] != "buffer")
            speed = direction.model.mean(settings).value
            found = choices.setdefault(shared, {})
            if direction.name not in found or speed > found[direction.name][0]:
                found[direction.name] = speed, settings
    most = max(map(len, choices.values()))
    complete = [found for found in choices.values() if len(found) == most]
    chosen = max(complete, key=lambda found: math.fsum(speed for speed, _ in found.values()))
    return {name: settings for name, (_, settings) in chosen.items()}


def _better(
    directions: Sequence[Direction], best: dict[str, Settings], default: dict[str, Settings]
) -> dict[str, Settings]:
    """Keep of the best settings those that are shown to be better than their default.

    What both directions share is kept where it is better for one of them.
    """
    kept: dict[str, set[str]] = {
        one.name: {
            name
            for name, value in default[one.name].items()
            if _margin(one, best[one.name], {**best[one.name], name: value}).significant
        }
        for one in directions
    }
    shared = set().union(*kept.values()) - {"buffer"}
    return {
        direction: {
            name: value if name in kept[direction] | shared else default[direction][name]
            for name, value in settings.items()
        }
        for direction, settings in best.items()
    }


def _margin(direction: Direction, best: Settings, default: Settings) -> Margin:
    assert direction.model is not None
    if best == default:
        return Margin(direction.name, best, Ratio(1, 1, 1, 1), 1, 0)
    found = ratio(direction.model, best, default)
    looked_at = len(_combinations(direction)) - 1
    corrected = min(1.0, looked_at * (found.p or 0.0))
    return Margin(direction.name, best, found, corrected, alike(direction.model, best, default))


def _verdict(margin: Margin) -> str:
    what = ", ".join(_setting(name, value) for name, value in margin.best.items())
    if margin.p == 1 and margin.ratio.value == 1:
        return f"For {margin.direction}s nothing is shown to be better than the default: {what}."
    told = "significant" if margin.significant else "not significant"
    p = texts.p_value(margin.p)
    return (
        f"For {margin.direction}s the best are {what}: {_percent(margin.ratio)} against the"
        f" default, {told} (p {p if p.startswith('<') else f'= {p}'}, Bonferroni)."
    )


def _percent(margin: Ratio) -> str:
    text = f"{100 * (margin.value - 1):+.1f} %"
    if margin.low is None or margin.high is None:
        return text
    ends = f"{100 * (margin.low - 1):+.1f} to {100 * (margin.high - 1):+.1f} %"
    return f"{text} (95 % interval {ends})"


def _setting(name: str, value: Level) -> str:
    return str(value) if name in ("sync", "mount") else f"{name} {value}"


def _table(margins: Sequence[Margin], default: dict[str, Settings]) -> Table:
    names = list(dict.fromkeys(name for margin in margins for name in margin.best))
    rows = [
        [
            margin.direction,
            *(str(margin.best.get(name, texts.MISSING)) for name in names),
            ", ".join(_setting(*item) for item in default[margin.direction].items()),
            margin.ratio.text,
            texts.p_value(margin.p),
        ]
        for margin in margins
    ]
    headings = ["direction", *names, "default", "times the default", "p (Bonferroni)"]
    return Table(headings, rows, text_columns=2 + len(names))


def _lines(chosen: dict[str, Settings], of_server: str) -> list[str]:
    """Write settings as a mount line and as the engine's options."""
    shared = next(iter(chosen.values()))
    sizes = [
        f"{option}={chosen[direction]['buffer']}"
        for direction, option in (("read", "rsize"), ("write", "wsize"))
        if "buffer" in chosen.get(direction, {})
    ]
    rest = {name: value for name, value in shared.items() if name not in ("buffer", of_server)}
    version = rest.get("version", rest.get("nfsvers", 3))
    mount = [f"vers={version}", f"proto={rest.get('proto', 'tcp')}", *sizes]
    engine = [f"--{size}" for size in sizes]
    for name, value in rest.items():
        if name == "sync" and "stable" in rest:  # a factor of its own, which says more
            mount.append(str(value))
        elif name == "mount":
            mount.append(str(value))
            engine.append(f"--{value}=1")
        elif name == "sync":
            mount.append(str(value))
            engine.append(f"--stable={_STABLE.get(str(value), value)}")
        else:
            mount += [f"nconnect={value}"] if name == "nconnect" else []
            # fio's command line has a --version of its own.
            engine.append(f"--{'nfsvers' if name == 'version' else name}={value}")
    server = [f"# on the server: {of_server}={shared[of_server]}"] if of_server in shared else []
    return [
        *server,
        f"mount -t nfs -o {','.join(mount)} SERVER:/EXPORT /mnt",
        as_typed("fio --ioengine=external:./build/libnfsmulti.so --pool=nfs://SERVER/EXPORT")
        + f" {' '.join(engine)} JOBFILE",
    ]
