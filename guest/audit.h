/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Auditing of system calls, by netlink (audit(7)). */
#ifndef KENTRY_AUDIT_H
#define KENTRY_AUDIT_H

struct work; /* window.h */

/*
 * Enables auditing with `rules` rules for another call than the case's, and goes on in a task that
 * is audited; 0, or a negative errno.
 */
long begin_audit(long rules);
/* Deletes the rules; auditing stays. */
void end_audit(struct work *w);

#endif
