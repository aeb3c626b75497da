/* Growth of a table, and its memory. */
#ifndef SIZE_H
#define SIZE_H

#include <malloc.h>
#include <unistd.h>

#include "turn.h"

/* Durations of many opens, in nanoseconds with the clock. */
struct tail {
	uint64_t median_ns, p9999_ns, max_ns;
	unsigned long count;
};

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static struct tail tail_of(uint64_t *durations, unsigned long count)
{
	qsort(durations, count, sizeof(*durations), compare);
	return (struct tail){
		.median_ns = durations[(count - 1) / 2],
		.p9999_ns = durations[(count * 9999 + 9999) / 10000 - 1],
		.max_ns = durations[count - 1],
		.count = count,
	};
}

/* Times each open alone. */
static bool open_each(struct table *table, struct file **files, uint64_t *durations,
		      unsigned long most)
{
	for (unsigned long i = 0; i < most; i++) {
		uint64_t began = now_ns();
		long number = table_open(table, files[i]);

		durations[i] = now_ns() - began;
		if (number < 0)
			return false;
		after_operation(i);
	}
	return true;
}

struct growth {
	struct table *table;
	unsigned long most;
	bool grown;
	struct tail tail;
};

static void grow(struct growth *growth)
{
	unsigned long most = growth->most, ready = 0;
	struct table *table = growth->table;
	uint64_t *durations = malloc(most * sizeof(*durations));
	struct file **files = malloc(most * sizeof(*files));

	while (files && ready < most && (files[ready] = file_new(ready)))
		ready++;
	if (durations && ready == most)
		growth->grown = open_each(table, files, durations, most);
	if (growth->grown)
		growth->tail = tail_of(durations, most);
	free(files);
	free(durations);
}

/* Opens on a CPU and as a reader of its own, as threads of a turn do. */
static void *grow_alone(void *argument)
{
	pin(0);
	rcu_register_thread();
	grow(argument);
	rcu_unregister_thread();
	return NULL;
}

/* Opens `most` descriptors, at least 1, in a new table, each timed alone. */
static bool growth(unsigned long most, struct tail *tail)
{
	/* Created here: a thread that the table starts inherits the affinity of its creator. */
	struct growth growth = { .table = table_new(), .most = most };
	pthread_t thread;

	if (!growth.table)
		return false;
	if (pthread_create(&thread, NULL, grow_alone, &growth)) {
		table_free(growth.table);
		return false;
	}
	before_waiting();
	pthread_join(thread, NULL);
	after_waiting();
	table_free(growth.table);
	/* Arrays that were copied. */
	rcu_barrier();
	*tail = growth.tail;
	return growth.grown;
}

/* Bytes of the heap that are in use. */
static double bytes_in_use(void)
{
	struct mallinfo2 heap;

	/* Merges free blocks, or the heap would count each of them. */
	malloc_trim(0);
	heap = mallinfo2();
	return (double)heap.uordblks + heap.hblkhd;
}

/* Waits until callbacks have run and nothing changes: a hash table grows on a thread of its own. */
static double settled_bytes(void)
{
	double before, now = -1;

	for (int i = 0; i < 100; i++) {
		before_waiting();
		usleep(20000);
		after_waiting();
		rcu_barrier();
		before = now;
		now = bytes_in_use();
		if (before == now)
			break;
	}
	return now;
}

/* Bytes for each of `live` descriptors, at least 1, beyond the object: one, which all of them
 * share. Negative if an open fails. */
static double footprint(unsigned long live)
{
	struct file *file = file_new(0);
	double before = settled_bytes(), after = -1;
	struct table *table = table_new_in_heap();
	unsigned long opened = 0;

	while (table && file && opened < live) {
		urcu_ref_get(&file->references);
		if (table_open(table, file) < 0)
			break;
		after_operation(opened++);
	}
	if (opened == live)
		after = settled_bytes();
	if (table)
		table_free(table);
	if (file)
		file_put(file);
	return after < 0 ? -1 : (after - before) / live;
}

#endif
