# SPDX-License-Identifier: GPL-2.0-or-later
# A web server with Debian's settings, and a client that gets a small page 1000 times over
# 127.0.0.1, each time on a new connection.
set -eu
nginx
ab -q -n 1000 -c 1 http://127.0.0.1/ >/tmp/ab
grep -E '^(Complete|Failed|Non-2xx)' /tmp/ab
nginx -s quit
while test -e /run/nginx.pid; do sleep 0.1; done
grep -q '^Complete requests: *1000$' /tmp/ab
grep -q '^Failed requests: *0$' /tmp/ab
