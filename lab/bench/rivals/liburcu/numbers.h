/*
 * Free numbers, which a hash table does not provide. Each thread has a list of its own, filled from
 * a counter of the table, so that threads do not wait for each other. Any free number, not the
 * lowest.
 */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdbool.h>
#include <stdlib.h>

#include "flavour.h"

/* Numbers that a thread takes from the counter at once. */
#define NUMBERS_AT_ONCE 64

struct numbers {
	long *free;
	size_t count, room;
};

static __thread struct numbers numbers;

/* Drops the calling thread's numbers, before another table or the end. */
static void numbers_forget(void)
{
	free(numbers.free);
	numbers = (struct numbers){ 0 };
}

static bool numbers_reserve(size_t room)
{
	long *grown;

	if (room <= numbers.room)
		return true;
	room = room < 2 * numbers.room ? 2 * numbers.room : room;
	grown = realloc(numbers.free, room * sizeof(*grown));
	if (!grown)
		return false;
	numbers.free = grown;
	numbers.room = room;
	return true;
}

static bool numbers_refill(long *next)
{
	long first;

	if (!numbers_reserve(NUMBERS_AT_ONCE))
		return false;
	first = uatomic_add_return(next, NUMBERS_AT_ONCE) - NUMBERS_AT_ONCE;
	for (long i = NUMBERS_AT_ONCE - 1; i >= 0; i--)
		numbers.free[numbers.count++] = first + i;
	return true;
}

/* Returns a free number, or -1. */
static inline long numbers_take(long *next)
{
	if (caa_unlikely(numbers.count == 0) && !numbers_refill(next))
		return -1;
	return numbers.free[--numbers.count];
}

/* Frees `number`. It is lost if there is no memory for the list. */
static inline void numbers_give(long number)
{
	if (caa_likely(numbers.count < numbers.room) || numbers_reserve(numbers.count + 1))
		numbers.free[numbers.count++] = number;
}

#endif
