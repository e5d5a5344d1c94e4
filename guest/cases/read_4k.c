/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(read_4k, "read-4k", "pread of 4096 bytes from a file in memory",
	    .first = CALL(pread64, 0, (long)pages, 4096, 0), .want_first = 4096,
	    .setup = memory_file_for_first);
