# SPDX-License-Identifier: GPL-2.0-or-later
# What SQLite's own speed test does, with less of it: rows are written in one transaction and in
# many, indexed, asked for, changed and deleted; each journal mode once.
set -eu
for mode in delete wal; do
	{
		cat <<-END
			pragma journal_mode = $mode;
			create table a (id integer primary key, number integer, name text);
			create table b (number integer, name text);
			begin;
			with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000)
				insert into a select i, i * 7919 % 10007, 'name ' || (i * 31 % 997) from n;
			commit;
			create index a_number on a (number);
		END
		seq 300 | sed "s/.*/insert into b values (& * 7919 % 10007, 'name &');/"
		seq 300 | sed 's/.*/select count(*), sum(id) from a where number between & and & + 99;/'
		cat <<-END
			select count(*) from a where name like '%99%';
			select count(*) from a join b using (number);
			update a set name = 'new ' || name where id % 3 = 0;
			delete from a where id % 5 = 0;
			vacuum;
			pragma integrity_check;
		END
	} | sqlite3 "/tmp/$mode.db" >"/tmp/$mode"
	tail -n 1 "/tmp/$mode" | grep -x ok
done
