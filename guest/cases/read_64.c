/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(read_64, "read-64", "pread of 64 bytes from a file in memory",
	    .first = CALL(pread64, 0, (long)pages, 64, 0), .want_first = 64,
	    .setup = memory_file_for_first);
