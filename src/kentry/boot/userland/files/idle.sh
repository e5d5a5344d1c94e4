# SPDX-License-Identifier: GPL-2.0-or-later
# A server that has little to do: what it does with its vectors between two requests, and how
# long that is, is what a timeout is about.  Sleeping takes no time to emulate.
set -eu
redis-server --port 6379 --bind 127.0.0.1 --save '' --appendonly no --daemonize no \
	--loglevel warning --dir /tmp &
server=$!
sleep 1
redis-cli -r 600 -i 0.1 incr requests | tail -n 1
redis-cli shutdown nosave
wait $server
