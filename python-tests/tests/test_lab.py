# SPDX-License-Identifier: GPL-2.0-only
"""Labs: they come up, are what they promise, and leave nothing."""

import contextlib
import dataclasses
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    call_harness,
    missing,
    namespaces,
    or_skip,
    run_harness,
    started_lab,
)

from jobs import Fio
from nfsmulti import machine
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import Export, Lab, LabConfig, Limits, commands, ganesha
from nfsmulti.lab.lab import LabState
from nfsmulti.lab.network import Network
from nfsmulti.paths import LABS, build_dir
from nfsmulti.processes import Completed, Identity, Process, run


def _nfs_versions(lab: Lab, address: str) -> list[int]:
    """Ask for NFS versions from where clients run; none if nobody answers."""
    host = f"[{address}]" if ":" in address else address
    paths = [f"nfs://{host}/export?nfsport=22049&mountport=22050&version={n}" for n in (3, 4.1)]
    asked = lab.command([str(build_dir() / "nfsmulti-export"), "info", ",".join(paths)])
    told = [json.loads(line) for line in run(asked, timeout=60).stdout.splitlines()]
    return [number for number, one in zip((3, 4), told, strict=True) if not one.get("error")]


def test_every_address_serves_and_has_its_text(lab: Lab) -> None:
    addresses = [server.endpoint.address for server in lab.servers]
    assert addresses == ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4", "fd77::1"]
    assert all(_nfs_versions(lab, address) == [3, 4] for address in addresses)
    assert lab.path(1, export="ro") == "nfs://10.77.0.2/ro?nfsport=22049&mountport=22050"
    assert lab.pool_of(2) == f"{lab.path(0)},{lab.path(1)}"
    assert lab.pool == lab.pool_of(4)
    assert lab.pool6 == "nfs://[fd77::1]/export?nfsport=22049&mountport=22050"
    said = lab.run(["sh", "-c", 'echo "$POOL"; echo "$NFSMULTI_POOLS"']).check().stdout
    pool, pools = said.splitlines()
    assert pool == lab.pool
    assert pools.startswith(f"lab:{lab.pool} one:{lab.path(0)} ro:")


def test_one_instance_serves_all_addresses_and_two_labs_live_at_once(lab: Lab) -> None:
    with started_lab(LabConfig(addresses=2, one_server=True)) as other:
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


def _at_both_ends(lab: Lab, what: str) -> list[str]:
    """Return what tc shows of the limits at the server's end and at the client's."""
    ends = ((lab.network.server, "v0"), (lab.network.client, "v1"))
    argvs = (["tc", "-s", "-n", name, what, "show", "dev", device] for name, device in ends)
    return [run(argv, timeout=60).check().stdout for argv in argvs]


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (Limits(), "noqueue"),
        (Limits(link="1gbit"), "tbf"),
        (Limits(link="1gbit", per_address="120mbit", burst="64k"), "htb"),
    ],
)
def test_limits_are_set_at_both_ends(limits: Limits, kind: str) -> None:
    with started_lab(LabConfig(3, one_server=True, limits=limits)) as lab:
        queues, classes, filters = (
            _at_both_ends(lab, what) for what in ("qdisc", "class", "filter")
        )
        assert _nfs_versions(lab, "10.77.0.2") == [3, 4]
    for said in queues:
        assert f"qdisc {kind} " in said
        assert kind != "tbf" or " rate 1Gbit " in said
    capped = (("1:1", "1Gbit"), ("1:10", "120Mbit"), ("1:12", "120Mbit"))
    for said in classes:
        for handle, rate in capped if kind == "htb" else ():
            assert re.search(f"htb {handle} .*ceil {rate} ", said)
    for said in filters:
        assert said.count("flowid 1:12") == (kind == "htb")


