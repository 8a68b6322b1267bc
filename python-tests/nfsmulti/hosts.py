# SPDX-License-Identifier: GPL-2.0-only
"""Runs on several hosts at once, by fio's own client/server mode.

fio's client sends nothing but a job file: what stands on its own command line stays behind, and an
engine chosen there is silently replaced by the default one. So each host gets a job file of its own
with all options in it.

What a host's jobs write has a name of its own, so that no two hosts write the same file; what fio
itself does for that (unique_filename) depends on the address of its client.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioProcess, FioResult, Options, words_of
from nfsmulti.machine import engine_version
from nfsmulti.paths import COMMAND

PORT = 8765  # fio's own
_CONNECT_SECONDS = 3.0
_FORM = re.compile(r"(?:\[(?P<six>[^]\s]+)\]|(?P<name>[^][:\s@]+))(?::(?P<port>\d+))?")


@dataclass(frozen=True)
class Host:
    """A machine that jobs run on, and the port of its fio --server."""

    name: str
    port: int = PORT

    @property
    def text(self) -> str:
        """How people name it: with its port where that is not fio's own."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORT else f"{name}:{self.port}"

    @property
    def client_option(self) -> str:
        """How fio's --client names it (fio(1), "CLIENT / SERVER")."""
        return f"{'ip6' if ':' in self.name else 'ip'}:{self.name},{self.port}"

    @property
    def server(self) -> str:
        """How its fio --server is started: without words it listens on port 8765, by IPv4."""
        if ":" in self.name:
            return f"fio --server=ip6:::,{self.port}"
        return "fio --server" if self.port == PORT else f"fio --server=,{self.port}"

    def check_serving(self) -> None:
        """See that something listens where its fio --server would. Raises HarnessError."""
        try:
            socket.create_connection((self.name, self.port), _CONNECT_SECONDS).close()
        except OSError as error:
            raise HarnessError(
                f"{self.text}: no fio --server answers on port {self.port}:"
                f" {error.strerror or error}",
                f"on {self.name}: {self.server}",
            ) from None


def parse_hosts(text: str) -> list[Host]:
    """Read HOST[:PORT],…, where HOST is a name, an address, or [an IPv6 address].

    Raises HarnessError naming the word that is none.
    """
    hosts = [_parse(word.strip()) for word in text.split(",")]
    ends = [(host.name, host.port) for host in hosts]
    for host, end in zip(hosts, ends, strict=True):
        if ends.count(end) > 1:
            raise HarnessError(f"--hosts: {host.text} is listed twice")
    return hosts


def _parse(word: str) -> Host:
    match = _FORM.fullmatch(word)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise HarnessError(
            f"--hosts: '{word}' is not HOST[:PORT]", "as --hosts=alpha,10.0.0.2:8765"
        )
    name = match["name"]
    if match["six"]:
        try:
            name = str(ipaddress.IPv6Address(match["six"]))
        except ValueError:
            raise HarnessError(f"--hosts: '{match['six']}' is not an IPv6 address") from None
    return Host(name, port)


# --- the job file that goes to a host ---


def job_text(jobs: Mapping[str, Mapping[str, str]], number: int) -> str:
    """Return the job file of the host `number`, counted from 0, with these jobs."""
    lines = [f"; written by {COMMAND} run --hosts"]
    for name, options in jobs.items():
        own = {"unique_filename": "0", **options, **_names(options, number)}
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in own.items())]
    return "\n".join([*lines, ""])


def _names(options: Mapping[str, str], number: int) -> dict[str, str]:
    """Return the names of the files that a host's jobs write; readers share theirs."""
    if options.get("rw", options.get("readwrite", "read")) in ("read", "randread"):
        return {}
    key = "filename" if "filename" in options else "filename_format"
    names = options.get(key, "$jobname.$jobnum.$filenum").split(":")
    parts = (name.rpartition("/") for name in names)
    own = (f"{folder}{slash}host{number + 1}-{last}" for folder, slash, last in parts)
    return {key: ":".join(own)}


# --- fio driven on them ---


_PROBE_SECONDS = 60.0


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
        """Return the words that run the named jobs on all hosts, whose files go to `folder`.

        Writes each host's job file there. Options are as fio spells them; `ioengine`
        may be another than the engine. A host's jobs begin on the path that follows the last one of
        the host before, so that they use as many paths as there are.
        """
        folder.mkdir(parents=True, exist_ok=True)
        engine = {"ioengine": self.engine.option}
        given = {name: words_of({**engine, **options}) for name, options in jobs.items()}
        count = sum(int(options.get("numjobs", "1")) for options in given.values())
        words = [f"--output={folder / 'fio.json'}", "--output-format=json+"]
        for number, host in enumerate(self.hosts):
            file = folder / f"host{number + 1}.fio"
            own = {"require_version": engine_version(), "first_path": str(number * count)}
            sections = {name: {**options} for name, options in given.items()}
            for options in sections.values():
                if engine.items() <= options.items():
                    options |= own
                    if seed := options.get("randseed"):  # else their arrivals were in step
                        options["randseed"] = str(int(seed) + number)
            file.write_text(job_text(sections, number), errors="surrogateescape")
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

    def check(self, folder: Path, pool: str, directory: str) -> None:
        """See that each host has fio, this engine of this version, and reaches the pool.

        They make a file in `directory`, which is on the pool. Raises HarnessError naming the host
        and the reason.
        """
        for host in self.hosts:
            one = RemoteFio([host], self.engine, self.enter)
            options = {"pool": pool, "filename": f"{directory}/probe", "rw": "write"}
            options |= {"size": "4k", "create_only": "1"}
            one.run(folder / host.text, "probe", options, timeout=_PROBE_SECONDS)

    def check_complete(self, result: FioResult) -> None:
        """Raise HarnessError where a host reports no job, or a job's error."""
        jobs = result.report.jobs if result.report else []
        for host in self.hosts:
            own = [job for job in jobs if (job["hostname"], job["port"]) == (host.name, host.port)]
            if not own or any(job["error"] for job in own) or result.status != 0:
                late = result.status is None
                why = "fio did not end in time" if late else result.reason
                raise HarnessError(f"{host.text}: {why}", result.command)
