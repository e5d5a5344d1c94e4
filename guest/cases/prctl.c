/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define PR_GET_NAME 16

CASE_OF("process", prctl, "prctl", "prctl(PR_GET_NAME)",
	.first = CALL(prctl, PR_GET_NAME, (long)buffer), .want_first = 0);
