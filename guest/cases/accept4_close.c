/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

#define AF_UNIX 1
#define SOCK_STREAM 1

static struct {
	unsigned short family;
	char path[108];
} address;
static unsigned int address_length;

/* The kernel chooses a name: unix(7), autobind. */
static long setup(struct work *w)
{
	long fd = SYS(socket, AF_UNIX, SOCK_STREAM, 0, 0), err;

	w->first.args[0] = fd;
	address.family = AF_UNIX;
	address_length = sizeof(address);
	err = fd < 0 ? fd : SYS(bind, fd, &address, sizeof(address.family), 0);
	if (!err)
		err = SYS(getsockname, fd, &address, &address_length, 0);
	return err ? err : SYS(listen, fd, 1, 0, 0);
}

static void run(struct work *w)
{
	long client = SYS(socket, AF_UNIX, SOCK_STREAM, 0, 0);

	SYS(connect, client, &address, address_length, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	w->first.ret = SYS(accept4, w->first.args[0], 0, 0, 0);
	w->second.ret = SYS(close, w->first.ret, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	SYS(close, client, 0, 0, 0);
}

CASE_PART("io", accept4_close, "accept4+close",
	  "accept4 of a connection to a Unix stream socket, then close", .needs = "Unix sockets",
	  .settles = 1, .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run);
