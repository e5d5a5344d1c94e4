/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define PR_SET_NO_NEW_PRIVS 38
#define PR_SET_SECCOMP 22
#define SECCOMP_MODE_FILTER 2
#define SECCOMP_RET_ALLOW 0x7fff0000
#define BPF_LD_W_ABS 0x20
#define BPF_JEQ_K 0x15
#define BPF_RET_K 0x06

/* Looks at the number and allows every one, as filters in use do with most. */
static const struct {
	unsigned short code;
	unsigned char if_true, if_false;
	unsigned int k;
} filter[] = {
	{ BPF_LD_W_ABS, 0, 0, 0 },
	{ BPF_JEQ_K, 0, 0, NR_getppid },
	{ BPF_RET_K, 0, 0, SECCOMP_RET_ALLOW },
};

static long setup(struct work *w)
{
	const struct {
		unsigned short length;
		const void *filter;
	} program = { ARRAY_SIZE(filter), filter };

	(void)w;
	SYS(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0);
	return SYS(prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0);
}

CASE_OF("entry", getppid_seccomp, "getppid-seccomp",
	"getppid behind a seccomp filter that allows it", .needs = "seccomp filters",
	.changes = CHANGES_TASK, .first = CALL(getppid), .want_first = ANY_RESULT, .setup = setup);
