# SPDX-License-Identifier: GPL-2.0-only
"""A path of a pool in the words of mount(8) and nfs(5)."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit


def source(url: str) -> str:
    """Give HOST:/EXPORT of a path that is a URL."""
    parts = urlsplit(url)
    return f"{parts.netloc}:{unquote(parts.path)}"


def ports(url: str, options: str) -> str:
    """Give a mount's options with the ports that the path's URL names, which win over theirs."""
    own = parse_qs(urlsplit(url).query)
    words = options.split(",")
    names = {"port": "rdmaport"} if "proto=rdma" in words else {"port": "port"}
    if "vers=3" in words:
        names["mountport"] = "mountport"
    given = {name: own[argument][0] for name, argument in names.items() if argument in own}
    kept = [word for word in words if word.partition("=")[0] not in given]
    return ",".join([*kept, *(f"{name}={port}" for name, port in given.items())])
