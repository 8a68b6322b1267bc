# SPDX-License-Identifier: GPL-2.0-only
"""Fuzzing of what reads bytes of servers and users: libFuzzer, under ASan and UBSan.

python-tests/fuzz/ gives each decoder a number of inputs, on all processors. A run that shall find
something takes longer; this one has an hour for each, which is five hours on two processors:

    NFSMULTI_FUZZ_SECONDS=3600 ./nfsmulti test --full -k fuzz

What they have learned stays in build/fuzz/NAME/corpus for the next run. An input that fails is kept
beside it; it is tried alone by

    cmake --build build/clang --target fuzz && build/clang/fuzz NAME build/fuzz/NAME/crash-...

and, once it is understood, stands in fuzz_seeds.py for good.
"""

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import missing
from fuzz_seeds import SEEDS

from nfsmulti.errors import MissingError
from nfsmulti.paths import BUILD, PYTHON_TESTS
from nfsmulti.processes import Process, find, run

# Four times as many, which take most of a minute more, reach 2 % more branches than these.
_INPUTS = {
    "environment": 75_000,
    "krb5_token": 40_000,
    "message": 100_000,
    "nfs3": 250_000,
    "nfs4": 75_000,
    "pool": 4_000,
    "record": 1_000,
    "rpcrdma": 125_000,
    "rpcsec_gss": 5_000,
    "tls": 125_000,
}
# Bytes; else 4096, or as many as the longest seed has. Each pool of a variable is compared with all
# before it: 4096 bytes of short ones take a second.
_LONGEST = {"environment": 200}
_WANTED = int(os.environ.get("NFSMULTI_FUZZ_SECONDS") or 0)
_SECONDS = _WANTED or 300  # a slow machine tries fewer
_BUILD_SECONDS = 900.0
_INPUT_SECONDS = 10  # for one input; more is a finding
_GRACE = 60.0  # to start, to read the corpus, to write the last words
_FEWEST = 1000  # inputs; a program that is stuck tries less
# What conftest.py sets for fio costs four inputs of five.
_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=1", "LSAN_OPTIONS": ""}

Fuzzer = Future[str]  # what it says

pytestmark = [pytest.mark.full, pytest.mark.timeout(_SECONDS + 2 * _GRACE)]


def _fuzz(programs: Path, name: str, running: ExitStack) -> str:
    """Run a fuzzer, which `running` may end early; give what it said. Fails where it found any."""
    folder = BUILD / "fuzz" / name
    corpus, seeds, log = folder / "corpus", folder / "seeds", folder / "log"
    for one in (corpus, seeds):
        one.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(SEEDS[name]):
        (seeds / str(i)).write_bytes(seed)
    options = [
        f"-max_total_time={_SECONDS}",
        f"-timeout={_INPUT_SECONDS}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        f"-max_len={_LONGEST.get(name, 0)}",
    ]
    if not _WANTED:
        options.append(f"-runs={_INPUTS[name]}")
    argv = [str(programs / "fuzz"), name, *options, str(corpus), str(seeds)]
    with log.open("wb") as output:
        process = Process(argv, env=_ENVIRONMENT, stdout=output, stderr=output)
    status = running.enter_context(process).wait(_SECONDS + _GRACE)
    said = log.read_text(errors="replace")
    if status != 0:
        how = "did not end" if status is None else f"ended with status {status}"
        pytest.fail(f"fuzz {name} {how}\n{said[-6000:]}", pytrace=False)
    return said


def _fuzzed(item: pytest.Item) -> str | None:
    """Return the decoder that a test of this module is about."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("decoder") if item.path == Path(__file__) else None


@pytest.fixture(scope="module")
def fuzzers(request: pytest.FixtureRequest, clang_build: Path) -> Iterator[Mapping[str, Fuzzer]]:
    """Yield the fuzzers of the tests that are to run; as many work as there are processors."""
    resources = run([find("clang"), "-print-resource-dir"], timeout=_GRACE).check().stdout.strip()
    if not any(Path(resources).rglob("libclang_rt.fuzzer*")):
        missing(MissingError("libFuzzer is not installed", "apt-get install libclang-rt-dev"))
    processors = os.cpu_count() or 1
    make = ["cmake", "--build", str(clang_build), "--target", "fuzz", "--parallel"]
    run([*make, str(processors)], timeout=_BUILD_SECONDS).check()
    names = [name for item in request.session.items if (name := _fuzzed(item))]
    with ThreadPoolExecutor(processors) as pool, ExitStack() as running:
        yield {name: pool.submit(_fuzz, clang_build, name, running) for name in names}
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("decoder", SEEDS)
def test_fuzz(fuzzers: Mapping[str, Fuzzer], decoder: str) -> None:
    said = fuzzers[decoder].result()
    tried = re.search(r"^stat::number_of_executed_units: *(\d+)$", said, re.MULTILINE)
    assert tried, said[-2000:]
    assert int(tried[1]) >= _FEWEST


def test_every_fuzzer_has_seeds() -> None:
    main = (PYTHON_TESTS / "fuzz/main.c").read_text()
    assert set(re.findall(r"fuzz_(\w+)}", main)) == set(SEEDS) == set(_INPUTS)