@pytest.mark.parametrize("link", [None, "1gbit"])
def test_each_connection_has_a_cap_of_its_own(tmp_path: Path, link: str | None) -> None:
    limits = Limits(link=link, per_connection="400mbit")
    with started_lab(LabConfig(1, one_server=True, limits=limits)) as lab:
        (lab.export_dir / "file").write_bytes(bytes(16 << 20))
        options: dict[str, Option] = {"rw": "randrw", "bs": "64k", "size": "16m"}
        options |= {"filename": "file", "nconnect": 4, "spread": "roundrobin"}
        fio = Fio(Engine.built(), enter=lab.command([]))
        result = fio.run(tmp_path, pool=lab.pool, options=options)
        assert result.status == 0, result.messages
        for said in _at_both_ends(lab, "class"):
            found = re.findall(r" ceil 400Mbit .*\n Sent (\d+) bytes", said)
            assert len([sent for sent in found if int(sent) > 1 << 20]) == 4


def test_a_lab_whose_owner_is_gone_is_removed_by_the_next_start_and_no_stranger(lab: Lab) -> None:
    left = Lab(LabConfig(addresses=1))
    with Process(["sleep", "1000"]) as stranger:
        with or_skip():
            left.start()
        ours = dict(left.state.processes)
        assert ours.keys() == {"rpcbind", "server-10.77.0.1"}
        gone, reused = (
            dataclasses.replace(one, start=one.start - 1)  # of an earlier process of that number
            for one in (left.state.owner, Identity.of(stranger.pid))
        )
        dataclasses.replace(left.state, owner=gone, processes={**ours, "other": reused}).write()
        with started_lab(LabConfig(addresses=1)):  # or another test has started one meanwhile
            assert not left.folder.exists()
            assert not {left.network.server, left.network.client} & namespaces()
            assert not any(process.alive() for process in ours.values())
        assert stranger.running
    assert _nfs_versions(lab, "10.77.0.1") == [3, 4]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"exports": (Export("export", access="NONSENSE"),)}, r"10\.77\.0\.1 did not .*NONSENSE"),
        ({"limits": Limits(per_connection="1gbit")}, "--per-connection: nft cannot number conn"),
    ],
    ids=["server", "kernel"],
)
def test_a_lab_that_does_not_start_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(Limits, "numbering", lambda *_: "add rule inet nowhere at all\n")
    lab = Lab(LabConfig(addresses=1, **config))
    with pytest.raises(HarnessError, match=f"(?s){said}"), or_skip():
        lab.start()
    assert not {lab.network.server, lab.network.client} & namespaces()
    assert not lab.folder.exists()


@pytest.mark.parametrize("refused", [1, 2])
def test_a_server_that_cannot_register_is_started_once_more(tmp_path: Path, refused: int) -> None:
    script, starts = tmp_path / "server", tmp_path / "starts"
    script.write_text(
        f'#!/bin/sh\necho start >>"{starts}"\n[ $(wc -l <"{starts}") -gt {refused} ] || {{\n'
        'echo ":DISP :FATAL :Cannot register NFS V3 on TCP" >>"$6"; exit 2; }\n'
        'echo "NFS SERVER INITIALIZED" >>"$6"; exec sleep 100\n'
    )
    script.chmod(0o755)
    where = ganesha.Endpoint("127.0.0.9", 22049, 22050)
    config = LabConfig(1, memory=True)
    server = ganesha.Server(where, config, kdc=None, folder=tmp_path, enter=[str(script)])
    fails = pytest.raises(HarnessError, match=r"(?s)did not start; .*Cannot register NFS V3")
    with contextlib.ExitStack() as undo:
        undo.callback(server.kill)
        undo.enter_context(fails if refused == 2 else contextlib.nullcontext())
        server.start()
        assert server.running
    assert starts.read_text() == "start\n" * 2


