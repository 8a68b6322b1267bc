# SPDX-License-Identifier: GPL-2.0-only
"""The fault matrix: what goes wrong, for which job, on which terms, and what must come of it.

matrix.txt is the table, which matrix.py reads. A cell is one fault, one kind of work and one mode,
and a fio job (job.py); outcome.py holds what came of it against the table. The faults are of the
scripted server (scripted_faults.py), of nfs-ganesha in a lab (lab_faults.py) and of the kernel's
server in a guest (guest_faults.py). command.py runs cells and writes down what came of them, of
which page.py makes the grid.

soak.py lets paths fail at random instead, while jobs write and verify.
"""
