/* SPDX-License-Identifier: Apache-2.0 */
/* nova-perf-bench: small benchmark programs in one static file, so that host and guest run the very same code.
 *
 * Each part prints one JSON object on stdout. Status 2: wrong arguments; 3: it could not be measured, with one line
 * on stderr. Built by tools/programs/build with fixed flags.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("nova-perf-bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(3);
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

long whole(const char *name, const char *text, long low, long high)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) {
        fprintf(stderr, "nova-perf-bench: %s '%.40s' must be a whole number from %ld to %ld\n", name, text, low, high);
        exit(2);
    }
    return value;
}

static size_t available_memory(void)
{
    char line[200];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        return SIZE_MAX;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1)
            break;
    fclose(file);
    return kib ? (size_t)kib << 10 : SIZE_MAX;
}

void *shared_memory(size_t bytes)
{
    if (bytes > available_memory())
        fail("%zu MiB of memory are needed, %zu MiB are available", bytes >> 20, available_memory() >> 20);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory: %s", strerror(errno));
    return memory;
}

void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
}

void in_children(int count, void (*work)(int, void *), void *context)
{
    fflush(NULL);
    for (int number = 0; number < count; number++) {
        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
            fail("fork: %s", strerror(errno));
        if (pid == 0) {
            end_with(parent); /* one that fails must not leave the others waiting for it */
            work(number, context);
            exit(0);
        }
    }
    for (int number = 0; number < count; number++) {
        int status;
        if (wait(&status) < 0)
            fail("wait: %s", strerror(errno));
        if (status)
            exit(3); /* it has printed why */
    }
}

struct barrier {
    pthread_barrier_t barrier;
};

struct barrier *new_barrier(int count)
{
    struct barrier *made = shared_memory(sizeof *made);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&made->barrier, &attributes, (unsigned)count);
    return made;
}

void meet(struct barrier *barrier)
{
    pthread_barrier_wait(&barrier->barrier);
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 64)
        return (unsigned)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns) - 6u;
    unsigned found = (power + 1) * 64 + (unsigned)((ns >> power) - 64);
    return found < BUCKETS ? found : BUCKETS - 1;
}

void add_latency(struct histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->sum_ns += ns;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
    histogram->bucket[bucket_of(ns)]++;
}

void merge_latencies(struct histogram *to, const struct histogram *from)
{
    to->count += from->count;
    to->sum_ns += from->sum_ns;
    if (from->max_ns > to->max_ns)
        to->max_ns = from->max_ns;
    for (unsigned at = 0; at < BUCKETS; at++)
        to->bucket[at] += from->bucket[at];
}

double quantile_us(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * share), seen = 0;
    for (unsigned at = 0; at < BUCKETS; at++) {
        seen += histogram->bucket[at];
        if (seen > wanted) {
            if (at < 64)
                return (at + 0.5) / 1e3;
            unsigned power = at / 64 - 1;
            double middle = ((double)(at % 64) + 64.5) * (double)(1ull << power);
            double most = (double)histogram->max_ns;
            return (middle < most ? middle : most) / 1e3;
        }
    }
    return (double)histogram->max_ns / 1e3;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *arguments;
        int (*run)(int, char **);
    } parts[] = {
        {"system", "SECONDS TEST...", run_system},
        {"himeno", "SIZE SECONDS PROCESSES", run_himeno},
        {"triad", "MIB SECONDS PROCESSES", run_triad},
        {"serve", "ADDRESS PORT", run_serve},
        {"request", "tcp|udp ADDRESS PORT SECONDS CONNECTIONS BYTES", run_request},
        {"connect", "ADDRESS PORT SECONDS PROCESSES", run_connect},
        {"fan", "COUNT FIRST PROGRAM ARGUMENT...   (@PORT@ becomes FIRST, FIRST + 1, ...)", run_fan},
        {"copy", "FILE MEGABYTES RUNS PROGRAM ARGUMENT... [--before LAST]", run_copy},
    };
    signal(SIGPIPE, SIG_IGN);
    for (size_t at = 0; argc > 1 && at < sizeof parts / sizeof *parts; at++)
        if (!strcmp(argv[1], parts[at].name))
            return parts[at].run(argc - 1, argv + 1);
    fputs("usage:\n", stderr);
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
        fprintf(stderr, "  nova-perf-bench %s %s\n", parts[at].name, parts[at].arguments);
    return 2;
}
