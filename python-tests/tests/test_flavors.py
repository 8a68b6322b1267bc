# SPDX-License-Identifier: GPL-2.0-only
"""Which security flavors an export takes: by MNT (RFC 1813) or SECINFO (RFC 8881, 18.29, 18.45)."""

from __future__ import annotations

import pytest

from nfsmulti import export
from servers.scripted import Export, Nfs4, ScriptedServer

_NONE, _SYS, _KRB5, _KRB5P, _UNKNOWN = 0, 1, 390003, 390005, 390009  # pseudo flavors


# --- what servers list ---


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("path", ["/", "/a", "/a/b"])
def test_what_a_server_lists(version: int, path: str) -> None:
    """Of NFSv4.1 the directory above the export is asked, or the root by itself."""
    listed = Export(path=path, flavors=(_KRB5P, _UNKNOWN, _SYS, _KRB5, _NONE))
    with ScriptedServer(export=listed) as server:
        (found,) = export.info(server.url_of(version))
        asked = [call.procedure for call in server.calls(Nfs4.SECINFO, Nfs4.SECINFO_NO_NAME)]
    assert (found.flavors, found.flavors_error) == (["sys", "krb5", "krb5p", "none"], "")
    by_name = Nfs4.SECINFO_NO_NAME if path == "/" else Nfs4.SECINFO
    assert asked == ([by_name] if version == 4 else [])


@pytest.mark.parametrize("version", [3, 4])
def test_a_list_that_tells_nothing(version: int) -> None:
    with ScriptedServer(export=Export(flavors=(_UNKNOWN,))) as server:
        (found,) = export.info(server.url_of(version))
    assert found.error == ""
    assert (found.flavors, found.flavors_error) == ((), "the server lists none that jobs have")


def test_a_server_that_is_not_asked_in_vain() -> None:
    """Of one that is out of reach nothing more is said."""
    with ScriptedServer() as server:
        server.refuse()
        (found,) = export.info(server.url4())
    assert found.error
    assert (found.flavors, found.flavors_error) == ((), "")
