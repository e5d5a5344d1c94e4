/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What C lacks. */
#ifndef KENTRY_MACROS_H
#define KENTRY_MACROS_H

#define STR_(x) #x
#define STR(x) STR_(x)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
