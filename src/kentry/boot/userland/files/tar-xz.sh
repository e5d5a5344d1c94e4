# SPDX-License-Identifier: GPL-2.0-or-later
# Some 600 files that each Debian has become a compressed archive, and come out of it again.
set -eu
cd /usr/lib/*/perl-base
tar -cf - . | xz -1 >/tmp/files.tar.xz
mkdir /tmp/files
xz -dc /tmp/files.tar.xz | tar -C /tmp/files -xf -
diff -r . /tmp/files
