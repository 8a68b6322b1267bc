# SPDX-License-Identifier: GPL-2.0-only
"""The fault matrix: what goes wrong, for which job, on which terms, and what must come of it.

matrix.py is the table. A cell is one fault, one kind of work and one mode, and a fio job (job.py);
outcome.py holds what came of it against the table; faults.py has the faults, of the scripted server
and of real ones, in a lab or a guest; command.py runs cells and writes down what came of them, of
which page.py makes the grid.

soak.py lets paths fail at random instead, while jobs write and verify.
"""
