# SPDX-License-Identifier: GPL-2.0-only
"""What a user of 0.6.0 still has, job files, pools, results and directories, and what each meets.

left_by_0.6.0.txt holds what that version wrote: docs/changes.md says what must come of it.
"""

import os
import shutil
import socket
from pathlib import Path

import pytest
from conftest import FioRunner, call_harness, refusal

from nfsmulti.processes import run

_LEFT = Path(__file__).with_name("left_by_0.6.0.txt").read_text()
_PARTS = dict(part.split("\n", 1) for part in _LEFT.split("\n== ")[1:])
_RUN = "results/randread/20261129T030046Z"
_DIRECTORY = "nfsmulti-20261129T030046Z-e4b91aed"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Lay down what 0.6.0 left, below a folder that has nas/, its server, and foreign files."""
    for name, text in _PARTS.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("/mnt/nas", str(tmp_path / "nas")) + "\n")
    (tmp_path / "nas/mine").mkdir()
    (tmp_path / "nas/mine/file").write_text("mine")
    return tmp_path


# --- job files and pools ---


_CONTEXT = "it is gone since 0.7.0: each connection has a context of its own; leave it out"
_GONE = {
    "gss_context": ("gss_context=connection\nsecurity=krb5\npool={url}", _CONTEXT),
    "gss_context of a path": ("pool={url}&sec=krb5&gss_context=job", _CONTEXT),
    "meta_create": (
        "metadata=1\nmeta_create=exclusive\npool={url}",
        "it is gone since 0.7.0: each create is GUARDED; leave it out",
    ),
    "metadata on a kernel mount": (
        "metadata=1\npool=/tmp,{url}",
        "metadata=1 on a kernel mount is gone since 0.7.0: use fio's filecreate, filestat and",
    ),
}


@pytest.mark.parametrize("what", _GONE)
def test_a_job_file_that_uses_what_is_gone_is_refused_before_it_connects(
    local_fio: FioRunner, tmp_path: Path, what: str
) -> None:
    options, said = _GONE[what]
    with socket.create_server(("127.0.0.9", 0)) as server:
        server.setblocking(False)
        url = f"nfs://127.0.0.9/x?version=4.1&port={server.getsockname()[1]}"
        job = tmp_path / "old.fio"
        job.write_text(f"[old]\nrw=write\nsize=64k\nfilename=f\n{options.format(url=url)}\n")
        result = local_fio(pool=None, jobfile=job)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert result.status == 1
    (line,) = {line for line in result.messages.splitlines() if "gone" in line}
    assert said in line


def test_a_pool_is_read_as_it_was(pool_tool: Path) -> None:
    env = {**os.environ, "NFSMULTI_POOLS": _PARTS["pools"]}
    read = run([str(pool_tool), "fast"], timeout=20, env=env)
    assert read.stdout.rstrip() == _PARTS["fast"].rstrip()


# --- results ---


def test_results_and_a_baseline_are_read(old: Path) -> None:
    folder = old / _RUN
    assert call_harness("report", str(folder)).status == 0
    page = (folder / "report.md").read_text()
    assert "1,624 MB/s" in page
    assert "nfsmulti 0.6.0" in page
    shutil.copytree(folder, old / "results/randread/20261130T030046Z")
    done = call_harness("compare", "--results", str(old / "results"))
    assert "A: 20261129T030046Z" in done.stdout
    assert "1,624" in done.stdout
    assert "1.00" in done.stdout
    assert done.status == 11  # too few repeats for a verdict, and no fault


def test_a_run_is_not_continued(old: Path) -> None:
    folder = old / _RUN
    before = {file: file.stat().st_mtime_ns for file in old.rglob("*")}
    why = refusal("run", "randread", "--resume", str(folder), "--results", str(old / "results"))
    assert why.startswith(f"{folder} began with another nfsmulti: 0.6.0, here it is ")
    assert {file: file.stat().st_mtime_ns for file in old.rglob("*")} == before


# --- directories on a server ---


def test_a_directory_without_a_mark_is_named_with_what_removes_it(old: Path) -> None:
    nas, note = old / "nas", old / _RUN / "directory.json"
    where = ("clean", f"--pool={nas}", f"--results={old / 'results'}")
    said = f'{_DIRECTORY}/ is NOT removed: "{_DIRECTORY}" has no mark, which runs make since 0.7.0;'
    for words in (where[::2], where):
        done = call_harness(*words)
        assert done.status == 1
        assert done.stdout.startswith(f"{said} if it is yours: ")
        assert (nas / _DIRECTORY / "nfsmulti-randread").exists()
    by_hand = done.stdout.partition("if it is yours: ")[2]
    run(["sh", "-c", by_hand], timeout=60).check()
    assert not note.exists()
    assert [str(file.relative_to(nas)) for file in nas.rglob("*")] == ["mine", "mine/file"]
    assert call_harness(*where).stdout == "no run has left anything\n"
