/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define AF_NETLINK 16
#define SOCK_RAW 3
#define NETLINK_AUDIT 9
#define NLM_F_REQUEST 1
#define NLM_F_ACK 4
#define AUDIT_SET 1001
#define AUDIT_STATUS_ENABLED 1
#define PR_SET_PDEATHSIG 1

/* struct nlmsghdr and the beginning of struct audit_status. */
static long enable(int enabled)
{
	struct {
		unsigned int length;
		unsigned short type, flags;
		unsigned int sequence, port;
		unsigned int mask, values[8];
	} message = { sizeof(message),
		      AUDIT_SET,
		      NLM_F_REQUEST | NLM_F_ACK,
		      1,
		      0,
		      AUDIT_STATUS_ENABLED,
		      { (unsigned int)enabled } };
	/* The answer: struct nlmsghdr, the error, and what was sent. */
	int answer[64] = { 0 };
	long fd = SYS(socket, AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, 0), got;

	if (fd < 0)
		return fd;
	got = SYS(write, fd, &message, sizeof(message), 0);
	if (got > 0)
		got = SYS(read, fd, answer, sizeof(answer), 0);
	SYS(close, fd, 0, 0, 0);
	return got < 0 ? got : answer[4];
}

/*
 * Only tasks that are forked after auditing was enabled for the first time are audited, and all of
 * those are, for as long as the machine runs (audit_alloc(), kernel/auditsc.c).
 */
static long setup(struct work *w)
{
	long err = enable(1), child = err ? err : fork_child();
	int status;

	(void)w;
	if (child <= 0)
		return child;
	status = wait_child(child);
	exit_child(status != 0);
}

CASE_OF("entry", getppid_audit, "getppid-audit", "getppid with auditing enabled, without rules",
	.needs = "auditing of system calls", .changes = CHANGES_MACHINE, .first = CALL(getppid),
	.want_first = ANY_RESULT, .setup = setup);
