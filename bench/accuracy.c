/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Routines of a real kernel as user code: cases of the probe, which times them, or with -DTRACED a
 * program that calls each a few times between two marks, for a debugger.  bench/accuracy.py writes
 * each routine's bytes in place of the line below.
 */
#ifdef TRACED
#include <dlfcn.h>
typedef long (*clock_gettime_fn)(long, void *);
static clock_gettime_fn vdso_fn;
#else
#include "case.h"
#include "vdso.h"
extern clock_gettime_fn vdso_fn;
#endif

#include <stddef.h>

/* ROUTINES */

#define BYTES 256
/* An iteration of a chain: the number of dependent instructions in it. */
#define CHAIN 1024
/* Iterations of a window. */
#define REPEATS 64

struct node {
	unsigned long parent_color; /* struct rb_node: the parent's address, and the colour */
	struct node *right, *left;
};

extern struct node *kernel_rb_next(const struct node *);
extern void *kernel_llist_reverse_order(void *);
extern void *kernel_memcpy_orig(void *, const void *, size_t);
extern int kernel_memcmp(const void *, const void *, size_t);
extern size_t kernel_strlen(const char *);
extern int kernel_strcmp(const char *, const char *);
extern void *kernel_memchr(const void *, int, size_t);
extern unsigned long kernel_int_sqrt(unsigned long);
extern unsigned long kernel_siphash_3u64(unsigned long, unsigned long, unsigned long, const void *);
extern unsigned kernel_full_name_hash(const void *, const char *, unsigned);
extern unsigned kernel_csum_partial(const void *, int, unsigned);
extern unsigned long kernel__find_next_bit(const unsigned long *, unsigned long, unsigned long);
extern void kernel_sha1_transform(unsigned *, const void *, unsigned *);

#define NODES 15
static struct node tree[NODES];
static void *list[16];
static void *head;
static char from[BYTES], to[BYTES];
static unsigned long bits[BYTES / 8];
static const char name[] = "arch_call_rest_init";
static long now[2];
static unsigned state[5], scratch[16];
static unsigned long key[2] = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
volatile unsigned long sink;

/* A perfect tree of the nodes from `low` to `high`; its root. */
static struct node *make_tree(int low, int high, struct node *parent)
{
	int middle = (low + high) / 2;
	struct node *node = &tree[middle];

	if (low > high)
		return NULL;
	node->parent_color = (unsigned long)parent | 1;
	node->left = make_tree(low, middle - 1, node);
	node->right = make_tree(middle + 1, high, node);
	return node;
}

static void make_data(void)
{
	make_tree(0, NODES - 1, NULL);
	for (int i = 0; i < 16; i++)
		list[i] = i < 15 ? (void *)&list[i + 1] : NULL;
	head = list;
	for (int i = 0; i < BYTES; i++)
		from[i] = to[i] = (char)(i % 63 + 64);
	from[40] = '\0';
	to[40] = '\0';
	bits[2] = 1UL << 33;
}

#define ONCE(routine, statement)                                           \
	__attribute__((noinline)) void once_##routine(void)                \
	{                                                                  \
		statement;                                                 \
	}                                                                  \
	static __attribute__((noinline)) void repeat_##routine(long times) \
	{                                                                  \
		for (long i = 0; i < times; i++)                           \
			once_##routine();                                  \
	}

/* Each iteration begins with the result of the one before: a core cannot overlap them. */
static unsigned long product = 3;
ONCE(chain, __asm__ volatile(".rept 1024\nimul %0, %0\n.endr" : "+r"(product) : : "cc"))
ONCE(rb_next, for (struct node *node = tree; node; node = kernel_rb_next(node)) sink = 1)
ONCE(llist_reverse_order, head = kernel_llist_reverse_order(head))
ONCE(memcpy_64, kernel_memcpy_orig(to, from, 64))
ONCE(memcpy_256, kernel_memcpy_orig(to, from, 256))
ONCE(memcmp_256, sink = (unsigned long)kernel_memcmp(to, from, 256))
ONCE(strlen_40, sink = kernel_strlen(from))
ONCE(strcmp_40, sink = (unsigned long)kernel_strcmp(from, to))
ONCE(memchr_40, sink = (unsigned long)kernel_memchr(from, 0, BYTES))
ONCE(int_sqrt, sink = kernel_int_sqrt(1234567890123))
ONCE(siphash_3u64, sink = kernel_siphash_3u64(1, 2, 3, key))
ONCE(full_name_hash, sink = kernel_full_name_hash(name, name, sizeof(name) - 1))
ONCE(csum_partial_256, sink = kernel_csum_partial(from, 256, 0))
ONCE(find_next_bit, sink = kernel__find_next_bit(bits, 8 * BYTES, 0))
ONCE(vdso_clock_gettime, vdso_fn(1, now))
ONCE(sha1_transform, kernel_sha1_transform(state, from, scratch))

#define EACH(X)                                                                          \
	X(chain)                                                                         \
	X(rb_next) X(llist_reverse_order) X(memcpy_64) X(memcpy_256) X(memcmp_256)       \
	X(strlen_40) X(strcmp_40) X(memchr_40) X(int_sqrt) X(siphash_3u64)               \
	X(full_name_hash) X(csum_partial_256) X(find_next_bit) X(sha1_transform)   \
	X(vdso_clock_gettime)

#ifdef TRACED

#define TRACE(routine)                 \
	__asm__ volatile("int3");      \
	repeat_##routine(4);           \
	__asm__ volatile("int3");

int main(void)
{
	vdso_fn = (clock_gettime_fn)dlsym(dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD),
					  "__vdso_clock_gettime");
	make_data();
	EACH(TRACE)
	return 0;
}

#else

static long setup(struct work *w)
{
	(void)w;
	make_data();
	return 0;
}

#define TIMED(routine)                                                                      \
	static void run_##routine(struct work *w)                                           \
	{                                                                                   \
		repeat_##routine(REPEATS);                                                  \
		w->first.ret = w->second.ret = 0;                                           \
	}                                                                                   \
	CASE_OF("accuracy", accuracy_##routine, "accuracy-" #routine, "64 calls of " #routine, \
		.shape = SHAPE_OWN, .want_first = 0, .want_second = 0, .setup = setup,      \
		.run = run_##routine);

EACH(TIMED)

#endif
