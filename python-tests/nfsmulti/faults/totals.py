# SPDX-License-Identifier: GPL-2.0-only
"""What a soak has done and found so far, and the bar that shows how far it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.table import Table

from nfsmulti.faults.account import lost_bytes
from nfsmulti.fiorun import FioResult


@dataclass
class Totals:
    """Sums so far. `troubles` are the things that must not be, in words; `lost` are bytes."""

    ios: int = 0
    written: int = 0
    verified: int = 0
    compared: int = 0
    reissues: int = 0
    retransmissions: int = 0
    reconnects: int = 0
    rewritten: int = 0
    lost: int = 0
    entries: Counter[str] = field(default_factory=Counter)  # made, verified, removed
    faults: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether what was written has been read back whole, and nothing else went wrong.

        That is bytes; entries, where there are any, are troubles as soon as their number is wrong.
        """
        whole = bool(self.entries) or 0 < self.written == self.verified
        return whole and not self.troubles and not self.lost

    def add(self, name: str, result: FioResult) -> None:
        """Count what one fio did; what it says against itself is a trouble."""
        for line in result.stats:
            self.ios += line.read_ops + line.write_ops + line.meta_ops
            self.reissues += line.reissues
            self.retransmissions += line.retransmissions
            self.reconnects += line.reconnects
            self.rewritten += line.rewritten_bytes
        # An I/O on an entry has a size for fio, and moves no bytes.
        if result.report is not None and not any(line.meta_ops for line in result.stats):
            self.written += result.report.bytes("write")
            self.verified += result.report.bytes("read")
        self.lost += lost_bytes(result.messages.splitlines())
        if result.status != 0:
            how = "did not end" if result.status is None else f"status {result.status}"
            said = "\n  ".join(result.messages.splitlines()[-8:])
            self.troubles.append(f"{name}: fio: {how} ({result.folder})\n  {said}")

    def table(self) -> Table:
        """Give them for people."""
        table = Table(show_header=False)
        for name, value in self.as_dict().items():
            if isinstance(value, int):
                table.add_row(name, f"{value:,}")
        for kind, count in sorted(self.faults.items()):
            table.add_row(f"  {kind}", f"{count:,}")
        return table

    def as_dict(self) -> dict[str, object]:
        """Give them by what they are, for a file."""
        return {
            "I/Os": self.ios,
            "bytes written": self.written,
            "bytes verified": self.verified,
            "bytes compared at the server": self.compared,
            "bytes held and written again": self.rewritten,
            "bytes lost, as reported": self.lost,
            "calls reissued on other paths": self.reissues,
            "retransmissions": self.retransmissions,
            "reconnects": self.reconnects,
            **{f"entries {what}": count for what, count in self.entries.items()},
            "faults injected": self.faults.total(),
            "faults": dict(sorted(self.faults.items())),
            "troubles": self.troubles,
        }
