#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# fio-headers.sh - the headers of the installed fio, out of the distribution's source package.
#
#   usage: fio-headers.sh FIO OUTDIR CMAKE [whole]
#
# Prints "PACKAGE VERSION DIRECTORY" on stdout, where DIRECTORY lies in OUTDIR and holds fio's *.h, or
# the whole source, which bench client-cost builds.
# What was fetched once is not fetched again. On failure prints one line on stderr and exits 1.
#
# apt is run with lists, cache and sources of its own below OUTDIR: no privileges are needed, and
# the machine's apt is left as it is. cmake unpacks, because xz and dpkg-dev may be missing.
set -eu
export LC_ALL=C

fio=$1
out=$2
cmake=$3
whole=${4:-}
work=$out/apt
own_lists=Dir::State::Lists=$work/lists
otherwise="or unpack the source of that very version yourself and pass -DFIO_SOURCE_DIR=DIRECTORY"

fail()
{
	echo "$*" >&2
	exit 1
}

# The first thing apt complained of is the cause, the rest follows from it.
fail_network()
{
	fail "cannot fetch the source package of $source $source_version, which holds fio's headers" \
		"(apt: $(sed -n 's/^[EW]: *//p' "$work/log" | head -n 1)):" \
		"configure again when the package archive answers, $otherwise"
}

fail_gone()
{
	fail "the package sources of this machine offer no source of $source $source_version (any more):" \
		"update fio by apt-get update && apt-get install $package and configure again, $otherwise"
}

# The package that fio's binary came with; nothing when no package owns it.
owning_package()
{
	dpkg-query -S "$(readlink -f "$fio")" 2>/dev/null |
		sed -n 's/^\([a-z0-9][a-z0-9+.-]*\)[:,].*/\1/p' | head -n 1
}

# Read after the machine's own settings, of which it keeps proxies and certificates, but not the
# hooks that touch the system. As root, apt would change to a user who may not write here.
prepare()
{
	rm -rf "$work"
	for directory in lists/partial cache/archives/partial sources download tree; do
		mkdir -p "$work/$directory"
	done
	: >"$work/log"
	cat >"$work/apt.conf" <<-EOF
		Dir::Cache "$work/cache";
		Acquire::Languages "none";
		Acquire::Retries "1";
		Acquire::http::Timeout "20";
		Acquire::https::Timeout "20";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
		APT::Sandbox::User "root";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	EOF
}

apt_get()
{
	apt-get -c "$work/apt.conf" -qq "$@" >>"$work/log" 2>&1
}

# Where the installed version is offered, as lines "FILE:NUMBER|URI|SUITE|COMPONENT": the source's
# entry among the machine's own, and its place. Arguments: apt options that say whose lists to ask.
offers()
{
	apt-cache -c "$work/apt.conf" "$@" madison "$package" 2>>"$work/log" |
		sed 's/ *| */|/g; s/^ *//; s/ *$//' |
		while IFS='|' read -r _ offered place; do
			[ "$offered" = "$version" ] || continue
			# shellcheck disable=SC2016 # these are apt's variables
			apt-get -c "$work/apt.conf" "$@" indextargets "Description: $place" \
				--format '$(SOURCESENTRY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 2>>"$work/log"
		done | sort -u
}

# A container's lists are often deleted after installing: then get them anew, privately.
find_offers()
{
	offers >"$work/offers"
	[ -s "$work/offers" ] && return
	apt_get -o "$own_lists" update || :
	ls "$work"/lists/*_Packages* >/dev/null 2>&1 || fail_network
	offers -o "$own_lists" >"$work/offers"
	[ -s "$work/offers" ] || fail_gone
}

# source_entry FILE NUMBER URI SUITE COMPONENT: that entry, turned into one for the source packages
# of that one place. All else that it says (keys, trust, validity) stays.
source_entry()
{
	case $1 in
	*.sources)
		awk -v wanted="$2" '
			/^#/ { next }
			/^[ \t]*$/ { inside = 0; next }
			!inside { inside = 1; number++ }
			/^[^ \t]/ {
				field = tolower($0)
				sub(/[ \t]*:.*/, "", field)
				drop = field ~ /^(types|uris|suites|components|enabled|architectures|targets)$/
			}
			number == wanted && !drop' "$1"
		printf 'Types: deb-src\nURIs: %s\nSuites: %s\n' "$3" "$4"
		[ -z "$5" ] || printf 'Components: %s\n' "$5"
		;;
	*)
		echo "deb-src $(sed -n "$2s/^[[:space:]]*deb[[:space:]]*\(\[[^]]*\]\).*/\1/p" "$1") $3 $4 $5"
		;;
	esac
}

