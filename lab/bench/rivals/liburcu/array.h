/*
 * An array of pointers that is read under liburcu: its users' usual table for small integers, and
 * that of Linux. Changes take a mutex and get the lowest free number from a bitmap; an open that
 * finds the array full copies it to one of twice the size, and frees the old one after a grace
 * period.
 */
#ifndef ARRAY_H
#define ARRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "file.h"

/* Initial number of slots, a multiple of WORD. */
#define SLOTS 64
#define WORD 64

struct array {
	struct rcu_head head;
	long length;
	struct file *slots[];
};

struct table {
	struct array *array;
	/* Guards the following members, and changes of the array. */
	pthread_mutex_t lock __attribute__((aligned(CAA_CACHE_LINE_SIZE)));
	uint64_t *open;
	/* No word of the bitmap below this one has a free number. */
	long first_free;
};

static struct array *array_new(long length)
{
	struct array *array = calloc(1, sizeof(*array) + length * sizeof(array->slots[0]));

	if (array)
		array->length = length;
	return array;
}

static void array_free(struct rcu_head *head)
{
	free(caa_container_of(head, struct array, head));
}

static struct table *table_new(void)
{
	struct table *table = aligned_alloc(CAA_CACHE_LINE_SIZE, sizeof(*table));

	if (!table)
		return NULL;
	pthread_mutex_init(&table->lock, NULL);
	table->array = array_new(SLOTS);
	table->open = calloc(SLOTS / WORD, sizeof(*table->open));
	table->first_free = 0;
	if (!table->array || !table->open) {
		free(table->array);
		free(table->open);
		free(table);
		return NULL;
	}
	return table;
}

/* Creates a table whose bytes are all the heap's, as they always are here. */
static struct table *table_new_in_heap(void)
{
	return table_new();
}

/* Doubles the array and the bitmap; under the lock. */
static bool table_grow(struct table *table)
{
	struct array *old = table->array, *array = array_new(2 * old->length);
	long words = old->length / WORD;
	uint64_t *open;

	if (!array)
		return false;
	open = realloc(table->open, 2 * words * sizeof(*open));
	if (!open) {
		free(array);
		return false;
	}
	memset(open + words, 0, words * sizeof(*open));
	table->open = open;
	memcpy(array->slots, old->slots, old->length * sizeof(old->slots[0]));
	rcu_assign_pointer(table->array, array);
	call_rcu(&old->head, array_free);
	return true;
}

/* Allocates the lowest free number; under the lock. Returns -1 without memory. */
static inline long table_reserve(struct table *table)
{
	long word = table->first_free, bit;

	while (word < table->array->length / WORD && table->open[word] == UINT64_MAX)
		word++;
	table->first_free = word;
	if (caa_unlikely(word == table->array->length / WORD) && !table_grow(table))
		return -1;
	bit = __builtin_ctzll(~table->open[word]);
	table->open[word] |= UINT64_C(1) << bit;
	return word * WORD + bit;
}

/* Opens `file`, whose reference goes to the table. Returns the number, or -1. */
static inline long table_open(struct table *table, struct file *file)
{
	long number;

	pthread_mutex_lock(&table->lock);
	number = table_reserve(table);
	if (caa_likely(number >= 0))
		rcu_assign_pointer(table->array->slots[number], file);
	pthread_mutex_unlock(&table->lock);
	return number;
}

/* Finds the file of `number`, or NULL; inside of a section. */
static inline struct file *table_find(struct table *table, long number)
{
	struct array *array = rcu_dereference(table->array);

	if (caa_unlikely(number < 0 || number >= array->length))
		return NULL;
	return rcu_dereference(array->slots[number]);
}

/* Reads the file of `number` without a reference. */
static inline bool table_read(struct table *table, long number, uint64_t *value)
{
	struct file *file;
	bool found;

	rcu_read_lock();
	file = table_find(table, number);
	found = file != NULL;
	if (caa_likely(found))
		*value = file->value;
	rcu_read_unlock();
	return found;
}

/* Returns a reference to the file of `number`, or NULL. */
static inline struct file *table_get(struct table *table, long number)
{
	struct file *file;

	rcu_read_lock();
	file = table_find(table, number);
	if (caa_likely(file != NULL) && !urcu_ref_get_unless_zero(&file->references))
		file = NULL;
	rcu_read_unlock();
	return file;
}

/* Closes `number` and returns its reference, or NULL. */
static inline struct file *table_take(struct table *table, long number)
{
	struct file *file = NULL;

	pthread_mutex_lock(&table->lock);
	if (caa_likely(number >= 0 && number < table->array->length))
		file = table->array->slots[number];
	if (caa_likely(file != NULL)) {
		rcu_assign_pointer(table->array->slots[number], NULL);
		table->open[number / WORD] &= ~(UINT64_C(1) << number % WORD);
		if (number / WORD < table->first_free)
			table->first_free = number / WORD;
	}
	pthread_mutex_unlock(&table->lock);
	return file;
}

/* Closes `number` and drops its reference. */
static inline bool table_close(struct table *table, long number)
{
	struct file *file = table_take(table, number);

	if (file)
		file_put(file);
	return file != NULL;
}

/* Drops the numbers that the calling thread has reserved: none here. */
static inline void numbers_forget(void)
{
}

/* Closes everything and frees the table, which no other thread uses. */
static int table_free(struct table *table)
{
	for (long number = 0; number < table->array->length; number++)
		if (table->array->slots[number])
			urcu_ref_put(&table->array->slots[number]->references, file_free_at_once);
	free(table->array);
	free(table->open);
	pthread_mutex_destroy(&table->lock);
	free(table);
	return 0;
}

#endif
