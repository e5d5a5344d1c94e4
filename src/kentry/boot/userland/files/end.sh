# SPDX-License-Identifier: GPL-2.0-or-later
# The end of a boot: the mark first, then how many units failed, and which.
/kentry/runner mark
failed=$(systemctl list-units --state=failed,auto-restart --no-legend --plain | cut -d ' ' -f 1)
count=0
for unit in $failed; do
	# More would read as a signal's number.
	test $count -eq 100 || count=$((count + 1))
	echo "$unit failed:"
	systemctl status --no-pager --lines=10 "$unit"
done >/dev/console 2>&1
echo "$count units failed" >/dev/console
exec /kentry/runner end "$count"
