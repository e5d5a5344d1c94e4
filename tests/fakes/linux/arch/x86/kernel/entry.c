// SPDX-License-Identifier: GPL-2.0-or-later
int x86_entry;
