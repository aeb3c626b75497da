/*
 * Tables of liburcu beside ours: a program that answers requests, a line each.
 *
 *   sequence NTH PLACE...                  lookups of the nth thread from now on     ->  ok
 *   turn WORK THREADS OPEN LENGTH_NS ROUND                                           ->  ns X
 *   growth MOST                                     ->  tail MEDIAN_NS P9999_NS MAX_NS COUNT
 *   footprint LIVE                                                                   ->  bytes X
 *
 * The answer to any other request, or after a failure, is `error` and a sentence. The program ends
 * with its input. Build it with -DHASH for the hash table and without for the array, and with -DQSBR for that
 * flavour and without for memb, which is another library to link with.
 *
 * Read it in this order: flavour.h, file.h; hash.h with numbers.h, or array.h; work.h, turn.h and
 * size.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "size.h"

static struct sequence sequences[MOST_THREADS];

static void error(const char *what)
{
	printf("error %s\n", what);
}

/* Parses the remaining indices of the line. */
static bool read_places(struct sequence *sequence)
{
	const char *word;

	sequence->length = 0;
	while ((word = strtok(NULL, " "))) {
		long *grown = realloc(sequence->places, (sequence->length + 1) * sizeof(*grown));

		if (!grown)
			return false;
		sequence->places = grown;
		sequence->places[sequence->length++] = strtol(word, NULL, 10);
	}
	return sequence->length > 0;
}

/* Parses the next number of the line, which is at least `least`. */
static bool read_number(unsigned long least, unsigned long *number)
{
	const char *word = strtok(NULL, " ");
	char *end;

	if (!word)
		return false;
	errno = 0;
	*number = strtoul(word, &end, 10);
	return *end == '\0' && errno == 0 && *number >= least;
}

static void answer_sequence(void)
{
	unsigned long nth;

	if (!read_number(0, &nth) || nth >= MOST_THREADS || !read_places(&sequences[nth]))
		error("a sequence is a thread's number and some places");
	else
		printf("ok\n");
}

static void answer_turn(void)
{
	const char *name = strtok(NULL, " ");
	chunk *work = name ? work_of(name) : NULL;
	unsigned long threads, open, length_ns, round;
	double ns;

	if (!work || !read_number(1, &threads) || threads > MOST_THREADS ||
	    !read_number(1, &open) || !read_number(1, &length_ns) || !read_number(0, &round)) {
		error("a turn is work, threads, open descriptors, nanoseconds and a round");
		return;
	}
	for (unsigned long nth = 0; nth < threads; nth++) {
		if (sequences[nth].length == 0) {
			error("a thread has no sequence");
			return;
		}
	}
	ns = turn(work, threads, open, length_ns, round, sequences);
	if (ns < 0)
		error("the table returned a wrong result");
	else
		printf("ns %.4f\n", ns);
}

/* In some runs of the hash table with this flavour the library's resizing thread
 * is not woken, and the chains grow without end. With the other flavour the same code grows. */
#if defined(HASH) && defined(QSBR)
#define GROWS false
#else
#define GROWS true
#endif

static void answer_growth(void)
{
	unsigned long most;
	struct tail tail;

	if (!GROWS)
		puts("cannot");
	else if (!read_number(1, &most))
		error("growth is a number of descriptors");
	else if (!growth(most, &tail))
		error("an open failed");
	else
		printf("tail %llu %llu %llu %lu\n", (unsigned long long)tail.median_ns,
		       (unsigned long long)tail.p9999_ns, (unsigned long long)tail.max_ns,
		       tail.count);
}

static void answer_footprint(void)
{
	unsigned long live;
	double bytes;

	if (!read_number(1, &live)) {
		error("a footprint is a number of descriptors");
		return;
	}
	bytes = footprint(live);
	if (bytes < 0)
		error("an open failed");
	else
		printf("bytes %.4f\n", bytes);
}

static void answer(char *line)
{
	const char *request = strtok(line, " ");

	if (request && strcmp(request, "sequence") == 0)
		answer_sequence();
	else if (request && strcmp(request, "turn") == 0)
		answer_turn();
	else if (request && strcmp(request, "growth") == 0)
		answer_growth();
	else if (request && strcmp(request, "footprint") == 0)
		answer_footprint();
	else
		error("unknown request");
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	rcu_register_thread();
	for (;;) {
		before_waiting();
		length = getline(&line, &room, stdin);
		after_waiting();
		if (length < 0)
			break;
		line[strcspn(line, "\n")] = '\0';
		answer(line);
		fflush(stdout);
	}
	free(line);
	for (unsigned nth = 0; nth < MOST_THREADS; nth++)
		free(sequences[nth].places);
	rcu_unregister_thread();
	return 0;
}
