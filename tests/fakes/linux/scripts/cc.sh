#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# cc.sh SOURCE OBJECT CONFIG: "compiles" as far as a build's log and files show.
#
# "#error" in the source is an error, and "#warning" a warning.  The file SLOW in the tree holds a number of seconds:
# so long an object file is only half there.
line=$(grep -n '#error' "$1" | head -n 1)
if test -n "$line"; then
	echo "$PWD/$1: In function 'main':" >&2
	echo "$PWD/$1:${line%%:*}:2: error: ${line#*:}" >&2
	echo "$1:999:1: error: and another one" >&2
	exit 1
fi
grep -n '#warning' "$1" | while IFS=: read -r line text; do
	echo "$PWD/$1:$line:2: warning: $text" >&2
done
echo "object file: first half of $1" > "$2"
if test -f SLOW; then
	sleep "$(cat SLOW)"
fi
cat "$1" "$3" >> "$2"
