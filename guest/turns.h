/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a slot's process does: it sets its case up, and times its calls whenever it has a turn. */
#ifndef KENTRY_TURNS_H
#define KENTRY_TURNS_H

#include "slots.h"

/* Before the first turn the slots calibrate one after the other: they would disturb each other. */
#define CALIBRATION (-1)
/* The exit status of a process that has printed why it ends. */
#define SAID 2

/* A child of `parent`: all turns, from CALIBRATION on. */
__attribute__((noreturn)) void slot_process(const struct slot *slot, long parent);

#endif
