/*
 * Which of liburcu's flavours reads: the two with the cheapest read side.
 *
 * qsbr: a section costs nothing, and each thread sometimes announces a quiescent state.
 * memb: a section is a store and a compiler fence; membarrier(2) pays for it on the update side.
 */
#ifndef FLAVOUR_H
#define FLAVOUR_H

/* The read side is inlined, as in the library's own benchmarks. */
#define _LGPL_SOURCE
/* Functions of the flavour have their short names. */
#define URCU_API_MAP
#ifdef QSBR
#include <urcu/urcu-qsbr.h>
#else
#include <urcu/urcu-memb.h>
#endif
#include <urcu/compiler.h>
#include <urcu/pointer.h>
#include <urcu/ref.h>
#include <urcu/uatomic.h>

/* Operations between two quiescent states. */
#define BETWEEN_QUIESCENT 64

/* Announces a quiescent state after a number of operations. Empty for a flavour with sections. */
static inline void after_operation(unsigned long nth)
{
#ifdef QSBR
	if (nth % BETWEEN_QUIESCENT == 0)
		rcu_quiescent_state();
#else
	(void)nth;
#endif
}

/* A thread that waits for another must not look like a reader. */
static inline void before_waiting(void)
{
#ifdef QSBR
	rcu_thread_offline();
#endif
}

static inline void after_waiting(void)
{
#ifdef QSBR
	rcu_thread_online();
#endif
}

#endif
