# SPDX-License-Identifier: GPL-2.0-only
"""What a run consists of: the cells of each scenario, factors of the user, and their order."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest
from run_helpers import begun, made_record, own_cells

from nfsmulti.arguments import config, understand
from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import ADDRESSES
from nfsmulti.paths import JOBFILES, write_json
from nfsmulti.run import command
from nfsmulti.run.place import InGuest, OnPool, split_pool
from nfsmulti.run.plan import Plan, crossed, jobfile_jobs, name_of, ordered, parse_factors
from nfsmulti.run.record import Record, expected_seconds
from nfsmulti.run.start import Request, planned, resumed
from nfsmulti.scenario import GuestPlace, OwnPool, Scale
from nfsmulti.stories import SCENARIOS


def test_factors_are_options_of_engine_and_fio_and_cross_the_cells() -> None:
    given = parse_factors(["nconnect=1,4", "iodepth=8", "stable=unstable,file_sync"])
    assert given == {"nconnect": (1, 4), "iodepth": (8,), "stable": ("unstable", "file_sync")}
    specs = SCENARIOS["sweep"].cells(Scale())
    cells = crossed(specs, given)
    assert len(cells) == 96 * 4
    assert len({name_of(cell.factors) for cell in cells}) == len(cells)
    assert cells[0].options["iodepth"] == cells[0].factors["iodepth"] == 8
    assert crossed(SCENARIOS["oltp"].cells(Scale()), {"numjobs": (1, 2)})
    # A version is the engine's and not fio's own.
    cells = crossed(SCENARIOS["sweep"].cells(Scale(True)), parse_factors(["version=3,4.1"]))
    versions = {(cell.factors["version"], cell.options["nfsvers"]) for cell in cells}
    assert versions == {(3, 3), ("4.1", "4.1")}
    assert all("version" not in cell.options for cell in cells)


def test_a_run_in_a_guest_that_is_gone_is_not_continued(tmp_path: Path) -> None:
    record = begun(tmp_path, Request(quick=True), "randread")
    plan = record.folder / "plan.json"
    write_json(plan, {**json.loads(plan.read_text()), "guest": "uml"})
    with pytest.raises(HarnessError, match="--guest is gone since"):
        Plan.load(record.folder)


def test_a_factor_wins_over_the_arguments_of_a_users_path() -> None:
    (cell, *_) = crossed(SCENARIOS["sweep"].cells(Scale(True)), {"version": ("4.1",)})
    path = "nfs://10.0.0.1/vol?vers=3&soft&rsize=4096&timeo=7&mountport=9"
    assert OnPool(path).pool(cell) == "nfs://10.0.0.1/vol?timeo=7"


def test_to_nfs4_a_guests_export_is_the_root() -> None:
    pools = [InGuest(GuestPlace()).pool(spec) for spec in SCENARIOS["randread"].cells(Scale())[:2]]
    assert pools == [
        f"nfs://{ADDRESSES[0]}/export?proto=rdma",
        f"nfs://{ADDRESSES[0]}/?proto=rdma&version=4.1",
    ]


def test_runs_that_begin_in_one_second_have_a_folder_each(tmp_path: Path) -> None:
    runs = [begun(tmp_path, Request(quick=True, label="a"), "dd") for _ in range(3)]
    names = {run.folder.name for run in runs}
    assert len(names) == 3
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-a", name) for name in names)


def test_newest_run_is_found_past_a_broken_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = begun(tmp_path, Request(quick=True), "dd").folder
    broken = tmp_path / "dd" / "9"
    broken.mkdir()
    (broken / "plan.json").write_text("{")
    assert resumed(tmp_path, None, "dd").folder == good
    assert "skipped: " in capsys.readouterr().err


def test_seconds_of_cells_are_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSMULTI_CELL_SECONDS", "abc")
    with pytest.raises(HarnessError, match="NFSMULTI_CELL_SECONDS=abc: not a number of seconds"):
        begun(tmp_path, Request(quick=True), "dd")


def test_order_is_random_and_the_seed_s() -> None:
    specs = SCENARIOS["sweep"].cells(Scale(True))
    one, again, other = (ordered(specs, 3, seed) for seed in (1, 1, 2))
    assert one == again
    assert [cell.id for cell in one] != [cell.id for cell in other]
    assert [cell.order for cell in one] == list(range(1, 3 * len(specs) + 1))
    names = [name_of(spec.factors) for spec in specs]
    orders = [
        [name_of(cell.spec.factors) for cell in one if cell.repeat == repeat]
        for repeat in (1, 2, 3)
    ]
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len(set(map(tuple, (names, *orders)))) == 4  # each repeat has its own


def test_a_dry_run_tells_the_cells_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command._out, "stderr", False)  # which --json changes
    command.run("dd", [], quick=True, dry_run=True, seed=1, results=tmp_path)
    first, *cells, last = capsys.readouterr().out.splitlines()
    plan, _ = planned(Request(quick=True, seed=1), "dd")
    assert first.startswith(f"dd: {len(plan.cells)} cells, about 0:")
    assert len(cells) == len({*cells}) == len(plan.cells)
    assert f"  {plan.cells[0].order} each address capped, " in cells[0]
    assert last.startswith("Run them: ")
    command.run("dd", [], quick=True, dry_run=True, seed=1, results=tmp_path, as_json=True)
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert [cell["id"] for cell in told["cells"]] == [cell.id for cell in plan.cells]
    assert told["restarts"] == 0
    asked = {"clients": (1, 10), "repeat": 3, "restart": "reboot", "results": tmp_path}
    command.run("clients", [], dry_run=True, as_json=True, **asked)
    assert json.loads(capsys.readouterr().out)["runs"][0]["restarts"] == 6
    command.run("clients", [], dry_run=True, **asked)
    assert "\n  restarts the server 6 times\n" in capsys.readouterr().out
    command.run("dd", [], dry_run=True, pool=str(tmp_path), results=tmp_path)
    assert "\n  left out: capped and uncapped are limits" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())


def test_a_run_keeps_its_options_in_a_file_that_another_takes(tmp_path: Path) -> None:
    """What the command line gives beside it counts, and the run's own command has both."""
    pool = "'nfs://a/\U0001f600\x7f?x=1'"  # JSON would write these as TOML cannot read them
    line = f"run connections --pool {pool} --nconnect=1,8 --factors spread=job,queue hard=0,1"
    request = Request(quick=True, command=f"./nfsmulti {line} --quick --label=w --dry-run --yes")
    file = begun(tmp_path, request, "connections").folder / config.FILE
    seed = re.search(r'^seed = "(\d+)"$', file.read_text(), re.MULTILINE)
    assert seed
    given = understand(shlex.split(f"{line} --quick --label=w --seed {seed[1]}")).values
    read = understand(["run", "connections", "--config", str(file)]).values
    assert {**read, "line": ""} == {**given, "line": ""}
    assert understand(shlex.split(read["line"])[1:]).values == read
    file.write_text("repeat = 2\nmounts = true\nnconnect = [2, 4]\nquick = false\n")
    both = understand(["run", "connections", "--repeat=7", f"--config={file}"]).values
    chosen = {name: both[name] for name in ("repeat", "mounts", "nconnect", "quick")}
    assert chosen == {"repeat": 7, "mounts": True, "nconnect": (2, 4), "quick": False}


