# SPDX-License-Identifier: GPL-2.0-only
"""Whether a path's Kerberos tickets will do, asked by MIT's own programs.

What is got here goes into caches of its own: the user's are only read.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nfsmulti.errors import MissingError
from nfsmulti.machine import Finding, fail, ok, warn
from nfsmulti.pool import PoolPath
from nfsmulti.processes import find, run

_SECONDS = 60.0  # a KDC that does not answer is given up after 30
_SOON = 60  # minutes, within which a run ends
_PROGRAMS = ("kinit", "klist", "kvno")
_AES = re.compile(r"aes(128|256)-cts-hmac-sha")
_TICKET = re.compile(r"\S+ \S+  (\S+ \S+)  (\S+?)@?\n.*?Etype \(skey, tkt\): (\S+),", re.DOTALL)

_NO_KDC = "is the KDC up? KRB5_CONFIG (default: /etc/krb5.conf) names it"
# By Kerberos's words, whichever program says them.
_BY_WORDS = {
    "contact any KDC": _NO_KDC,
    "find KDC": _NO_KDC,
    "onfiguration file": "mend krb5.conf, or name another by KRB5_CONFIG",
    "lock skew": "set the clocks here and at the KDC: clockskew in krb5.conf (300 s) is the limit",
    "key table format": "give a keytab: klist -k lists its principals",
    "KCM": "name another cache by ccache= or KRB5CCNAME",
}
_LOG_IN = "kinit USER@REALM, or give keytab= and principal= in the path"
_READ_KEYTAB = "name a file that you may read"
_IN_KEYTAB = "name one of the keytab's principals by principal=: klist -k lists them"
_SERVER_KEY = (
    "is there such a principal (kadmin: addprinc -randkey nfs/HOST)? Its host is the one that the"
    " pool names; name another by server_principal="
)


class _RefusedError(Exception):
    """Why there is no ticket, and what to do."""

    def __init__(self, said: str, remedy: str):
        super().__init__(said)
        self.remedy = remedy


@dataclass(frozen=True)
class _Ticket:
    service: str
    ends: datetime
    enctype: str  # of the session's key


def check(path: PoolPath) -> Finding:
    """Get a ticket for a path's server as a job would, and tell what it is."""
    try:
        for program in _PROGRAMS:
            find(program)
    except MissingError as error:
        what = f"{path.label}: not checked: whether Kerberos's tickets will do: {error.what}"
        return warn(what, error.remedy or "")
    with tempfile.TemporaryDirectory(prefix="nfsmulti-") as folder:
        try:
            return _judged(path, _ticket(path, folder))
        except _RefusedError as error:
            return fail(f"{path.label}: sec={path.sec}: {error}", error.remedy)


def _judged(path: PoolPath, ticket: _Ticket) -> Finding:
    minutes = int((ticket.ends - datetime.now()).total_seconds() / 60)
    what = (
        f"{path.label}: sec={path.sec}: the ticket for {ticket.service} lasts"
        f" {minutes // 60} h {minutes % 60} min; its key is {ticket.enctype}"
    )
    if not _AES.match(ticket.enctype):
        return warn(what, "give the server AES keys: with others encryption costs far more")
    if minutes < _SOON and not path.keytab:
        return warn(what, "kinit before longer jobs, or give keytab=, by which tickets are renewed")
    return ok(what)


def _ticket(path: PoolPath, folder: str) -> _Ticket:
    env = {"LC_ALL": "C"}
    if path.keytab:
        env["KRB5CCNAME"] = f"FILE:{folder}/client"
        kinit = ["kinit", "-k", "-t", path.keytab, path.principal or _first_of(path.keytab)]
        _run(env, *kinit, remedy=_IN_KEYTAB)
    elif path.ccache:
        env["KRB5CCNAME"] = path.ccache
    _run(env, "klist", remedy=_LOG_IN)
    _run(env, "klist", "-s", remedy=_LOG_IN, silence="the client's ticket has expired")
    cache = f"FILE:{folder}/service"
    _run(env, "kvno", "--out-cache", cache, *_service(path), remedy=_SERVER_KEY)
    found = _TICKET.search(_run(env, "klist", "-e", "-c", cache, remedy=_SERVER_KEY))
    if not found:
        raise _RefusedError("klist shows no ticket for the server", _SERVER_KEY)
    ends, service, enctype = found.groups()
    return _Ticket(service, datetime.strptime(ends, "%m/%d/%y %H:%M:%S"), enctype)


def _first_of(keytab: str) -> str:
    """Return the first principal of a keytab."""
    listed = _run({"LC_ALL": "C"}, "klist", "-k", keytab, remedy=_READ_KEYTAB)
    found = re.search(r"^ *\d+ (\S+)", listed, re.MULTILINE)
    if not found:
        raise _RefusedError(f"{keytab} has no keys", _READ_KEYTAB)
    return found[1]


def _service(path: PoolPath) -> list[str]:
    """Return kvno's words for the server's principal."""
    name = path.server_principal or f"nfs@{path.host}"
    service, _, host = name.partition("@")
    return [name] if "/" in service else ["-S", service, host]


def _run(
    env: Mapping[str, str], *argv: str, remedy: str, silence: str = "no answer in time"
) -> str:
    """Return what a program prints; raises _RefusedError with its last words, or `silence`."""
    done = run(argv, timeout=_SECONDS, env=env)
    if done.status == 0:
        return done.stdout
    said = (done.stderr.strip().splitlines() or [silence])[-1]
    of_words = (remedy for words, remedy in _BY_WORDS.items() if words in said)
    raise _RefusedError(said, next(of_words, remedy))
