# SPDX-License-Identifier: GPL-2.0-only
"""A page as Chromium has it, without a window: what its console says, and how wide it becomes."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

from conftest import or_skip

from nfsmulti.processes import find, run

_SECONDS = 120.0
# A window of Chromium's cannot be made as narrow as a phone, a frame can. How wide the page is in
# it is found in the title. Scroll bars take no room on a phone.
_FRAME = """<!DOCTYPE html><title>waiting</title>
<iframe width={width} height=844 style="border: 0" srcdoc="{page}"></iframe>
<script>
onload = () => {{
	const page = document.querySelector("iframe").contentDocument.documentElement
	page.style.scrollbarWidth = "none"
	const broken = [...page.querySelectorAll(".answer td.n")].filter(cell => {{
		const range = document.createRange()
		range.selectNodeContents(cell)
		return range.getClientRects().length > 1
	}})
	const scrolled = [...page.querySelectorAll(".answer .wide")].map(
		table => table.scrollWidth - table.clientWidth
	)
	document.title = page.scrollWidth + " of " + page.clientWidth + ", " + broken.length
	document.title += ", " + Math.max(0, ...scrolled)
}}
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What Chromium made of a page: its console's lines, and pixels by which it is too wide.

    `broken` is the number of the answer's figures that have more than one line, `scrolled` the
    pixels of its table that do not fit beside the others.
    """

    console: list[str]
    overflow: int
    broken: int
    scrolled: int


def look(page: Path, folder: Path, width: int) -> Seen:
    """Open a page on a screen of `width` pixels; `folder` holds the browser's profile.

    Skips where there is no Chromium.
    """
    with or_skip():
        chromium = find("chromium")
    frame = folder / "frame.html"
    frame.write_text(_FRAME.format(width=width, page=html.escape(page.read_text(), quote=True)))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += ["--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = run([chromium, *words, frame.resolve().as_uri()], timeout=_SECONDS).check()
    found = re.search(r"<title>(\d+) of (\d+), (\d+), (\d+)</title>", done.stdout)
    assert found, done.stdout[:200]
    assert int(found[2]) == width
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(console, int(found[1]) - width, int(found[3]), int(found[4]))
