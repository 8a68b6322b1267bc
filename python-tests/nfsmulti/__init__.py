# SPDX-License-Identifier: GPL-2.0-only
"""The harness of nfsmulti: labs of real NFS servers, fio under control, demo, doctor and tests."""
