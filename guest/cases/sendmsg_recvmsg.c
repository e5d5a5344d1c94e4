/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

/* struct iovec, and struct msghdr with nothing but one of it. */
static long bytes[2] FOR_KERNEL = { (long)buffer, 1 };
static long sent[7] FOR_KERNEL = { 0, 0, (long)bytes, 1 };
static long received[7] FOR_KERNEL = { 0, 0, (long)bytes, 1 };

static long setup(struct work *w)
{
	int ends[2];
	long err = SYS(socketpair, AF_UNIX, SOCK_STREAM, 0, ends);

	w->first.args[0] = ends[0];
	w->second.args[0] = ends[1];
	return err;
}

CASE_OF("io", sendmsg_recvmsg, "sendmsg+recvmsg",
	"sendmsg of 1 byte over a Unix stream socket, then recvmsg of it, in one task",
	.needs = "Unix sockets", .shape = SHAPE_TWO, .first = CALL(sendmsg, 0, (long)sent, 0),
	.second = CALL(recvmsg, 0, (long)received, 0), .want_first = 1, .want_second = 1,
	.setup = setup);
