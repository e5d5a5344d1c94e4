/* SPDX-License-Identifier: GPL-2.0-or-later */
/* As much of libcap as seccomp_bpf.c uses: Debian has no libcap for riscv64. */

#ifndef KENTRY_SYS_CAPABILITY_H
#define KENTRY_SYS_CAPABILITY_H

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct __user_cap_data_struct *cap_t;
typedef int cap_value_t, cap_flag_t, cap_flag_value_t;

enum { CAP_EFFECTIVE, CAP_CLEAR = 0 };

static struct __user_cap_header_struct cap_header = { _LINUX_CAPABILITY_VERSION_3, 0 };
static struct __user_cap_data_struct cap_data[_LINUX_CAPABILITY_U32S_3];

static inline cap_t cap_get_proc(void)
{
	return syscall(SYS_capget, &cap_header, cap_data) ? NULL : cap_data;
}

static inline int cap_set_proc(cap_t caps)
{
	return syscall(SYS_capset, &cap_header, caps);
}

static inline int cap_get_flag(cap_t caps, cap_value_t which, cap_flag_t set,
			       cap_flag_value_t *value)
{
	(void)set;
	*value = !!(caps[which / 32].effective & 1u << which % 32);
	return 0;
}

static inline int cap_set_flag(cap_t caps, cap_flag_t set, int count, const cap_value_t *which,
			       cap_flag_value_t value)
{
	(void)set;
	(void)value;
	for (int i = 0; i < count; i++)
		caps[which[i] / 32].effective &= ~(1u << which[i] % 32);
	return 0;
}

static inline int cap_free(void *caps)
{
	(void)caps;
	return 0;
}

#endif
