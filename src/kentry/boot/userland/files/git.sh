# SPDX-License-Identifier: GPL-2.0-or-later
# Makes /root a repository of about 2000 files, checked out and unchanged; tree.pl has the argument.
set -eu
export GIT_CONFIG_GLOBAL=/root/.gitconfig
git config --global init.defaultBranch main
git config --global user.name 'A U Thor'
git config --global user.email author@example.org
cd /root
git init -q
ls -A | grep -vx .git >.git/info/exclude
perl /kentry/tree.pl "$@"
git reset -q --hard
# Files as new as the index are read again by each git: the index must be newer than a second.
sleep 2
git status --short
