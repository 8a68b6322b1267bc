# SPDX-License-Identifier: GPL-2.0-only
"""The few NFS calls that the doctor makes itself, to see what a server says to a plain client."""
