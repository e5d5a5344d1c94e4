/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(read_64k, "read-64k", "pread of 65536 bytes from a file in memory",
	    .first = CALL(pread64, 0, (long)pages, 65536, 0), .want_first = 65536,
	    .setup = memory_file_for_first);
