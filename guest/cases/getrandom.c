/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

CASE_OF("process", getrandom, "getrandom", "getrandom of 32 bytes",
	.first = CALL(getrandom, (long)buffer, 32, 0), .want_first = 32);
