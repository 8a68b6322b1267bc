# SPDX-License-Identifier: GPL-2.0-only
"""The stories: what fio runs for each, how it is judged, and what is drawn of it.

Each module here has one, a STORY, which is called as the file; its docstring begins with the title
of the pages, and with what was published. arguments/ knows the names by those of the files.
"""

from dataclasses import replace
from importlib import import_module

from nfsmulti.arguments import STORIES
from nfsmulti.story import Story

SCENARIOS: dict[str, Story] = {
    name: replace(module.STORY, name=name, about=module.__doc__ or "")
    for name in STORIES
    for module in [import_module(f"{__name__}.{name}")]
}
