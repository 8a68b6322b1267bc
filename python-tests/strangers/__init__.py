# SPDX-License-Identifier: GPL-2.0-only
"""The engine on NFS servers that this project did not write: `python -m strangers`.

They come from package registries, and building them takes long: no part of the tests.
"""
