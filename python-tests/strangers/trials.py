# SPDX-License-Identifier: GPL-2.0-only
"""What a server is put through: verified writes, of many clients too, metadata, and a restart.

Each gives the lines that the engine and fio said where something fell short, or none.
"""

from collections.abc import Callable
from pathlib import Path

from jobs import Fio
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import SUMMARY, FioResult, Options
from strangers.servers import Running

_SECONDS = 300.0  # what takes longer hangs
_LINES_MAX = 3
_BEFORE = 400  # of 2,048 blocks, when the server is killed

_JOB: Options = {"iodepth": 16, "nconnect": 2, "spread": "roundrobin", "hard": 1}

_BLOCKS = 2048
_WRITE: Options = {
    **_JOB,
    "filename": "data",
    "rw": "randwrite",
    "bs": "16k",
    "size": f"{_BLOCKS * 16}k",
    "verify": "crc32c",
    "verify_state_save": 0,
    "fsync": 64,
    "end_fsync": 1,
}
_CLIENTS = 64
_MANY: Options = {**_WRITE, "nconnect": None, "nclients": _CLIENTS, "iodepth": _CLIENTS}
_RESTART: Options = {**_WRITE, "rate_iops": _BEFORE, "hold_writes": "64m", "trace": 1}

_ENTRIES = 5000
_METADATA: Options = {**_JOB, "filename": "entries", "metadata": 1, "bs": 1, "size": _ENTRIES}
# In this order: a rename is taken back, so that the entries have their first names for the rest.
_STEPS: dict[str, Options] = {
    "create": {"rw": "write", "meta_write": "create"},
    "stat": {"rw": "randread", "meta_read": "getattr", "meta_verify": 1},
    "readdir": {"rw": "randread", "meta_read": "readdir", "io_size": 50},
    "rename": {"rw": "randwrite", "meta_write": "rename"},
    "rename back": {"rw": "randwrite", "meta_write": "rename"},
    "mix": {"rw": "randrw", "meta_mix": "getattr:60,lookup:20,readdir:5,create:10,remove:5"},
    "remove": {"rw": "randwrite", "meta_write": "remove"},
}


def verified_write(server: Running, fio: Fio, folder: Path) -> list[str]:
    """Write 32 MiB at random over two connections, with COMMITs, and read it back."""
    return _verified(fio.run(folder, pool=server.pool, options=_WRITE, timeout=_SECONDS))


def many_clients(server: Running, fio: Fio, folder: Path) -> list[str]:
    """Write and read the same by 64 clients, each of which has its share."""
    result = fio.run(folder, pool=server.pool, options=_MANY, timeout=_SECONDS)
    served = sum(line.write_ops > 0 for line in result.stats)
    few = [] if served == _CLIENTS else [f"{served} of {_CLIENTS} clients were served"]
    return _verified(result) or few


def metadata(server: Running, fio: Fio, folder: Path) -> list[str]:
    """Make, look at, list, rename, mix and remove 5,000 entries; each step is tried."""
    lines: list[str] = []
    for name, step in _STEPS.items():
        options, here = {**_METADATA, **step}, folder / name.replace(" ", "-")
        result = fio.run(here, pool=server.pool, options=options, timeout=_SECONDS)
        if result.status != 0:
            lines += [f"{name}: {line}" for line in _complaints(result)]
    return lines


def restart(server: Running, fio: Fio, folder: Path) -> list[str]:
    """Kill the server by SIGKILL in the middle of a verified write, and start it again.

    hold_writes keeps what no COMMIT has answered for yet, so that all of it must be there.
    """
    with fio.start(folder, pool=server.pool, options=_RESTART) as process:
        said = folder / "stderr"

        def has_written() -> bool:
            return said.read_text(errors="replace").count(" trace: ") >= _BEFORE

        if not process.comes_up(has_written, _SECONDS):
            raise HarnessError(f"{folder}: ended before the server was killed")
        server.kill()
        server.start()
        return _verified(process.result(_SECONDS))


def _verified(result: FioResult) -> list[str]:
    """Judge a job: it must have read back each block that it wrote."""
    report = result.report
    if result.status == 0 and report and report.bytes("read") == report.bytes("write") > 0:
        return []
    return _complaints(result)


def _complaints(result: FioResult) -> list[str]:
    """Return what the engine and fio said, without the trace and the summary; never nothing."""
    said = [
        line
        for line in result.messages.splitlines()
        if line.strip() and " trace: " not in line and not SUMMARY.match(line)
    ]
    status = "hangs" if result.status is None else f"fio's exit status {result.status}"
    engine_first = sorted(dict.fromkeys(said), key=lambda line: line.startswith("fio:"))
    return engine_first[:_LINES_MAX] or [status]


TRIALS: dict[str, Callable[[Running, Fio, Path], list[str]]] = {
    "verified write": verified_write,
    "64 clients": many_clients,
    "metadata": metadata,
    "restart": restart,
}
