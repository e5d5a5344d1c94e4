// SPDX-License-Identifier: GPL-2.0-or-later
/* Auditing of system calls; audit.h says what each function does. */
#include "audit.h"
#include "system.h"
#include "window.h"

#define AF_NETLINK 16
#define SOCK_RAW 3
#define NETLINK_AUDIT 9
#define NLM_F_REQUEST 1
#define NLM_F_ACK 4
/* include/uapi/linux/audit.h */
#define AUDIT_SET 1001
#define AUDIT_ADD_RULE 1011
#define AUDIT_DEL_RULE 1012
#define AUDIT_STATUS_ENABLED 1
#define AUDIT_FILTER_EXIT 4
#define AUDIT_ALWAYS 2
#define AUDIT_LOGINUID 9
#define AUDIT_EQUAL 0x40000000
#define AUDIT_WORDS 64
/* The first user of a distribution. */
#define FIRST_USER 1000

static long rules_added;

/* A message with `bytes` of `data` behind its struct nlmsghdr; 0, or a negative errno. */
static long request(int type, const void *data, unsigned int bytes)
{
	struct {
		unsigned int length;
		unsigned short type, flags;
		unsigned int sequence, port;
		char data[];
	} *message = (void *)buffer;
	/* The answer: struct nlmsghdr, the error, and what was sent. */
	const int *answer = (const int *)buffer;
	long fd = SYS(socket, AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, 0), got;

	if (fd < 0)
		return fd;
	message->length = sizeof(*message) + bytes;
	message->type = (unsigned short)type;
	message->flags = NLM_F_REQUEST | NLM_F_ACK;
	message->sequence = 1;
	message->port = 0;
	for (unsigned int i = 0; i < bytes; i++)
		message->data[i] = ((const char *)data)[i];
	got = SYS(write, fd, buffer, message->length, 0);
	if (got > 0)
		got = SYS(read, fd, buffer, sizeof(buffer), 0);
	SYS(close, fd, 0, 0, 0);
	return got < 0 ? got : answer[4];
}

static long enable(void)
{
	/* The beginning of struct audit_status: which fields are given, and they. */
	const unsigned int status[9] = { AUDIT_STATUS_ENABLED, 1 };

	return request(AUDIT_SET, status, sizeof(status));
}

/* As "auditctl -a always,exit -S openat -F auid=USER" adds it, with FIRST_USER and those after it. */
static long change_rule(int type, unsigned int user)
{
	/* struct audit_rule_data: a rule for each of the calls in `calls`, with one field. */
	struct {
		unsigned int flags, action, field_count, calls[AUDIT_WORDS], fields[AUDIT_WORDS],
			values[AUDIT_WORDS], operators[AUDIT_WORDS], text_length;
	} rule = { .flags = AUDIT_FILTER_EXIT,
		   .action = AUDIT_ALWAYS,
		   .field_count = 1,
		   .calls = { [NR_openat / 32] = 1u << NR_openat % 32 },
		   .fields = { AUDIT_LOGINUID },
		   .values = { user },
		   .operators = { AUDIT_EQUAL } };

	return request(type, &rule, sizeof(rule));
}

void end_audit(struct work *w)
{
	(void)w;
	while (rules_added > 0)
		change_rule(AUDIT_DEL_RULE, FIRST_USER + (unsigned int)--rules_added);
}

/*
 * Only tasks that are forked after auditing was enabled for the first time are audited, and all of
 * those are, for as long as the machine runs (audit_alloc(), kernel/auditsc.c).
 */
long begin_audit(long rules)
{
	long err = enable(), child;
	int status;

	while (!err && rules_added < rules)
		err = change_rule(AUDIT_ADD_RULE, FIRST_USER + (unsigned int)rules_added++);
	if (err) {
		end_audit(0);
		return err;
	}
	child = fork_child();
	if (child <= 0)
		return child;
	status = wait_child(child);
	exit_child(status != 0);
}
