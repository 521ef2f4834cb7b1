/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of nova-perf-bench share. */
#ifndef COMMON_H
#define COMMON_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_PROCESSES 1024

/* Ends the program: one line on stderr, status 3. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* CLOCK_MONOTONIC in seconds. */
double now(void);

/* A whole number from low to high, or the end of the program naming the argument. */
long whole(const char *name, const char *text, long low, long high);

/* Memory that children share, filled with zeros; refuses what the machine does not have. */
void *shared_memory(size_t bytes);

/* Of a child: it is killed when its parent ends, however that was. */
void end_with(pid_t parent);

/* Runs work(number, context) in so many children side by side; fails when one of them does. */
void in_children(int count, void (*work)(int number, void *context), void *context);

/* A barrier between the children of in_children: sleeps, does not spin. */
struct barrier;
struct barrier *new_barrier(int count);
void meet(struct barrier *barrier);

/* Latencies in buckets of 1/64 of a power of two (at most 1.6 % wide). */
#define BUCKETS (64 * 40)
struct histogram {
    uint64_t count, sum_ns, max_ns;
    uint64_t bucket[BUCKETS];
};
void add_latency(struct histogram *histogram, uint64_t ns);
void merge_latencies(struct histogram *to, const struct histogram *from);
double quantile_us(const struct histogram *histogram, double share);

int run_system(int argc, char **argv);
int run_himeno(int argc, char **argv);
int run_triad(int argc, char **argv);
int run_serve(int argc, char **argv);
int run_request(int argc, char **argv);
int run_connect(int argc, char **argv);
int run_fan(int argc, char **argv);
int run_copy(int argc, char **argv);
#endif
