# SPDX-License-Identifier: GPL-2.0-only
"""Labs: they come up, are what they promise, and leave nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import missing, namespaces, run_harness, started_lab

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine, Fio, Option
from nfsmulti.lab import Export, Instances, Lab, LabConfig, Limits
from nfsmulti.lab import state as states
from nfsmulti.lab.network import Network
from nfsmulti.lab.state import LabState
from nfsmulti.nfs import nfs3, rpc
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Identity, Process, find, run


def _nfs_versions(lab: Lab, address: str, enter: list[str] | None = None) -> list[int]:
    """Ask for NFS versions from where clients run, or `enter` leads; none if nobody answers."""
    script = (
        "import sys; from nfsmulti.nfs import nfs3, rpc;"
        "print(rpc.offered(sys.argv[1], 22049, nfs3.NFS, nfs3.NFS_VERSIONS))"
    )
    argv = [*(enter or lab.command([])), sys.executable, "-c", script, address]
    done = run(argv, timeout=60, env={"PYTHONPATH": str(PYTHON_TESTS)})
    versions: list[int] = json.loads(done.stdout) if done.status == 0 else []
    return versions


def test_every_address_serves(lab: Lab) -> None:
    addresses = [server.endpoint.address for server in lab.servers]
    assert addresses == ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4", "fd77::1"]
    assert all(_nfs_versions(lab, address) == [3, 4] for address in addresses)


def test_pool_texts(lab: Lab) -> None:
    assert lab.path(1, export="ro") == "nfs://10.77.0.2/ro?nfsport=22049&mountport=22050"
    assert lab.pool_of(2) == f"{lab.path(0)},{lab.path(1)}"
    assert lab.pool == lab.pool_of(4)
    assert lab.pool6 == "nfs://[fd77::1]/export?nfsport=22049&mountport=22050"
    said = lab.run(["sh", "-c", 'echo "$POOL"; echo "$NFSMULTI_POOLS"']).check().stdout
    pool, pools = said.splitlines()
    assert pool == lab.pool
    assert pools.startswith(f"lab:{lab.pool} one:{lab.path(0)} ro:")


def test_further_hosts_reach_every_address() -> None:
    with started_lab(LabConfig(addresses=2, hosts=2, limits=Limits(link="1gbit"))) as lab:
        for number in (1, 2):
            enter = lab.host_command(number, [])
            for address in ("10.77.0.1", "10.77.0.2"):
                assert _nfs_versions(lab, address, enter=enter) == [3, 4]
        names = {lab.network.host(1), lab.network.host(2)}
        assert names <= namespaces()
    assert not names & namespaces()


def test_server_stops_starts_and_pauses(lab: Lab) -> None:
    server = lab.server(3)
    address = server.endpoint.address
    for end in (server.stop, server.kill):
        end()
        assert not server.running
        assert _nfs_versions(lab, address) == []
        server.start()
        assert _nfs_versions(lab, address) == [3, 4]
    server.pause()
    assert server.running
    server.resume()
    assert _nfs_versions(lab, address) == [3, 4]


def test_one_instance_serves_all_addresses_and_two_labs_live_at_once(lab: Lab) -> None:
    with started_lab(LabConfig(addresses=2, instances=Instances.ONE)) as other:
        assert other.server(0) is other.server(1)
        for address in ("10.77.0.1", "10.77.0.2", "fd77::1"):
            assert _nfs_versions(other, address) == [3, 4]
        (other.export_dir / "other").write_text("here")
        assert not (lab.export_dir / "other").exists()
        names = {other.network.server, other.network.client, lab.network.client}
        assert names <= namespaces()
        folder = other.folder
    assert not folder.exists()
    assert not {other.network.server, other.network.client} & namespaces()
    assert _nfs_versions(lab, "10.77.0.1") == [3, 4]


def test_local_lab_serves_on_the_machines_loopback() -> None:
    with started_lab(LabConfig(addresses=2, local=True)) as lab:
        assert lab.command(["true"]) == ["true"]
        for server in lab.servers:
            endpoint = server.endpoint
            offered = rpc.offered(endpoint.address, endpoint.nfs_port, nfs3.NFS, (3,))
            assert offered == [3]
        assert lab.path(1).startswith("nfs://127.0.0.2/export?nfsport=")


def test_limits_are_set_at_both_ends() -> None:
    limits = Limits(link="1gbit", per_address="120mbit", burst="64k")
    with started_lab(LabConfig(addresses=3, limits=limits)) as lab:
        for namespace, device in ((lab.network.server, "v0"), (lab.network.client, "v1")):
            classes = run(["tc", "-n", namespace, "class", "show", "dev", device], timeout=9)
            for handle, rate in (("1:1", "1Gbit"), ("1:10", "120Mbit"), ("1:12", "120Mbit")):
                assert re.search(f"htb {handle} .*ceil {rate} ", classes.check().stdout)
            filters = ["tc", "-n", namespace, "filter", "show", "dev", device]
            assert run(filters, timeout=9).check().stdout.count("flowid 1:12") == 2


def test_link_limit_alone() -> None:
    with started_lab(LabConfig(addresses=1, limits=Limits(link="9400mbit"))) as lab:
        for namespace in (lab.network.server, lab.network.client):
            shown = run(["tc", "-json", "-n", namespace, "qdisc", "show"], timeout=9).check().stdout
            options = [q["options"] for q in json.loads(shown) if q["kind"] == "tbf"]
            assert [o["rate"] for o in options] == [9400 * 10**6 // 8]


def test_limits_change_while_the_lab_runs() -> None:
    none, link = Limits(), Limits(link="1gbit")
    caps, other_caps = Limits(per_address="120mbit"), Limits(link="1gbit", per_address="90mbit")
    with started_lab(LabConfig(addresses=2)) as lab:
        for limits in (link, caps, other_caps, link, none, none, caps):
            lab.limit(limits)
            kind = {none: "noqueue", link: "tbf"}.get(limits, "htb")
            for namespace, device in ((lab.network.server, "v0"), (lab.network.client, "v1")):
                shown = ["tc", "-n", namespace, "qdisc", "show", "dev", device]
                assert f"qdisc {kind} " in run(shown, timeout=9).check().stdout
        assert _nfs_versions(lab, "10.77.0.2") == [3, 4]


@pytest.mark.parametrize("link", [None, "1gbit"])
def test_each_connection_has_a_cap_of_its_own(tmp_path: Path, link: str | None) -> None:
    limits = Limits(link=link, per_connection="400mbit")
    config = LabConfig(addresses=1, instances=Instances.ONE)
    with started_lab(config) as lab:
        try:
            find("nft")
        except MissingError as error:
            missing(error)
        lab.limit(limits)
        (lab.export_dir / "file").write_bytes(bytes(16 << 20))
        options: dict[str, Option] = {"rw": "randrw", "bs": "64k", "size": "16m"}
        options |= {"filename": "file", "nconnect": 4, "spread": "roundrobin"}
        fio = Fio(Engine.built(), enter=lab.command([]))
        result = fio.run(tmp_path, pool=lab.pool, options=options)
        assert result.status == 0, result.messages
        for namespace, device in ((lab.network.server, "v0"), (lab.network.client, "v1")):
            bytes_sent = _class_bytes(namespace, device, "400Mbit")
            assert len([sent for sent in bytes_sent if sent > 1 << 20]) == 4
        lab.limit(Limits())
        ruleset = [*lab.network.enter(lab.network.client), "nft", "list", "ruleset"]
        assert not run(ruleset, timeout=9).check().stdout


def _class_bytes(namespace: str, device: str, ceiling: str) -> list[int]:
    """Give what each class with this ceiling has sent, in bytes."""
    classes = run(["tc", "-s", "-n", namespace, "class", "show", "dev", device], timeout=9).check()
    found = re.findall(rf" ceil {ceiling} .*\n Sent (\d+) bytes", classes.stdout)
    return [int(sent) for sent in found]


def test_a_kernel_that_cannot_number_connections_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = namespaces()
    monkeypatch.setattr(Limits, "numbering", lambda *_: "add rule inet nowhere at all\n")
    said = pytest.raises(HarnessError, match="--per-connection: nft cannot number connections")
    with said, started_lab(LabConfig(addresses=1, limits=Limits(per_connection="400mbit"))):
        pass
    assert namespaces() == before


def test_killed_lab_is_removed_by_the_next_start(lab: Lab, tmp_path: Path) -> None:
    script = (
        "import os, signal; from nfsmulti.lab import Lab, LabConfig\n"
        "print(Lab(LabConfig(addresses=1)).start().id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "PYTHONPATH": str(PYTHON_TESTS)}
    killed = subprocess.run(
        [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    network = Network(killed.stdout.strip())
    state = LabState.read(lab.folder.parent / network.id)
    assert state is not None
    assert {network.server, network.client} <= namespaces()
    with started_lab(LabConfig(addresses=1)):
        assert not state.folder.exists()
        assert not {network.server, network.client} & namespaces()
        assert not any(process.alive() for process in state.processes.values())
    assert _nfs_versions(lab, "10.77.0.1") == [3, 4]


def test_leftovers_are_told_from_strangers() -> None:
    with Process(["sleep", "1000"]) as ours, Process(["sleep", "1000"]) as stranger:
        owner, other = Identity.of(ours.pid), Identity.of(stranger.pid)
        gone = Identity(owner.pid, owner.start - 1, owner.boot)
        reused = Identity(other.pid, other.start - 1, other.boot)
        state = LabState("leftover", gone, {"rpcbind": owner, "server": reused})
        with states.lock():
            state.write()
            assert states.remove_leftovers() == ["leftover"]
        assert ours.wait(5) == -signal.SIGKILL
        assert stranger.running
        assert not state.folder.exists()


def test_a_server_that_does_not_start_leaves_nothing() -> None:
    before = namespaces()
    broken = LabConfig(addresses=1, exports=(Export("export", access="NONSENSE"),))
    said = pytest.raises(HarnessError, match=r"(?s)10\.77\.0\.1 did not start.*NONSENSE")
    with said, started_lab(broken):
        pass
    assert namespaces() == before


def test_command_line(lab: Lab) -> None:
    name = f"cli{os.getpid()}"
    started = run_harness("lab", "start", "--id", name, "--addresses", "2", "--ro").check().stdout
    try:
        assert f"lab {name} is up" in started
        assert "pool ro         nfs://10.77.0.1/ro?nfsport=22049&mountport=22050," in started
        assert run_harness("lab", "start", "--id", name).status == 1
        inside = run_harness("lab", "exec", "--id", name, "--", "sh", "-c", "echo $POOL; exit 5")
        assert inside.status == 5
        assert inside.stdout.startswith("nfs://10.77.0.1/export?")
        assert f"lab {name} is up" in run_harness("lab", "status").check().stdout
    finally:
        assert run_harness("lab", "stop", "--id", name).check().stdout == f"lab {name} stopped\n"
    assert not any(namespace.startswith(f"nfsmulti-{name}-") for namespace in namespaces())
    assert f"no lab '{name}' runs" in run_harness("lab", "stop", "--id", name).stderr
    # This session's own lab belongs to it.
    assert "belongs to a running command" in run_harness("lab", "stop", "--id", lab.id).stderr


def test_run_gives_the_commands_status() -> None:
    argv = ["lab", "run", "--local", "--addresses", "1", "--", "sh", "-c", "echo $POOL; exit 7"]
    try:
        find("ganesha.nfsd")
    except MissingError as error:
        missing(error)
    done = run_harness(*argv)
    assert done.status == 7
    assert done.stdout.startswith("nfs://127.0.0.1/export?")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"addresses": "0"}, "--addresses=0"),
        ({"link": "fast"}, "--link: 'fast' is no rate"),
        ({"per-address": "0mbit"}, "--per-address: '0mbit' is no rate"),
        ({"assured": "1mbit"}, "--assured is a share of --per-address"),
        ({"size": "much"}, "--size: 'much' is no size"),
        ({"local": None, "link": "1gbit"}, "--local cannot limit rates"),
        ({"local": None, "per-connection": "1gbit"}, "--local cannot limit rates"),
        ({"per-connection": "1"}, "--per-connection: '1' is no rate"),
        ({"per-address": "1gbit", "per-connection": "1gbit"}, "exclude each other"),
        ({"id": "../x"}, "lab id '../x'"),
        ({"link": "1gbit", "per-address": "1gbit", "assured": "1gbit"}, "assure at most 250mbit"),
    ],
)
def test_bad_options(options: dict[str, str | None], complaint: str) -> None:
    words = [f"--{key}" if value is None else f"--{key}={value}" for key, value in options.items()]
    done = run_harness("lab", "start", *words)
    assert done.status == 1
    assert done.stderr.startswith("nfsmulti: ")
    assert complaint in done.stderr
