# SPDX-License-Identifier: GPL-2.0-or-later
# A small program of a few files, built by make, run, and one of its files built again.
set -eu
cp -r /kentry/compile /tmp/compile
cd /tmp/compile
make
./words <words.c
touch table.c
make
./words <table.c
