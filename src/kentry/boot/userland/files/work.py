# SPDX-License-Identifier: GPL-2.0-or-later
"""What small Python programs do: JSON, regular expressions, SQLite, hashes, subprocesses.

Runs in the guest, by Pythons from 3.9 on; its argument is how often.
"""

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import zlib

ROUNDS = 10
ROWS = 300


def rows(number: int) -> list[dict[str, object]]:
    """Records as a program reads them from somewhere."""
    return [
        {"id": index, "name": f"name {index * number}", "tags": ["x" * (index % 40)]}
        for index in range(ROWS)
    ]


def work(number: int, file: str) -> None:
    """One round: text, a digest, a data base in `file`, a program that reads and writes."""
    text = json.dumps(rows(number), sort_keys=True)
    names = re.findall(r'"name (\d+)"', re.sub(r"x+", "y", text))
    assert len(names) == ROWS == len(json.loads(text))
    digest = hashlib.sha256(zlib.compress(text.encode())).hexdigest()
    base = sqlite3.connect(file)
    with base:
        base.execute("create table if not exists t (id integer, name text, digest text)")
        values = [(index, name, digest) for index, name in enumerate(names)]
        base.executemany("insert into t values (?, ?, ?)", values)
    (count,) = base.execute("select count(*) from t").fetchone()
    base.close()
    assert count % ROWS == 0
    ended = subprocess.run(["/bin/cat"], input=text.encode(), stdout=subprocess.PIPE, check=True)
    assert len(ended.stdout) == len(text)


def main() -> None:
    """The rounds, and then as many starts of Python: most of a small program's time."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        for number in range(count):
            work(number, file.name)
    for number in range(count):
        code = f"import json, re, sys; assert json.loads('{number}') == {number}"
        subprocess.run([sys.executable, "-c", code], check=True)
    sys.stdout.write(f"{count} rounds\n")


if __name__ == "__main__":
    main()
