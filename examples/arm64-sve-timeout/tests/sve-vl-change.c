// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * V0-V31 keep their values when the vector length changes, also if the kernel has older ones in
 * memory. This fails in 6.12 without the first patch.
 */

#include "sve.h"

static struct regs old, in, out;

static void change(int vl, int new_vl)
{
	volatile int flag = 1;
	char what[40];

	set_vl(vl);
	fill(&old, vl, 1);
	fill(&in, vl, 100);
	/* Preempted with the old values in the registers. */
	for (int i = 0; i < 40; i++) {
		sve_wait(&old, &out, &flag);
		spin(1);
	}
	sve_call(&in, &out, __NR_prctl, PR_SVE_SET_VL, new_vl, 0);
	snprintf(what, sizeof(what), "V0-V31 after a change to %d", new_vl);
	report(only_v(&in, vl, &out, new_vl), what, vl);
}

int main(void)
{
	int vls[VL_MAX / 16], count = 0;
	pid_t pid;

	setup();
	for (int one = 16; one <= VL_MAX; one += 16)
		if (set_vl(one))
			vls[count++] = one;
	if (count < 2) {
		printf("1..0 # SKIP one VL\n");
		return 0;
	}
	company = "with another";
	pid = rival(vls[0]);
	for (int i = 1; i < count; i++) {
		change(vls[i - 1], vls[i]);
		change(vls[i], vls[i - 1]);
	}
	end(pid);
	return finish();
}
