#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# begin.sh FILE JOBS COMMAND: fio's exec_prerun in each of so many jobs, which then begin together.
# The job that comes last runs COMMAND; where that fails, all do. Adds the uptime to FILE.
#
# fio lets its jobs go before exec_prerun: one by one, their shells would spread them over seconds.
set -eu
file=$1 jobs=$2 command=$3

exec 9>>"$file.came"
flock 9
if [ ! -s "$file.gate" ]; then # the name of a folder with a FIFO: the guest's 9p has none
	made=$(mktemp -d)
	mkfifo "$made/gate"
	echo "$made" >"$file.gate"
fi
gate=$(cat "$file.gate")
exec 8<>"$gate/gate" # for both: to open it waits for nobody, and what is written stays
echo >&9
if [ "$(wc -l <"$file.came")" -lt "$jobs" ]; then
	flock -u 9
	read -r _ <&8
else
	eval "$command" || : >"$file.failed"
	rm -r "$gate"
	# In one write, and no program after it, or the others would keep the processor from this job.
	# shellcheck disable=SC2046
	printf '%.0s\n' $(seq "$jobs") >&8
fi
[ ! -e "$file.failed" ]
read -r up _ </proc/uptime
echo "$up" >>"$file"
