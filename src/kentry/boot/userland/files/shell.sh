# SPDX-License-Identifier: GPL-2.0-or-later
# A few hundred short commands, as a configure script or a package's maintainer script runs them.
set -eu
cd /tmp

round() {
	mkdir -p "$1/sub"
	seq 1 400 | sed 's/^\(.*\)$/line \1 of the file, key \1/' >"$1/a"
	awk '{ print $7 % 13, $2, NF }' "$1/a" | sort -n -k1,1 -k2,2 >"$1/b"
	grep -c 'key [1-9]*7$' "$1/a" >"$1/c"
	cut -d ' ' -f 2,7 "$1/a" | tr ' ' ':' | uniq | wc -l >>"$1/c"
	cp -a "$1/a" "$1/sub/copy"
	cmp "$1/a" "$1/sub/copy"
	find "$1" -type f -name '[abc]' -exec md5sum {} + | sort >"$1/sums"
	tar -C "$1" -cf "$1.tar" .
	gzip -c "$1.tar" >"$1.tar.gz"
	gzip -dc "$1.tar.gz" | tar -tf - | sort >"$1/names"
	mv "$1/b" "$1/sorted"
	ln -s sorted "$1/link"
	readlink "$1/link" >/dev/null
	head -n 20 "$1/sorted" | tail -n 5 >"$1/d"
	ls -l "$1" | awk '{ total += $5 } END { print total }' >"$1/size"
	diff "$1/a" "$1/sub/copy"
	test "$(wc -l <"$1/a")" = 400
	expr "$(stat -c %s "$1/a")" + 1 >/dev/null
	date +%s >/dev/null
	id -u >/dev/null
	basename "$1/sub/copy" .x >/dev/null
	dirname "$1/sub/copy" >/dev/null
	cat "$1/a" "$1/sorted" | sha256sum >"$1/digest"
	chmod 600 "$1/a"
	touch "$1/e"
	rm -rf "$1" "$1.tar" "$1.tar.gz"
}

i=0
while [ $i -lt 8 ]; do
	round "round$i"
	i=$((i + 1))
done
echo "$i rounds"
