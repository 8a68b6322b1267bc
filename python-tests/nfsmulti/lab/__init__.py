# SPDX-License-Identifier: GPL-2.0-only
"""Labs: real NFS servers on this machine, started for a demo or a test and taken down after it."""

from nfsmulti.lab.config import EXPORT, READ_ONLY, SECRET, Export, LabConfig
from nfsmulti.lab.kerberos import Kerberos
from nfsmulti.lab.lab import Lab
from nfsmulti.lab.network import Limits

__all__ = [
    "EXPORT",
    "READ_ONLY",
    "SECRET",
    "Export",
    "Kerberos",
    "Lab",
    "LabConfig",
    "Limits",
]
