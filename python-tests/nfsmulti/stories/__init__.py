# SPDX-License-Identifier: GPL-2.0-only
"""The stories: what fio runs for each, how it is judged, and what is drawn of it.

Each module here has one, a STORY; its docstring begins with the title of its pages, and
with what was published. arguments/ knows the names by those of the files.
"""

from importlib import import_module

from nfsmulti.arguments import STORIES
from nfsmulti.story import Story

SCENARIOS: dict[str, Story] = {name: import_module(f"{__name__}.{name}").STORY for name in STORIES}
