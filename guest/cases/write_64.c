/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(write_64, "write-64", "pwrite of 64 bytes to a file in memory",
	    .first = CALL(pwrite64, 0, (long)pages, 64, 0), .want_first = 64,
	    .setup = memory_file_for_first);
