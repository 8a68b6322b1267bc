# SPDX-License-Identifier: GPL-2.0-only
"""What a job, whoever wrote it, can reach by the engine; and who can reach the lab: nobody."""

import json
import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from conftest import started_lab
from engine_helpers import Place, refused

from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.processes import run
from servers.rpc import NFS, RpcClient

_SIZE = 64 << 10
_JOB: dict[str, Option] = {"rw": "write", "bs": "4k", "size": _SIZE}

# What waits for strangers, and what runs programs.
_NEVER = re.compile(r"(rdma_)?(listen|accept)4?|system|popen|fork|vfork|exec.*|posix_spawnp?")


def test_the_engine_listens_nowhere_and_runs_no_program(engine: Engine) -> None:
    words = ["nm", "--dynamic", "--undefined-only", "--format=posix", str(engine.library)]
    needs = [line.partition(" ")[0] for line in run(words, timeout=60).check().stdout.splitlines()]
    names = {name.partition("@")[0] for name in needs}
    assert {"connect", "recv"} <= names, "that is how it is seen"
    assert not [name for name in names if _NEVER.fullmatch(name)]


# --- names ---


@pytest.fixture
def secrets(v3_or_mount: Place, tmp_path: Path) -> Iterator[list[Path]]:
    """Yield files that lie beside the job's own: on this machine, and beside the export."""
    secrets = [tmp_path / "secret", v3_or_mount.files.parent / "nfsmulti-secret"]
    for secret in secrets:
        secret.write_bytes(b"s" * _SIZE)
    yield secrets
    secrets[1].unlink()


def test_a_link_does_not_lead_out(v3_or_mount: Place, secrets: list[Path]) -> None:
    """A link of a mount is not followed out of it; over NFS none is."""
    (v3_or_mount.files / "absolute").symlink_to(secrets[0])
    (v3_or_mount.files / "upwards").symlink_to(f"../{secrets[1].name}")
    for name, rw in product(("absolute", "upwards"), ("read", "write")):
        refused(v3_or_mount.fio(**{**_JOB, "rw": rw, "filename": name}), f'"{name}"')
    assert {secret.read_bytes() for secret in secrets} == {b"s" * _SIZE}


def test_a_link_of_a_mount_that_stays_is_followed(mounted: Place) -> None:
    mounted.random("f", _SIZE)
    (mounted.files / "link").symlink_to("f")
    mounted.fio.well(**{**_JOB, "rw": "read", "filename": "link"})


def test_a_link_that_leads_nowhere_is_left_alone(exported: Place) -> None:
    """A layout that fails takes back what it has created, and nothing else."""
    link = exported.files / "link"
    link.symlink_to("nowhere")
    refused(exported.fio(**{**_JOB, "rw": "read", "filename": "link"}), '"link"')
    assert link.is_symlink()


def test_no_name_leads_upwards(v3_or_mount: Place, secrets: list[Path]) -> None:
    (v3_or_mount.files / "a").mkdir()
    for name in ("../nfsmulti-secret", "a/../../nfsmulti-secret", "a/.."):
        refused(v3_or_mount.fio(**_JOB, filename=name), "'..' in a file name")
    assert {secret.read_bytes() for secret in secrets} == {b"s" * _SIZE}


def test_what_is_no_file_is_not_opened(v3_or_mount: Place) -> None:
    """Which for a FIFO would wait for ever, and for a device do who knows what."""
    fifo = v3_or_mount.files / "fifo"
    os.mkfifo(fifo)
    result = v3_or_mount.fio(**_JOB, filename="fifo")
    fifo.unlink()
    assert result.status == 1
    assert "not a regular file" in result.messages or "Invalid argument" in result.messages


# --- the lab ---


def _devices(lab: Lab, name: str) -> list[dict[str, object]]:
    words = [*lab.network.enter(name), "ip", "-json", "link"]
    found: list[dict[str, object]] = json.loads(run(words, timeout=60).check().stdout)
    return found


def test_no_way_leads_into_the_lab(lab: Lab) -> None:
    """Its servers and its clients have one device each, which are each other's; no router."""
    pids = [server.pid for server in lab.servers]
    namespaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}
    assert Path("/proc/self/ns/net").readlink() not in namespaces
    ends = []
    for name in (lab.network.server, lab.network.client):
        loopback, device = _devices(lab, name)
        assert loopback["ifname"] == "lo"
        assert "link_netnsid" in device, "its peer is in another namespace"
        ends.append((device["ifindex"], device["link_index"]))
        words = [*lab.network.enter(name), "ip", "route", "show", "default"]
        assert run(words, timeout=60).check().stdout == ""
    server, client = ends
    assert server == client[::-1]


def test_a_local_lab_serves_the_loopback_alone() -> None:
    with started_lab(LabConfig(addresses=2, local=True)) as lab:
        assert lab.command(["true"]) == ["true"]
        assert lab.path(1).startswith("nfs://127.0.0.2/export?nfsport=")
        for server in lab.servers:
            endpoint = server.endpoint
            with RpcClient(endpoint.address, endpoint.nfs_port, NFS, 3) as client:
                client.call(0)
        pids = {f"pid={server.pid}," for server in lab.servers}
        listening = run(["ss", "-Hlntup"], timeout=60).check().stdout.splitlines()
        mine = [line.split()[4] for line in listening if any(pid in line for pid in pids)]
    assert len(mine) >= 4
    assert {address.removeprefix("[::ffff:").partition(".")[0] for address in mine} == {"127"}
