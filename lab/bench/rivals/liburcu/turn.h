/* The turn of a case: threads that do the same work for some milliseconds, each on its own CPU. */
#ifndef TURN_H
#define TURN_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "work.h"

#define MOST_THREADS 2

/* Lookups of a thread: indices in the order in which the descriptors were opened. */
struct sequence {
	long *places;
	unsigned long length;
};

struct share {
	pthread_t thread;
	unsigned nth;
	chunk *work;
	struct worker worker;
	pthread_barrier_t *start;
	uint64_t length_ns, began_ns, ended_ns;
	unsigned long operations;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static unsigned cpus(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) ? 1 : CPU_COUNT(&allowed);
}

/* Binds the calling thread to the `nth` of the CPUs that it may use. Continues after a failure. */
static void pin(unsigned nth)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* Runs one thread's part. The first chunk warms it, and checks the results of the table. */
static void *take_part(void *argument)
{
	struct share *share = argument;
	unsigned long done;

	pin(share->nth);
	rcu_register_thread();
	done = share->work(&share->worker);
	before_waiting();
	pthread_barrier_wait(share->start);
	after_waiting();
	share->began_ns = share->ended_ns = now_ns();
	while (done > 0 && share->ended_ns - share->began_ns < share->length_ns) {
		done = share->work(&share->worker);
		share->operations += done;
		share->ended_ns = now_ns();
	}
	if (done == 0)
		share->operations = 0;
	rcu_unregister_thread();
	numbers_forget();
	return NULL;
}

/* Opens `count` descriptors, whose files have their index. */
static bool fill(struct table *table, long *descriptors, long count)
{
	for (long place = 0; place < count; place++) {
		struct file *file = file_new(place);

		descriptors[place] = file ? table_open(table, file) : -1;
		if (descriptors[place] < 0)
			return false;
	}
	return true;
}

/* Translates indices to descriptors, and creates a file to open. Each round starts at another
 * position. */
static bool prepare(struct worker *worker, bool opens, const struct sequence *sequence,
		    const long *descriptors, long count, unsigned long round)
{
	unsigned long length = sequence->length;
	long *own = malloc((length + 1) * sizeof(*own));

	worker->sequence = own;
	worker->length = length;
	worker->sum = 0;
	worker->file = opens ? file_new(0) : NULL;
	if (!own || (opens && !worker->file))
		return false;
	for (unsigned long i = 0; i < length; i++) {
		long place = sequence->places[(i + round * 61) % length];

		if (place < 0 || place >= count)
			return false;
		own[i] = descriptors[place];
		worker->sum += place;
	}
	return true;
}

/* Nanoseconds per operation and busy CPU, or a negative number after a wrong result. */
static double cost(const struct share *shares, unsigned threads)
{
	uint64_t began = UINT64_MAX, ended = 0;
	unsigned long operations = 0;
	unsigned busy = threads < cpus() ? threads : cpus();

	for (unsigned nth = 0; nth < threads; nth++) {
		if (shares[nth].operations == 0)
			return -1;
		began = shares[nth].began_ns < began ? shares[nth].began_ns : began;
		ended = shares[nth].ended_ns > ended ? shares[nth].ended_ns : ended;
		operations += shares[nth].operations;
	}
	return (double)(ended - began) * busy / operations;
}

/* Runs all threads on a table, and waits for them. */
static double run(struct share *shares, unsigned threads)
{
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned nth = 0; nth < threads; nth++) {
		shares[nth].start = &start;
		if (pthread_create(&shares[nth].thread, NULL, take_part, &shares[nth])) {
			/* The threads that are ready would wait forever. */
			fprintf(stderr, "no thread can be created\n");
			exit(1);
		}
	}
	before_waiting();
	for (unsigned nth = 0; nth < threads; nth++)
		pthread_join(shares[nth].thread, NULL);
	after_waiting();
	pthread_barrier_destroy(&start);
	return cost(shares, threads);
}

/* Does the work on a new table with `open` descriptors. Memory that waits for readers is freed
 * after the clock has stopped. */
static double turn(chunk *work, unsigned threads, long open, uint64_t length_ns,
		   unsigned long round, const struct sequence *sequences)
{
	struct table *table = table_new();
	long *descriptors = malloc((open + 1) * sizeof(*descriptors));
	struct share shares[MOST_THREADS] = { 0 };
	bool ready = table && descriptors && fill(table, descriptors, open);
	/* Lookups have nothing to free later. */
	bool opens = work != borrowed && work != owned;
	double ns = -1;

	for (unsigned nth = 0; ready && nth < threads; nth++) {
		shares[nth] = (struct share){ .nth = nth, .work = work, .length_ns = length_ns };
		shares[nth].worker.table = table;
		ready = prepare(&shares[nth].worker, opens, &sequences[nth], descriptors, open,
				round);
	}
	if (ready)
		ns = run(shares, threads);
	for (unsigned nth = 0; nth < threads; nth++) {
		free((void *)shares[nth].worker.sequence);
		if (shares[nth].worker.file)
			file_put(shares[nth].worker.file);
	}
	/* Callbacks must not run in the turn of another. */
	if (opens)
		rcu_barrier();
	free(descriptors);
	if (table && table_free(table) != 0)
		ns = -1;
	return ns;
}

#endif
