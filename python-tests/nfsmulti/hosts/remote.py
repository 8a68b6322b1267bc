# SPDX-License-Identifier: GPL-2.0-only
"""fio on several hosts: its servers started by ssh where none answers, checked, and driven."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fioreport import FioReport
from nfsmulti.fiorun import Engine, FioProcess, FioResult, Options, words_of
from nfsmulti.hosts.host import Host
from nfsmulti.hosts.jobtext import job_text
from nfsmulti.machine import engine_version
from nfsmulti.processes import Process

_START_SECONDS = 60.0
_PROBE_SECONDS = 60.0
_POLL_SECONDS = 0.1
_PREFIX = re.compile(r"^<[^>]*> ")  # a host's name, before each of its lines


@dataclass(frozen=True)
class RemoteFio:
    """Runs the same jobs on all hosts.

    `enter` are the words before fio's client (a lab's, to be in its network).
    The engine lies at the same path on every host. Nothing else has to be there but fio, of this
    machine's version: job files are sent. There is no stats_file, which would stay on the hosts.
    """

    hosts: Sequence[Host]
    engine: Engine
    enter: Sequence[str] = ()

    def command(self, folder: Path, jobs: Mapping[str, Options]) -> list[str]:
        """Give the words that run the named jobs on all hosts, whose files go to `folder`.

        Writes each host's job file there. Options are as fiorun.Fio.start() has them; `ioengine`
        may be another than the engine. A host's jobs begin on the path that follows the last one of
        the host before, so that they use as many paths as there are.
        """
        folder.mkdir(parents=True, exist_ok=True)
        given = {
            name: words_of({"ioengine": self.engine.option, **options})
            for name, options in jobs.items()
        }
        count = sum(int(options.get("numjobs", "1")) for options in given.values())
        words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
        for number, host in enumerate(self.hosts):
            file = folder / f"host{number + 1}.fio"
            own = {"require_version": engine_version(), "first_path": str(number * count)}
            sections = {
                name: {**options, **(own if options["ioengine"] == self.engine.option else {})}
                for name, options in given.items()
            }
            file.write_text(job_text(sections, number))
            words += [f"--client={host.client_option}", str(file)]
        return [*self.enter, "fio", *words]

    def run(self, folder: Path, name: str, options: Options, *, timeout: float) -> FioResult:
        """Run a job, wait up to `timeout` seconds, and end what still runs.

        Raises HarnessError where a host did not run its part: fio itself ends with status 0 then.
        """
        folder = folder.absolute()
        with FioProcess(self.command(folder, {name: options}), folder) as process:
            result = process.result(timeout)
        self.check_complete(result)
        return result

    def check(self, folder: Path, pool: str) -> None:
        """See that each host has fio, this engine of this version, and reaches the pool.

        Raises HarnessError naming the host and the reason.
        """
        for host in self.hosts:
            one = RemoteFio([host], self.engine, self.enter)
            options = {"pool": pool, "rw": "write", "size": "4k", "create_only": 1}
            one.run(folder / host.text, "probe", options, timeout=_PROBE_SECONDS)

    def check_complete(self, result: FioResult) -> None:
        """Raise HarnessError where a host reports no job, or a job's error."""
        jobs = result.report.jobs if result.report else []
        for host in self.hosts:
            own = [job for job in jobs if (job["hostname"], job["port"]) == (host.name, host.port)]
            if not own or any(job["error"] for job in own) or result.status != 0:
                raise HarnessError(f"{host.text}: {_reason(result)}", result.command)


@contextlib.contextmanager
def serving(hosts: Sequence[Host], folder: Path) -> Iterator[None]:
    """Start fio --server by ssh on the hosts where none answers, and end it afterwards.

    ssh asks nothing (BatchMode): who may log in is its own configuration's business. Raises
    HarnessError naming a host on which no server came up.
    """
    with contextlib.ExitStack() as servers:
        for host in hosts:
            if not host.serves():
                _start_server(host, folder, servers)
        yield


def _start_server(host: Host, folder: Path, servers: contextlib.ExitStack) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    log = servers.enter_context((folder / f"ssh-{host.text}.log").open("wb"))
    # A terminal on the other side, so that the server ends with the connection.
    argv = ["ssh", "-tt", "-o", "BatchMode=yes", host.login, f"fio --server={host.server_option}"]
    process = servers.enter_context(Process(argv, stdout=log, stderr=log))
    deadline = time.monotonic() + _START_SECONDS
    while not host.serves():
        if process.wait(_POLL_SECONDS) is not None or time.monotonic() > deadline:
            said = Path(log.name).read_text(errors="replace").strip().splitlines()
            raise HarnessError(
                f"{host.text}: no fio --server answers on port {host.port}, and ssh could start"
                f" none: {said[-1].strip() if said else 'it said nothing'}",
                f"on {host.name}: fio --server",
            )


def _reason(result: FioResult) -> str:
    """Find the line that tells most in what fio said of a host."""
    if result.status is None:
        return "fio did not end in time"
    said = FioReport.messages_of(result.output) if result.report else result.output
    lines = [_PREFIX.sub("", line) for line in f"{said}\n{result.stderr}".splitlines()]
    for begin in ("nfsmulti: ", "fio: ", "Bad option", "client"):
        for line in lines:
            if line.startswith(begin):
                return line
    return f"its jobs did not run (fio's status {result.status})"
