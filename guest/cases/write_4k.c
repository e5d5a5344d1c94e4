/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(write_4k, "write-4k", "pwrite of 4096 bytes to a file in memory",
	    .first = CALL(pwrite64, 0, (long)pages, 4096, 0), .want_first = 4096,
	    .setup = memory_file_for_first);