def test_the_command_lines_place_stands_instead_of_the_files(tmp_path: Path) -> None:
    file = tmp_path / config.FILE
    for kept, given, place in (
        ('pool = "nfs://a/b"', "--lab", (None, True)),
        ("lab = true", "--pool=nfs://c/d", ("nfs://c/d", False)),
        ("lab = true", "--seed=1", (None, True)),
    ):
        file.write_text(f"quick = true\n{kept}\n")
        read = understand(["run", "dd", given, "--config", str(file)]).values
        assert (read["pool"], read["lab"], read["quick"]) == (*place, True)


def test_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    for name, scenario in SCENARIOS.items():
        record = made_record(tmp_path / name, name, scenario.cells(Scale(True)))
        assert Plan.load(record.folder) == record.plan
        assert Record.resume(record.folder).waiting() == record.plan.cells
    for bad in ("..", "../../../home", "/home", ""):  # --resume removes what a cell has left
        cell = dataclasses.replace(record.plan.cells[0], id=bad)
        dataclasses.replace(record.plan, cells=[cell]).save(tmp_path / "dd")
        with pytest.raises(HarnessError, match="is no name of a cell"):
            Plan.load(tmp_path / "dd")
    (tmp_path / "dd" / "plan.json").write_text("{}")
    with pytest.raises(HarnessError, match=r"plan\.json cannot be read"):
        Plan.load(tmp_path / "dd")


def test_a_jobfiles_files_cannot_be_somebodys_by_accident() -> None:
    for file in JOBFILES.glob("*.fio"):
        for name, job in jobfile_jobs(file.name, []).items():
            written = str(job.get("filename") or job.get("filename_format"))
            assert written.startswith("nfsmulti-"), (file.name, name)


def test_quick_runs_take_minutes_and_those_without_a_limit_an_hour_together() -> None:
    minutes = {}
    for name, scenario in SCENARIOS.items():
        guests = {one for one, place in scenario.places.items() if isinstance(place, GuestPlace)}
        cells = ordered(scenario.cells(Scale(quick=True)), scenario.quick_repeats, seed=1)
        minutes[name] = expected_seconds(cells, guests) / 60
    for name, most in (("connections", 3), ("metadata", 8), ("latency", 3), ("security", 6)):
        assert minutes.pop(name) <= most, name
    assert sum(minutes.values()) <= 60


def test_paths_of_a_pool_are_words_of_its_grammar(tmp_path: Path) -> None:
    folder = f"{tmp_path}/nas@1 a%20b"  # taken as it is written
    local = "localaddr=fe80::1%25lo+fe80::2"
    url = "nfs://127.0.0.[1-2]:22049/vol%2C1?soft&timeo=50"
    pool = f"{url},nfs://[::1]/a?proto=rdma&{local},{folder}"
    paths = split_pool(pool)
    assert paths[0] == "nfs://127.0.0.1/vol%2C1?port=22049&timeo=50&soft"
    assert len(paths) == 4
    assert paths[2] == f"nfs://[::1]/a?proto=rdma&{local}"
    assert split_pool(",".join(paths)) == paths
    place = OnPool(pool)
    assert place.offers == OwnPool(urls=3, mounts=1, url_proto="")
    assert OnPool("nfs://127.0.0.[1-2]/a?version=4.1").offers.url_version == "4.1"
    assert OnPool("nfs://127.0.0.1/a?version=4.1,nfs://127.0.0.1/a").offers.url_version == ""
    spec = own_cells("dd", Scale(True))[0]
    assert place.pool(dataclasses.replace(spec, paths=2)) == ",".join(paths[:2])
    assert place.mounts(spec) == [folder]


def test_options_of_the_engine_leave_out_what_other_engines_do(tmp_path: Path) -> None:
    request = Request(quick=True, repeat=1, factors={"nconnect": (1, 4), "iodepth": (1,)})
    plan = begun(tmp_path, request, "randread").plan
    assert {cell.spec.client for cell in plan.cells} == {"pool"}
    assert len(plan.cells) == 8
    assert len(plan.left_out) == 1
    assert "have no nconnect" in plan.left_out[0]
