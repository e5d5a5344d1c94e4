/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernels for QEMU's machines that are there to harm who boots them, each by another -D.  They run
 * at the addresses that they were loaded to, which are those of a program to the plugin, so they
 * can say to it all that a probe can.  What differs between architectures is in hostile.h.
 */
#include "hostile.h"

const char banner[] __attribute__((used)) = BANNER;

static const char flood[] = "\033[2J\033]0;title\007AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
static const char steady[] = "[    1.000000] still booting\n";
static const char one_case[] = "case getppid count 1\n";
static const char nonsense[] = "context 1 a=b\nend 99999999999999999999\n\n\ncase\ntext zz\n";
static const char lies[] = "kentry-probe start " ANOTHER_ARCH
			   "\nkentry-probe release ../../../etc/passwd\n"
			   "kentry-probe notes 00112233\nkentry-probe vector sve 99999999999\n"
			   "kentry-probe block getppid 9 9 9\n"
			   "kentry-probe register getppid z0 byte=1 is=2 filled=3 promised=4\n"
			   "kentry-probe failed <script> phase=fork call=-1 result=-1\n"
			   "kentry-probe end cases=12345678901234567890\n";

/* The next random number (xorshift64). */
static unsigned long random(void)
{
	static unsigned long state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A string to the console. */
static void print(const char *text)
{
	for (; *text; text++)
		put(*text);
}

/* A string to the plugin, bit by bit, most significant first. */
static void send(const char *text)
{
	for (; *text; text++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (*text >> bit & 1)
				MARK(MARK_BIT1);
			else
				MARK(MARK_BIT0);
		}
	}
}

/* A window of some instructions. */
static void window(void)
{
	MARK(MARK_BEGIN);
	__asm__ volatile("nop");
	MARK(MARK_END);
}

static void any_mark(void)
{
	switch (random() & 15) {
	case 0:
		MARK(MARK_BEGIN);
		break;
	case 1:
		MARK(MARK_END);
		break;
	case 2:
		MARK(MARK_BIT0);
		break;
	case 3:
		MARK(MARK_BIT1);
		break;
	case 4:
		MARK(MARK_IDLE);
		break;
	case 5:
		MARK(MARK_COUNT);
		break;
	case 6:
		MARK(MARK_PATH);
		break;
	case 7:
		MARK(MARK_TRACE_BEGIN);
		break;
	case 8:
		MARK(MARK_TRACE_END);
		break;
	case 9:
		MARK(0);
		break;
	case 10:
		MARK(3);
		break;
	case 11:
		MARK(0x12);
		break;
	case 12:
		MARK(0x23);
		break;
	case 13:
		MARK(0x32);
		break;
	case 14:
		MARK(0x7f);
		break;
	default:
		MARK(0xff);
		break;
	}
}

void begin(void)
{
	enum { SILENT, OFF, RESET, FLOOD, STEADY, MARKS, WINDOWS, DEVICES_WRITTEN, LIES };

	if (KIND == OFF)
		off();
	if (KIND == RESET)
		reset();
	if (KIND == WINDOWS) {
		/* Of a case, each another one, for ever. */
		send(one_case);
		MARK(MARK_PATH);
	}
	if (KIND == LIES) {
		/* All that a probe says, and nothing of it true. */
		print(lies);
		send(one_case);
		MARK(MARK_COUNT);
		window();
		window();
		MARK(MARK_IDLE);
		send(nonsense);
		off();
	}
	for (;;) {
		switch (KIND) {
		case FLOOD:
			/* Without an end of a line, with what moves a cursor. */
			print(flood);
			break;
		case STEADY:
			/* Lines of a kernel that boots and boots: there is always something new. */
			print(steady);
			for (volatile int i = 0; i < 20000; i++)
				;
			break;
		case MARKS:
			any_mark();
			break;
		case WINDOWS: {
			unsigned long many = random() & 255;

			MARK(MARK_BEGIN);
			while (many--)
				__asm__ volatile("nop");
			MARK(MARK_END);
			break;
		}
		case DEVICES_WRITTEN:
			/* Anything to any register of any device. */
			write_device(random(), random());
			break;
		default:
			break;
		}
	}
}
