// SPDX-License-Identifier: GPL-2.0-or-later
/* Who is the kernel: what /proc, /sys and uname say of the one that runs. */
#include "kernel.h"
#include "system.h"
#include "text.h"

void send_text_address(void)
{
	long fd = SYS(openat, AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
	struct line row = { 0 };
	long got;

	if (fd < 0)
		return;
	while ((got = SYS(read, fd, buffer, sizeof(buffer), 0)) > 0) {
		for (long i = 0; i < got; i++) {
			if (buffer[i] != '\n') {
				if (row.length < sizeof(row.text) - 1)
					row.text[row.length++] = buffer[i];
				continue;
			}
			row.text[row.length] = 0;
			/* "ffff800080010000 T _stext": 16 digits, a type, the name. */
			if (row.length == 25 && same(row.text + 19, "_stext")) {
				struct line message = { 0 };

				row.text[16] = 0;
				put(&message, "text ");
				put(&message, row.text);
				send(&message);
				got = 0;
				break;
			}
			row.length = 0;
		}
		if (!got)
			break;
	}
	SYS(close, fd, 0, 0, 0);
}

void report_release(void)
{
	/* struct new_utsname: six fields of 65 bytes; release is the third. */
	struct line line = console_line("release ");

	if (SYS(uname, buffer, 0, 0, 0) == 0) {
		put(&line, buffer + 2 * 65);
		say(&line);
	}
}

void report_build_id(void)
{
	static const char hex[] = "0123456789abcdef";
	long fd = SYS(openat, AT_FDCWD, "/sys/kernel/notes", O_RDONLY, 0);
	struct line line = console_line("notes ");
	long got;

	if (fd < 0)
		return;
	got = SYS(read, fd, buffer, 100, 0);
	for (long i = 0; i < got; i++) {
		char byte[3] = { hex[buffer[i] >> 4 & 15], hex[buffer[i] & 15], 0 };

		put(&line, byte);
	}
	if (got > 0)
		say(&line);
	SYS(close, fd, 0, 0, 0);
}
