/*
 * liburcu's lock-free hash table, with the number as the key.
 *
 * A removed node must not be inserted again before a grace period, and a file can have several
 * numbers: so each descriptor is an entry of its own, which holds a reference to the file.
 */
#ifndef HASH_H
#define HASH_H

#include <urcu/rculfhash.h>

#include "file.h"
#include "numbers.h"

/* Initial number of buckets. The table grows by itself. */
#define BUCKETS 64
/* With a limit the library keeps its buckets in one mapping, which is fastest. */
#define MOST_BUCKETS (1UL << 22)

struct entry {
	struct cds_lfht_node node;
	long number;
	struct file *file;
	union {
		struct rcu_head head;
		/* Of a table that is being freed. */
		struct entry *next_removed;
	};
};

struct table {
	struct cds_lfht *hash;
	/* Numbers from here on were never allocated. */
	long next __attribute__((aligned(CAA_CACHE_LINE_SIZE)));
};

static struct table *table_with(unsigned long most_buckets)
{
	struct table *table = aligned_alloc(CAA_CACHE_LINE_SIZE, sizeof(*table));

	if (!table)
		return NULL;
	table->next = 0;
	table->hash = cds_lfht_new_flavor(BUCKETS, BUCKETS, most_buckets,
					  CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING,
					  &rcu_flavor, NULL);
	if (!table->hash) {
		free(table);
		return NULL;
	}
	return table;
}

static struct table *table_new(void)
{
	return table_with(MOST_BUCKETS);
}

/* Creates a table with as many and as large buckets, but in the heap, where they are counted: the
 * library puts them there if there is no limit. */
static struct table *table_new_in_heap(void)
{
	return table_with(0);
}

static int entry_has(struct cds_lfht_node *node, const void *number)
{
	return caa_container_of(node, struct entry, node)->number == *(const long *)number;
}

/* Finds an entry; inside of a section. Numbers are their own hash: no two share a bucket. */
static inline struct entry *table_find(struct table *table, long number)
{
	struct cds_lfht_iter found;
	struct cds_lfht_node *node;

	cds_lfht_lookup(table->hash, (unsigned long)number, entry_has, &number, &found);
	node = cds_lfht_iter_get_node(&found);
	return node ? caa_container_of(node, struct entry, node) : NULL;
}

/* Opens `file`, whose reference goes to the table. Returns the number, or -1. */
static inline long table_open(struct table *table, struct file *file)
{
	struct entry *entry = malloc(sizeof(*entry));

	if (!entry)
		return -1;
	entry->number = numbers_take(&table->next);
	if (entry->number < 0) {
		free(entry);
		return -1;
	}
	entry->file = file;
	cds_lfht_node_init(&entry->node);
	rcu_read_lock();
	cds_lfht_add(table->hash, (unsigned long)entry->number, &entry->node);
	rcu_read_unlock();
	return entry->number;
}

/* Reads the file of `number` without a reference. */
static inline bool table_read(struct table *table, long number, uint64_t *value)
{
	struct entry *entry;
	bool found;

	rcu_read_lock();
	entry = table_find(table, number);
	found = entry != NULL;
	if (caa_likely(found))
		*value = entry->file->value;
	rcu_read_unlock();
	return found;
}

/* Returns a reference to the file of `number`, or NULL. */
static inline struct file *table_get(struct table *table, long number)
{
	struct entry *entry;
	struct file *file = NULL;

	rcu_read_lock();
	entry = table_find(table, number);
	if (caa_likely(entry != NULL) && urcu_ref_get_unless_zero(&entry->file->references))
		file = entry->file;
	rcu_read_unlock();
	return file;
}

static void entry_free(struct rcu_head *head)
{
	free(caa_container_of(head, struct entry, head));
}

/* Removes the entry. Of concurrent calls only one succeeds. */
static inline struct entry *table_remove(struct table *table, long number)
{
	struct entry *entry;

	rcu_read_lock();
	entry = table_find(table, number);
	if (entry && cds_lfht_del(table->hash, &entry->node) != 0)
		entry = NULL;
	rcu_read_unlock();
	if (entry)
		numbers_give(number);
	return entry;
}

/* Closes `number` and returns its reference, or NULL. */
static inline struct file *table_take(struct table *table, long number)
{
	struct entry *entry = table_remove(table, number);
	struct file *file;

	if (!entry)
		return NULL;
	file = entry->file;
	call_rcu(&entry->head, entry_free);
	return file;
}

/* The entry has no readers any more, so the file needs no grace period of its own. */
static void entry_put(struct rcu_head *head)
{
	struct entry *entry = caa_container_of(head, struct entry, head);

	urcu_ref_put(&entry->file->references, file_free_at_once);
	free(entry);
}

/* Closes `number` and drops its reference: one callback for both. */
static inline bool table_close(struct table *table, long number)
{
	struct entry *entry = table_remove(table, number);

	if (entry)
		call_rcu(&entry->head, entry_put);
	return entry != NULL;
}

/* Closes everything and frees the table, which no other thread uses; but its resizing thread may
 * still be reading nodes. Blocks. */
static int table_free(struct table *table)
{
	struct cds_lfht_iter iter;
	struct entry *entry, *removed = NULL;
	int failed;

	rcu_read_lock();
	cds_lfht_for_each_entry(table->hash, &iter, entry, node) {
		if (cds_lfht_del(table->hash, &entry->node) != 0)
			continue;
		entry->next_removed = removed;
		removed = entry;
	}
	rcu_read_unlock();
	synchronize_rcu();
	while ((entry = removed)) {
		removed = entry->next_removed;
		entry_put(&entry->head);
	}
	/* It waits for the resizing thread, which waits for readers. */
	before_waiting();
	failed = cds_lfht_destroy(table->hash, NULL);
	after_waiting();
	free(table);
	numbers_forget();
	return failed;
}

#endif
