// SPDX-License-Identifier: GPL-2.0-only
// A click on a heading sorts its table by that column; another one turns the order around.
for (const heading of document.querySelectorAll("th")) {
	heading.addEventListener("click", () => {
		const body = heading.closest("table").tBodies[0], column = heading.cellIndex;
		const up = heading.ariaSort !== "ascending";
		const key = (row) => row.cells[column].textContent.replaceAll(",", "");
		const order = (a, b) => parseFloat(key(a)) - parseFloat(key(b)) || key(a).localeCompare(key(b));
		const rows = [...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a)));
		for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
		heading.ariaSort = up ? "ascending" : "descending";
		body.append(...rows);
	});
}