def test_command_line(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"cli{os.getpid()}"
    started = run_harness("lab", "start", "--id", name, "--addresses", "2", "--ro").check().stdout
    try:
        assert f"lab {name} is up" in started
        assert "pool ro         nfs://10.77.0.1/ro?nfsport=22049&mountport=22050," in started
        with pytest.raises(HarnessError, match=f"a lab '{name}' exists already"):
            Lab(LabConfig(1), lab_id=name).start()
        inside = run_harness("lab", "exec", "--id", name, "--", "sh", "-c", "echo $POOL; exit 5")
        assert inside.status == 5
        assert inside.stdout.startswith("nfs://10.77.0.1/export?")
        commands.status()
        assert f"lab {name} is up" in capsys.readouterr().out
    finally:
        commands.stop(name, every=False)
    assert f"lab {name} stopped\n" in capsys.readouterr().out
    assert not any(namespace.startswith(f"nfsmulti-{name}-") for namespace in namespaces())
    with pytest.raises(HarnessError, match=f"no lab '{name}' is running"):
        commands.stop(name, every=False)
    # This session's own lab belongs to it.
    with pytest.raises(HarnessError, match="belongs to a running command"):
        commands.end(lab.state)


@pytest.mark.usefixtures("kerberos")
def test_the_printed_line_has_what_fio_needs() -> None:
    """And what it leads to is there until the lab ends, with its process."""
    name = f"realm{os.getpid()}"
    words = ["--id", name, "--addresses", "1", "--sec", "krb5p", "--local"]
    said = call_harness("lab", "start", *words).stdout
    try:
        (line,) = re.findall(r"^  try it +(.*)$", said, re.MULTILINE)
        settings = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        assert settings["--security"] == "krb5p"
        kinit = ["kinit", "-k", "-t", settings["--keytab"], settings["--principal"]]
        env = {name: settings[name] for name in ("KRB5_CONFIG", "KRB5CCNAME")}
        run(kinit, timeout=60, env=env).check()
        state = LabState.read(LABS / name)
        assert state is not None
        assert state.processes["kdc"].alive()
        asked = run_harness("lab", "exec", "--id", name, "--", "sh", "-c", "echo $POOL").check()
        assert f"&sec=krb5p&keytab={settings['--keytab']}&principal=alice%40" in asked.stdout
    finally:
        commands.stop(name, every=False)
    assert not state.processes["kdc"].alive()
    assert not Path(settings["--keytab"]).exists()


@pytest.mark.parametrize("instances", ["one", "per-address"])
def test_servers_are_as_many_as_asked(monkeypatch: pytest.MonkeyPatch, instances: str) -> None:
    monkeypatch.setattr(machine, "missing_privileges", lambda: None)
    config = commands._config(2, instances, None, None, "none", local=False, read_only=False)
    assert config.one_server == (instances == "one")


def test_run_gives_the_commands_status(lab: Lab) -> None:
    script = "echo $POOL; kill -TERM $$"
    done = run_harness("lab", "run", "--local", "--addresses", "1", "--", "sh", "-c", script)
    assert done.status == 128 + 15
    assert done.stdout.startswith("nfs://127.0.0.1/export?")


_UNPRIVILEGED = ("setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all")
_VERIFIED = (
    "fio --name=t --ioengine=external:$0 --pool=lab --spread=stripe --nconnect=2 --rw=write --bs=4k"
    " --size=2m --verify=crc32c --filename=f && echo $POOL"
)


def _without_privileges(*words: str, own_namespaces: bool = False) -> Completed:
    """Run the harness as ./nfsmulti does for who lacks a lab's privileges."""
    with or_skip():
        ganesha.plugins("MEM")
    enter = [] if machine.missing_privileges() else [*_UNPRIVILEGED]
    if own_namespaces:
        enter += ["sh", str(machine.PRIVILEGES)]
        if run([*enter, "true"], timeout=60).status:
            missing(MissingError("no user namespaces"))
    return run_harness(*words, enter=enter).check()


def test_a_lab_in_namespaces_of_its_users_own(engine: Engine) -> None:
    """It is used and stopped from outside these. Its caps are those of any lab."""
    name = f"own{os.getpid()}"
    words = ["--id", name, "--addresses", "2", "--per-address", "800mbit"]
    started = _without_privileges("lab", "start", *words, own_namespaces=True)
    try:
        assert f"lab {name} is up" in started.stdout
        assert "left out: NFSv3, a server for each address, and data" in started.stderr
        command = ["sh", "-c", _VERIFIED, str(engine.library)]
        done = _without_privileges("lab", "exec", "--id", name, "--", *command)
        assert "4 connections on 2 paths: 512 reads, 512 writes" in done.stdout
        url = "nfs://10.77.0.{}/export?nfsport=22049&version=4.1"
        assert f"{url.format(1)},{url.format(2)}\n" in done.stdout
        shown = ["tc", "class", "show", "dev", "v1"]
        done = _without_privileges("lab", "exec", "--id", name, "--", *shown)
        assert done.stdout.count("ceil 800Mbit") == 2
    finally:
        stopped = _without_privileges("lab", "stop", "--id", name)
    assert f"lab {name} stopped" in stopped.stdout


def test_a_lab_without_namespaces_serves_this_machine_alone(engine: Engine) -> None:
    script = f"{_VERIFIED} && cat {LABS}/*/server-0.0.0.0/ganesha.conf"
    command = ["sh", "-c", script, str(engine.library)]
    done = _without_privileges("lab", "run", "--addresses", "2", "--", *command)
    assert "without namespaces also the limits of rates" in done.stderr
    assert "4 connections on 2 paths: 512 reads, 512 writes" in done.stdout
    assert "\nnfs://127.0.0.1/export?nfsport=" in done.stdout
    assert "Access_Type = NONE; CLIENT { Clients = 127.0.0.0/8;" in done.stdout


def test_each_path_asks_for_the_labs_security() -> None:
    paths = ("nfs://10.0.0.1/export", "nfs://10.0.0.2/export?version=4.1")
    owner = Identity.of(os.getpid())
    lab = LabState("abc", owner, pools={"lab": ",".join(paths)}, options={"security": "krb5p"})
    asking = f"{paths[0]}?sec=krb5p,{paths[1]}&sec=krb5p"
    assert lab.asking().pools == {"lab": asking}


def test_a_lab_that_is_starting_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it stopped."""
    monkeypatch.setattr("nfsmulti.lab.lab.LABS", tmp_path)
    assert call_harness("lab", "stop").stdout == "no lab is running\n"
    LabState("abc", Identity.of(os.getpid())).write()
    done = call_harness("lab", "status").check()
    assert done.stdout == f"lab abc is starting, of process {os.getpid()}\n"
    with pytest.raises(HarnessError, match="no lab is running"):
        commands.choose(None)


@pytest.mark.parametrize(
    ("words", "link", "assured"),
    [
        ({}, "3000", "1000"),
        ({"assured": "400mbit"}, "3000", "400"),
        ({"link": "1500mbit"}, "1500", "500"),
        ({"link": "6gbit", "assured": "2gbit"}, "6000", "2000"),
    ],
)
def test_a_capped_address_has_its_share_of_the_link(
    words: dict[str, str], link: str, assured: str
) -> None:
    """Without a link's limit of all caps."""
    lines = Limits(per_address="1gbit", **words).commands("v0", "dst", Network.addresses(3))
    form = r"classid (\S+) htb rate (\d+)000000bit ceil (\d+)000000bit burst (\d+) "
    each = [(flow, assured, "1000", f"{256 << 10}") for flow in ("1:10", "1:11", "1:12")]
    shared = "1:1", link, link, f"{250 * int(link)}"  # bytes of 2 ms
    assert re.findall(form, "\n".join(lines)) == [shared, *each]


def test_connections_borrow_from_their_link() -> None:
    for link, parent, rate in (("1gbit", "1:1", 10**9 // 1024), (None, "1:", 400 * 10**6)):
        lines = Limits(link=link, per_connection="400mbit").commands("v0", "src", [])
        form = rf" parent {parent} classid 1:\w{{3}} htb rate {rate}bit ceil 400000000bit "
        assert sum(bool(re.search(form, one)) for one in lines) == 1024
