/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "case.h"

static struct unix_address address;

static long setup(struct work *w)
{
	long fd = listen_unix(&address, 1);

	w->first.args[0] = fd;
	return fd < 0 ? fd : 0;
}

static void run(struct work *w)
{
	long client = SYS(socket, AF_UNIX, SOCK_STREAM, 0, 0);

	SYS(connect, client, &address, address.length, 0);
	__asm__ volatile(MARK_ASM(MARK_BEGIN)::: "memory");
	w->first.ret = SYS(accept4, w->first.args[0], 0, 0, 0);
	w->second.ret = SYS(close, w->first.ret, 0, 0, 0);
	__asm__ volatile(MARK_ASM(MARK_END)::: "memory");
	SYS(close, client, 0, 0, 0);
}

CASE_PART("io", accept4_close, "accept4+close",
	  "accept4 of a connection to a Unix stream socket, then close", .needs = "Unix sockets",
	  .settles = 1, .want_first = ANY_RESULT, .want_second = 0, .setup = setup, .run = run);
