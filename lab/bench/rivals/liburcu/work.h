/* The measured loops. Each returns the number of operations, or 0 after a wrong result. */
#ifndef WORK_H
#define WORK_H

#include <string.h>

#ifdef HASH
#include "hash.h"
#else
#include "array.h"
#endif

/* Pairs of open and close in a chunk. */
#define PAIRS 512
/* Lookups between two changes in mixed work. */
#define LOOKUPS_BETWEEN 9
/* Operations from an open of mixed work to the next. */
#define OF_A_GROUP (2 * LOOKUPS_BETWEEN + 2)

struct worker {
	struct table *table;
	/* Its repeated sequence of lookups: descriptors. */
	const long *sequence;
	unsigned long length;
	/* Sum of the objects of the sequence. */
	uint64_t sum;
	/* The file that it opens and closes. */
	struct file *file;
};

typedef unsigned long chunk(struct worker *worker);

static __attribute__((noinline)) unsigned long borrowed(struct worker *worker)
{
	uint64_t sum = 0, value = 0;

	for (unsigned long i = 0; i < worker->length; i++) {
		if (!table_read(worker->table, worker->sequence[i], &value))
			return 0;
		sum += value;
		after_operation(i);
	}
	return sum == worker->sum ? worker->length : 0;
}

static __attribute__((noinline)) unsigned long owned(struct worker *worker)
{
	uint64_t sum = 0;

	for (unsigned long i = 0; i < worker->length; i++) {
		struct file *file = table_get(worker->table, worker->sequence[i]);

		if (!file)
			return 0;
		sum += file->value;
		file_put(file);
		after_operation(i);
	}
	return sum == worker->sum ? worker->length : 0;
}

static __attribute__((noinline)) unsigned long open_close(struct worker *worker)
{
	for (unsigned long i = 0; i < PAIRS; i++) {
		long number = table_open(worker->table, worker->file);

		if (number < 0)
			return 0;
		worker->file = table_take(worker->table, number);
		if (!worker->file)
			return 0;
		after_operation(i);
	}
	return PAIRS;
}

static __attribute__((noinline)) unsigned long open_close_new(struct worker *worker)
{
	for (unsigned long i = 0; i < PAIRS; i++) {
		struct file *file = file_new(i);
		long number = file ? table_open(worker->table, file) : -1;

		if (number < 0 || !table_close(worker->table, number))
			return 0;
		after_operation(i);
	}
	return PAIRS;
}

static inline bool look_up(struct worker *worker, unsigned long from, uint64_t *sum)
{
	uint64_t value = 0;

	for (unsigned long i = from; i < from + LOOKUPS_BETWEEN; i++) {
		if (!table_read(worker->table, worker->sequence[i], &value))
			return false;
		*sum += value;
	}
	return true;
}

static __attribute__((noinline)) unsigned long mixed(struct worker *worker)
{
	unsigned long i = 0, operations = 0;
	uint64_t sum = 0;

	for (; i + 2 * LOOKUPS_BETWEEN <= worker->length; i += 2 * LOOKUPS_BETWEEN) {
		long number;

		if (!look_up(worker, i, &sum))
			return 0;
		number = table_open(worker->table, worker->file);
		if (number < 0 || !look_up(worker, i + LOOKUPS_BETWEEN, &sum))
			return 0;
		worker->file = table_take(worker->table, number);
		if (!worker->file)
			return 0;
		operations += OF_A_GROUP;
		/* About as often as elsewhere. */
		after_operation(operations % (3 * OF_A_GROUP) == 0 ? 0 : 1);
	}
	/* Places are small: a use that keeps the reads. */
	return sum < UINT64_MAX ? operations : 0;
}

static chunk *work_of(const char *name)
{
	static const struct {
		const char *name;
		chunk *work;
	} works[] = {
		{ "borrowed", borrowed },
		{ "owned", owned },
		{ "open_close", open_close },
		{ "open_close_new", open_close_new },
		{ "mixed", mixed },
	};

	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (strcmp(works[i].name, name) == 0)
			return works[i].work;
	return NULL;
}

#endif
