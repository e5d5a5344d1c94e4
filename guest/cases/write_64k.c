/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_VECTOR(write_64k, "write-64k", "pwrite of 65536 bytes to a file in memory",
	    .first = CALL(pwrite64, 0, (long)pages, 65536, 0), .want_first = 65536,
	    .setup = memory_file_for_first);
