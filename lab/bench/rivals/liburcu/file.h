/* An open file: an object of 64 bytes, held by counted references. */
#ifndef FILE_H
#define FILE_H

#include <stdint.h>
#include <stdlib.h>

#include "flavour.h"

struct file {
	struct urcu_ref references;
	struct rcu_head head;
	uint64_t value;
	uint64_t rest_of_the_object[7];
};

/* Returns a file with one reference, or NULL. */
static inline struct file *file_new(uint64_t value)
{
	struct file *file = malloc(sizeof(*file));

	if (!file)
		return NULL;
	urcu_ref_init(&file->references);
	file->value = value;
	return file;
}

static void file_free(struct rcu_head *head)
{
	free(caa_container_of(head, struct file, head));
}

/* Frees the file after all of its readers. */
static void file_free_later(struct urcu_ref *references)
{
	struct file *file = caa_container_of(references, struct file, references);

	call_rcu(&file->head, file_free);
}

/* Frees the file at once; it has no readers. */
static void file_free_at_once(struct urcu_ref *references)
{
	free(caa_container_of(references, struct file, references));
}

static inline void file_put(struct file *file)
{
	urcu_ref_put(&file->references, file_free_later);
}

#endif
