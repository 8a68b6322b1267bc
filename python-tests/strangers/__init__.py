# SPDX-License-Identifier: GPL-2.0-only
"""The engine with what this project did not write: `python -m strangers` tries it on NFS servers.

They come from package registries, and building them takes long: no part of the tests.
"""
