# SPDX-License-Identifier: GPL-2.0-or-later
# PostgreSQL as the user postgres: "postgres.sh prepare" makes a data base of pgbench's, without an
# argument a server and 200 transactions of one client over 127.0.0.1.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
export PGDATA=/var/lib/postgresql/data PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres
if test "$(id -u)" = 0; then
	install -d -o postgres /var/lib/postgresql /run/postgresql
	exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0" "$@"
fi
cd /var/lib/postgresql
if test $# -gt 0; then
	initdb --no-sync --no-instructions --locale=C --auth=trust >/dev/null
fi
pg_ctl start -w -l log >/dev/null
if test $# -gt 0; then
	pgbench --initialize --quiet
else
	pgbench --no-vacuum --random-seed=1 --client=1 --transactions=200
fi
pg_ctl stop -w >/dev/null
