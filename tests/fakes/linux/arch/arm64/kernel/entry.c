// SPDX-License-Identifier: GPL-2.0-or-later
int arm64_entry;
