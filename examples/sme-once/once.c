// SPDX-License-Identifier: GPL-2.0
/*
 * Uses SME once, streaming mode and ZA, and then never again: it sleeps and makes system calls
 * for two seconds of the guest's time.  What a library does that tries SME at its start-up.
 *
 * No C library: make builds it with the cross compiler alone.
 */
#define NR_exit 93
#define NR_nanosleep 101
#define NR_getppid 173

#define SLEEPS 200
#define SLEEP_NS 10000000L /* SLEEPS of them: two seconds */
#define CALLS_A_SLEEP 50

static long call(long number, long first, long second)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	return x0;
}

static void use_sme(void)
{
	__asm__ volatile(".arch armv9-a+sme\n\t"
			 "smstart\n\t"
			 "ptrue p0.s\n\t"
			 "ptrue p1.s\n\t"
			 "mov z0.s, #1\n\t"
			 "addha za0.s, p0/m, p1/m, z0.s\n\t"
			 "smstop\n\t"
			 ".arch armv8-a" ::
				 : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",
				   "v9", "v10", "v11", "v12", "v13", "v14", "v15");
}

void _start(void)
{
	const long request[2] = { 0, SLEEP_NS };

	use_sme();
	for (int i = 0; i < SLEEPS; i++) {
		for (int j = 0; j < CALLS_A_SLEEP; j++)
			call(NR_getppid, 0, 0);
		call(NR_nanosleep, (long)request, 0);
	}
	call(NR_exit, 0, 0);
}
