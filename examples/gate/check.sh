#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A job of a kernel's CI: holds HEAD of a tree against budgets, for each architecture.
# Usage: [GOOD=REV] check.sh TREE BUDGETS OUT ARCH...
#
# OUT gets a table, KTAP, JUnit and JSON for each architecture: ARCH.txt, .ktap, .xml, .json.  With
# GOOD, a commit that was within the budgets, git bisects between it and HEAD where HEAD is over,
# and OUT gets ARCH.bisect.  The tree's own checkout is not touched.
#
# It ends with 1 if an architecture is over a budget, else with 2 if one could not be checked, else
# with 3 if one is undecided.
set -eu
[ $# -ge 4 ] || { sed -n 's/^# Usage: /usage: /p' "$0" >&2; exit 2; }
tree=$(realpath "$1") budgets=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
shift 3

# bisect ARCH: the first commit after GOOD that is over, in a checkout of its own.
bisect() {
	checkout=$(mktemp -d)
	git -C "$tree" worktree add --quiet --detach "$checkout" HEAD
	git -C "$checkout" bisect start HEAD "$GOOD"
	(
		cd "$checkout"
		git bisect run kentry check tree:. --arch "$1" --budget "$budgets" --bisect -q
	) || echo "The bisection did not end."
	git -C "$tree" worktree remove --force "$checkout"
}

over= failed= undecided=
for arch; do
	code=0
	kentry check "tree:$tree@HEAD" --arch "$arch" --budget "$budgets" > "$out/$arch.txt" || code=$?
	cat "$out/$arch.txt"
	case $code in
	0) ;;
	1) over=1 ;;
	3) undecided=1 ;;
	*) failed=1 && continue ;;
	esac
	# The recording is in the cache, so nothing is measured again.
	for format in ktap junit; do
		file=$out/$arch.$format
		[ $format = ktap ] || file=$out/$arch.xml
		kentry check "tree:$tree@HEAD" --arch "$arch" --budget "$budgets" --format $format \
			> "$file" || true
	done
	kentry check "tree:$tree@HEAD" --arch "$arch" --budget "$budgets" --json \
		> "$out/$arch.json" || true
	if [ $code = 1 ] && [ -n "${GOOD:-}" ]; then
		bisect "$arch" > "$out/$arch.bisect"
		grep 'is the first bad commit' "$out/$arch.bisect" || tail -n 5 "$out/$arch.bisect"
	fi
done
[ -z "$over" ] || exit 1
[ -z "$failed" ] || exit 2
[ -z "$undecided" ] || exit 3
