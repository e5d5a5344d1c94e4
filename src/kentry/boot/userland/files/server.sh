# SPDX-License-Identifier: GPL-2.0-or-later
# A server, and as many clients as the argument says, that ask it a few thousand times over 127.0.0.1.
set -eu
redis-server --port 6379 --bind 127.0.0.1 --save '' --appendonly no --daemonize no \
	--loglevel warning --dir /tmp &
server=$!
tries=0
until redis-cli ping >/dev/null 2>&1; do
	tries=$((tries + 1))
	test $tries -lt 50
	sleep 0.1
done
redis-benchmark -q -c "${1:-8}" -n 1000 -d 64 -t ping_inline,set,get,lpush,lpop |
	tr '\r' '\n' | grep 'per second'
redis-cli shutdown nosave
wait $server
