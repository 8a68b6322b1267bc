# SPDX-License-Identifier: GPL-2.0-only
"""rx_timestamps=: what of a response is the server's, and what the client's own."""

import json
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import pytest
from conftest import FioRunner
from engine_c import CData, ffi, text, zeros
from engine_helpers import done, eventually
from scripted_jobs import Options

from nfsmulti.fiorun import FioResult
from servers.scripted import Answer, Call, Nfs, ScriptedServer, on

pytestmark = pytest.mark.sanitized

_TIMESTAMPING, _SOFTWARE_RX = 37, 1 << 3 | 1 << 4  # asm/socket.h, linux/net_tstamp.h
_READS: Options = {"rw": "read", "rx_timestamps": 1}  # 16 blocks of 4 KiB
_HELD = 0.3  # seconds
_SEC = 10**9
_NOW = 1_700_000_000 * _SEC


@pytest.fixture(scope="module", autouse=True)
def _stamps() -> Iterator[None]:
    """Have the kernel stamp what comes: it does only some time after a first socket has asked."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as receiver,
        listener.accept()[0] as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, _TIMESTAMPING, _SOFTWARE_RX)

        def is_stamped() -> bool:
            sender.send(b"?")
            return bool(receiver.recvmsg(1, 256)[1])

        eventually(is_stamped)
        yield


def _response(result: FioResult) -> Mapping[str, Any]:
    """Expect parts of each reply that add up to its rtt; gives the job's line."""
    done(result)
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in (result.folder / "stats.jsonl").open()
    ]
    (response,) = (line for line in lines if line.get("kind") == "response")
    connections = [line for line in lines if "kind" not in line]
    assert response["replies"] == sum(line["read_ops"] for line in connections)
    for word in (name for name in ("lag", "service", "wake_up") if f"{name}_bins" in response):
        bins = {int(ns): count for ns, count in response[f"{word}_bins"].items()}
        mean_us = sum(ns * count for ns, count in bins.items()) / response["replies"] / 1e3
        assert sum(bins.values()) == response["replies"]
        assert response[f"{word}_mean_us"] == pytest.approx(mean_us, rel=0.01, abs=0.001)
    for line in connections:  # means are whole nanoseconds
        parts = line["service_mean_us"] + line["wake_up_mean_us"]
        assert parts == pytest.approx(line["rtt_mean_us"], rel=0, abs=0.0025)
    assert "response: service p99 " in result.messages
    return response


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(testlib: CData) -> None:
    """The largest is neither the first nor the last; of one connection, or of three."""
    alone, joined = zeros("histogram"), zeros("histogram")
    for value in (10, 20, 10):
        one = zeros("histogram")
        testlib.histogram_add(alone, value)
        testlib.histogram_add(one, value)
        testlib.histogram_join(joined, one)
    for histogram in (alone, joined):
        told = [testlib.histogram_percentile(histogram, percent) for percent in (0, 66, 67, 100)]
        assert told == [10, 10, 20, 20]
        assert histogram.max == 20


def test_a_late_answer_is_service(client: FioRunner, server: ScriptedServer) -> None:
    server.hooks.append(on(Nfs.READ, Answer(delay=0.05)))
    response = _response(client(pool=server.pool(), **_READS, iodepth=1))
    assert response["service_mean_us"] >= 0.05e6
    assert response["clamped_stamps"] == response["shared_stamps"] == 0
    assert "lag_mean_us" not in response


def test_what_waits_for_a_held_client_is_wake_up(client: FioRunner, server: ScriptedServer) -> None:
    def hold(call: Call) -> None:
        if call.procedure is Nfs.READ:
            process.signal(signal.SIGSTOP)
            eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)

    def has_waited() -> bool:
        answered = [call.answered for call in server.calls(Nfs.READ) if call.answered]
        return bool(answered) and time.monotonic() > answered[0] + _HELD

    server.create("f", bytes(65536))
    server.hooks.append(hold)
    with client.start(pool=server.pool(), **_READS, number_ios=1, iodepth=1, thread=1) as process:
        eventually(has_waited)
        process.signal(signal.SIGCONT)
        response = _response(client.finish(process))
    assert response["wake_up_max_us"] >= _HELD * 1e6


def test_all_connections_and_the_clock_count(client: FioRunner, server: ScriptedServer) -> None:
    clock: Options = {"arrival_rate": 10_000_000, "lat_percentiles": 1, "spread": "roundrobin"}
    response = _response(client(pool=server.pool(), **_READS, **clock, nconnect=2))
    assert sum(response["lag_bins"].values()) == response["replies"] == 16


def _received(lib: CData, response: CData, age: int, *rtts: int) -> list[tuple[int, int]]:
    """Take a receive of that age, with replies; gives the sums of service and wake-up behind."""
    found = []
    lib.response_received(response, _NOW - age, _NOW)
    for rtt in rtts:
        lib.response_add(response, rtt)
        found.append((response.service.sum, response.wake_up.sum))
    return found


def test_one_stamp_serves_a_receive(testlib: CData) -> None:
    response = zeros("response")
    assert _received(testlib, response, 30, 100, 130) == [(70, 30), (170, 60)]
    assert _received(testlib, response, 5, 50) == [(215, 65)]
    assert (response.shared, response.clamped) == (1, 0)


@pytest.mark.parametrize(("age", "parts"), [(-_SEC, (100, 0)), (_SEC, (0, 100)), (_NOW, (100, 0))])
def test_a_wall_clock_that_steps_spoils_one_receive(
    testlib: CData, age: int, parts: tuple[int, int]
) -> None:
    """Back, forward; and a receive without a stamp: the parts still add up."""
    response = zeros("response")
    assert _received(testlib, response, age, 100) == [parts]
    assert _received(testlib, response, 30, 100) == [(parts[0] + 70, parts[1] + 30)]
    assert response.clamped == 1


def test_what_people_read(testlib: CData) -> None:
    """The client's part is of the mean; how many replies share a stamp is told where many do."""
    response, line = zeros("response"), ffi.new("char[]", 256)
    _received(testlib, response, 20_000, *[1_000_000] * 5)
    testlib.response_tell(line, response)
    assert text(line) == (
        "response: service p99 0.979 ms, wake-up p99 0.020 ms: this client adds 2.0 % of the mean "
        "(service is an upper bound: 5.0 replies share a stamp on average)"
    )


def test_what_is_due_waits_for_others(client: FioRunner, server: ScriptedServer) -> None:
    """None is sent before its batch, with nothing under way or something; and the lag tells."""
    server.hooks.append(on(Nfs.READ, Answer(delay=0.2)))
    clock: Options = {"arrival_rate": 20, "arrival_process": "fixed", "lat_percentiles": 1}
    response = _response(
        client(pool=server.pool(), **_READS, **clock, number_ios=2, arrival_batch=1000)
    )
    assert response["lag_mean_us"] >= 1000
