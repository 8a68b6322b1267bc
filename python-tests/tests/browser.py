# SPDX-License-Identifier: GPL-2.0-only
"""Pages as Chromium has them, without a window: what its console says, and how wide they become."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conftest import or_skip

from nfsmulti.processes import find, run

_SECONDS = 120.0
# A window of Chromium's cannot be made as narrow as a phone, a frame for each page can. How wide
# the pages are there is found in the title. Scroll bars take no room on a phone.
_FRAME = '<iframe width={width} height=844 style="border: 0" srcdoc="{page}"></iframe>'
_FRAMES = """<!DOCTYPE html><title>waiting</title>
{frames}
<script>
const measured = frame => {{
	const page = frame.contentDocument.documentElement
	page.style.scrollbarWidth = "none"
	const broken = [...page.querySelectorAll(".answer td.n")].filter(cell => {{
		const range = document.createRange()
		range.selectNodeContents(cell)
		return range.getClientRects().length > 1
	}})
	const scrolled = [...page.querySelectorAll(".answer .wide")].map(
		table => table.scrollWidth - table.clientWidth
	)
	const wide = [page.scrollWidth, page.clientWidth]
	return [...wide, broken.length, Math.max(0, ...scrolled)]
}}
onload = () => {{
	const frames = [...document.querySelectorAll("iframe")]
	document.title = JSON.stringify(frames.map(measured))
}}
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What Chromium made of a page: `overflow` is the pixels by which it is too wide.

    `broken` is the number of the answer's figures that have more than one line, `scrolled` the
    pixels of its table that do not fit beside the others.
    """

    overflow: int
    broken: int
    scrolled: int


def look(pages: Sequence[str], folder: Path, width: int) -> tuple[list[str], list[Seen]]:
    """Open pages, each on a screen of `width` pixels; gives the lines of the console, too.

    `folder` holds the browser's profile. Skips where there is no Chromium.
    """
    with or_skip():
        chromium = find("chromium")
    frames = [_FRAME.format(width=width, page=html.escape(page, quote=True)) for page in pages]
    document = folder / "frames.html"
    document.write_text(_FRAMES.format(frames="\n".join(frames)))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += ["--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    # Beside a busy machine's other tests four tables were once measured wider than they ever are:
    # what does not fit is measured again.
    for _ in range(2):
        done = run([chromium, *words, document.resolve().as_uri()], timeout=_SECONDS).check()
        found = re.search(r"<title>(\[.*\])</title>", done.stdout)
        assert found, done.stdout[:200]
        measured = json.loads(found[1])
        assert [each[1] for each in measured] == [width] * len(pages)
        seen = [Seen(whole - width, broken, scrolled) for whole, _, broken, scrolled in measured]
        if set(seen) == {Seen(0, 0, 0)}:
            break
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line], seen