# One file per source, so that a broken one does not take the others with it.
write_sources()
{
	count=0
	while IFS='|' read -r entry uri suite component; do
		count=$((count + 1))
		file=${entry%:*}
		source_entry "$file" "${entry##*:}" "${uri%/}" "$suite" "$component" \
			>"$work/sources/$count.${file##*.}"
	done <"$work/offers"
}

download()
{
	set -- -o "$own_lists" -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/sources"
	apt_get "$@" update || :
	ls "$work"/lists/*_Sources* >/dev/null 2>&1 || fail_network
	cd "$work/download"
	apt_get "$@" --download-only --only-source source "$source=$source_version" && return
	grep -qE '^E: (Can not find version|Unable to find a source)' "$work/log" && fail_gone
	fail_network
}

# Does a patch of the distribution change a header?
patches_touch_headers()
{
	grep -rqE '^(\+\+\+|---) [^[:space:]]*\.h([[:space:]]|$)' "$work/tree/debian/patches" 2>/dev/null
}

# Upstream's tarball is enough unless headers are patched; then dpkg-source must do it, as it
# must for a package that is not made of these two archives.
unpack()
{
	cd "$work/tree"
	for archive in "$work"/download/*.orig.tar.* "$work"/download/*.debian.tar.*; do
		case $archive in
		*.asc | *'*') ;;
		*) "$cmake" -E tar xf "$archive" >>"$work/log" 2>&1 || fail "cannot unpack $archive" ;;
		esac
	done
	if [ -d debian ] && ! patches_touch_headers; then
		return
	fi
	command -v dpkg-source >/dev/null ||
		fail "dpkg-source is missing, and the source of $source $source_version needs it:" \
			"apt-get install dpkg-dev"
	rm -rf "$work/tree/"*
	dpkg-source --no-check -x "$work"/download/*.dsc "$work/tree/$source" >>"$work/log" 2>&1 ||
		fail "dpkg-source cannot unpack $source $source_version: $(tail -n 1 "$work/log")"
}

# Keeps the headers and what tells the version. Moved last: a directory that is there is complete.
keep_headers()
{
	for tree in "$work"/tree/*; do
		[ -f "$tree/fio.h" ] && break
	done
	[ -f "$tree/fio.h" ] || fail "the source package of $source $source_version holds no fio.h"
	if ! [ "$whole" ]; then
		find "$tree" ! -type d ! -name '*.h' ! -name FIO-VERSION-GEN ! -name COPYING -exec rm -f {} +
		find "$tree" -depth -type d -exec rmdir {} + 2>/dev/null || :
	fi
	mv "$tree" "$kept"
}

if ! command -v dpkg-query || ! command -v apt-get; then
	fail "fio's headers can be fetched with apt only: unpack the source of $("$fio" --version)" \
		"and pass -DFIO_SOURCE_DIR=DIRECTORY"
fi >/dev/null

package=$(owning_package)
[ -n "$package" ] ||
	fail "no package owns $fio, so its headers cannot be fetched:" \
		"pass -DFIO_SOURCE_DIR=DIRECTORY, the source it was compiled from"

# shellcheck disable=SC2016 # these are dpkg's variables
{
	version=$(dpkg-query -W -f '${Version}' "$package")
	source=$(dpkg-query -W -f '${source:Package}' "$package")
	source_version=$(dpkg-query -W -f '${source:Version}' "$package")
}
kept=$out/${source}_$source_version

if ! [ -d "$kept" ]; then
	[ "${NFSMULTI_NO_INSTALL:-0}" != 1 ] ||
		fail "fio's headers are not here, and --no-install keeps apt from fetching the source of" \
			"$source $source_version: leave that out, $otherwise"
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	prepare
	find_offers
	write_sources
	download
	unpack
	keep_headers
fi
echo "$source $source_version $kept"
