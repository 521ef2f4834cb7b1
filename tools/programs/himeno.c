/* SPDX-License-Identifier: Apache-2.0 */
/* himeno SIZE SECONDS PROCESSES: the Himeno benchmark's stencil, MFLOPS by its own count.
 * triad MIB SECONDS PROCESSES: memory bandwidth, a[i] = b[i] + s * c[i].
 *
 * Processes take slabs of one grid in shared memory. Before anything is timed, the residual of the third sweep is
 * worked out on the grid that all processes made together, twice: in single precision in the order of the published
 * program, where a compiler or flags that change the arithmetic show; and in double precision, which any number of
 * slabs must add up to. In single precision the sum of a large grid stalls (that of L at 2^-11, below a squared
 * correction's last bit), so that slabs would add up to more than the whole.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define SIZE XS
#define NI 32
#define NJ 32
#define NK 64
#include "himeno_kernel.h"
#define SIZE S
#define NI 64
#define NJ 64
#define NK 128
#include "himeno_kernel.h"
#define SIZE M
#define NI 128
#define NJ 128
#define NK 256
#include "himeno_kernel.h"
#define SIZE L
#define NI 256
#define NJ 256
#define NK 512
#include "himeno_kernel.h"

struct size {
    const char *name;
    int ni, nj, nk;
    size_t bytes;
    /* Residual of the third sweep in single precision, no reordering (M is what the published programs print), and in
     * double precision. */
    double in_order, exact;
    void (*fill)(void *, int, int);
    double (*sweep)(void *, int, int);
    double (*sweep_in_double)(void *, int, int);
    void (*take)(void *, int, int);
};

static const struct size sizes[] = {
    {"XS", 32, 32, 64, sizeof(struct grid_XS), 6.227474e-03, 6.229796e-03, fill_XS, sweep_XS, exact_XS, take_XS},
    {"S", 64, 64, 128, sizeof(struct grid_S), 3.288628e-03, 3.296794e-03, fill_S, sweep_S, exact_S, take_S},
    {"M", 128, 128, 256, sizeof(struct grid_M), 1.733593e-03, 1.693459e-03, fill_M, sweep_M, exact_M, take_M},
    {"L", 256, 256, 512, sizeof(struct grid_L), 4.882812e-04, 8.606862e-04, fill_L, sweep_L, exact_L, take_L},
};
#define TOLERANCE 1e-5

struct run {
    const struct size *size;
    void *grid;
    struct barrier *barrier;
    int processes;
    double seconds;
    /* Written by the first child. */
    struct shared {
        volatile int stop;
        double elapsed, in_order, third[MAX_PROCESSES], last[MAX_PROCESSES];
        long sweeps;
    } *shared;
};

static void one_sweep(struct run *run, int from, int to)
{
    run->size->sweep(run->grid, from, to);
    meet(run->barrier);
    run->size->take(run->grid, from, to);
    meet(run->barrier);
}

static double added_up(const double *slabs, int processes)
{
    double sum = 0;
    for (int at = 0; at < processes; at++)
        sum += slabs[at];
    return sum;
}

static void compute(int number, void *context)
{
    struct run *run = context;
    const struct size *size = run->size;
    int inner = size->ni - 2;
    int from = 1 + (int)((long)inner * number / run->processes);
    int to = 1 + (int)((long)inner * (number + 1) / run->processes);
    size->fill(run->grid, number ? from : 0, number == run->processes - 1 ? size->ni : to);
    meet(run->barrier);
    one_sweep(run, from, to);
    one_sweep(run, from, to);
    if (number == 0)
        run->shared->in_order = size->sweep(run->grid, 1, size->ni - 1);
    meet(run->barrier); /* both write the same into wrk2, but not at the same time */
    run->shared->third[number] = size->sweep_in_double(run->grid, from, to);
    meet(run->barrier);
    double begun = now();
    long sweeps = 0;
    do {
        one_sweep(run, from, to);
        sweeps++;
        if (number == 0)
            run->shared->stop = now() - begun >= run->seconds;
        meet(run->barrier);
    } while (!run->shared->stop);
    if (number == 0) {
        run->shared->elapsed = now() - begun;
        run->shared->sweeps = sweeps;
    }
    run->shared->last[number] = size->sweep_in_double(run->grid, from, to);
}

static void check(const char *what, double found, double wanted)
{
    if (!(fabs(found / wanted - 1) <= TOLERANCE)) /* a NaN fails here */
        fail("himeno: wrong build: the residual %s is %.6e, not %.6e", what, found, wanted);
}

int run_himeno(int argc, char **argv)
{
    const struct size *size = NULL;
    for (size_t at = 0; argc == 4 && at < sizeof sizes / sizeof *sizes; at++)
        if (!strcmp(argv[1], sizes[at].name))
            size = &sizes[at];
    if (!size) {
        fputs("usage: nova-perf-bench himeno XS|S|M|L SECONDS PROCESSES\n", stderr);
        return 2;
    }
    struct run run = {.size = size, .seconds = (double)whole("SECONDS", argv[2], 1, 3600)};
    run.processes = (int)whole("PROCESSES", argv[3], 1, size->ni - 2);
    run.grid = shared_memory(size->bytes);
    run.shared = shared_memory(sizeof *run.shared);
    run.barrier = new_barrier(run.processes);
    in_children(run.processes, compute, &run);
    double third = added_up(run.shared->third, run.processes), last = added_up(run.shared->last, run.processes);
    check("after three sweeps", run.shared->in_order, size->in_order);
    check("after three sweeps in double precision", third, size->exact);
    /* 0: a small grid on a fast machine has converged to the last bit; a NaN fails here. */
    if (!(last >= 0 && last <= third * (1 + TOLERANCE)))
        fail("himeno: the residual grew from %.6e to %.6e", third, last);
    double points = (double)(size->ni - 2) * (size->nj - 2) * (size->nk - 2);
    double flop = 34 * points * (double)run.shared->sweeps;
    printf("{\"benchmark\": \"himeno\", \"size\": \"%s\", \"processes\": %d, \"sweeps\": %ld, \"seconds\": %.6f,"
           " \"mflops\": %.3f, \"gflop\": %.6f, \"residual\": %.6e,"
           " \"residual_double\": %.6e, \"last_residual\": %.6e}\n",
           size->name, run.processes, run.shared->sweeps, run.shared->elapsed, flop / run.shared->elapsed / 1e6, flop / 1e9,
           run.shared->in_order, third, last);
    return 0;
}

struct triad {
    size_t length;
    double *a, *b, *c;
    struct barrier *barrier;
    int processes;
    double seconds;
    struct {
        volatile int stop;
        double elapsed, best;
        long passes;
    } *shared;
};

static void stream(int number, void *context)
{
    struct triad *run = context;
    size_t from = run->length * (size_t)number / (size_t)run->processes;
    size_t to = run->length * ((size_t)number + 1) / (size_t)run->processes;
    double *restrict a = run->a, *restrict b = run->b, *restrict c = run->c;
    for (size_t i = from; i < to; i++)
        a[i] = 0, b[i] = 2, c[i] = 0.5;
    meet(run->barrier);
    double begun = now(), last = begun, best = 1e9;
    long passes = 0;
    do {
        for (size_t i = from; i < to; i++)
            a[i] = b[i] + 3.0 * c[i];
        __asm__ volatile("" : : "r"(a) : "memory"); /* every pass counts, none is merged with another */
        meet(run->barrier);
        passes++;
        if (number == 0) {
            double ended = now();
            if (ended - last < best)
                best = ended - last;
            last = ended;
            run->shared->stop = ended - begun >= run->seconds;
        }
        meet(run->barrier);
    } while (!run->shared->stop);
    for (size_t i = from; i < to; i++)
        if (a[i] != 3.5)
            fail("triad: wrong result");
    if (number == 0) {
        run->shared->elapsed = now() - begun;
        run->shared->best = best;
        run->shared->passes = passes;
    }
}

int run_triad(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: nova-perf-bench triad MIB SECONDS PROCESSES\n", stderr);
        return 2;
    }
    size_t mib = (size_t)whole("MIB", argv[1], 1, 1 << 20);
    struct triad run = {.length = (mib << 20) / sizeof(double), .seconds = (double)whole("SECONDS", argv[2], 1, 3600)};
    run.processes = (int)whole("PROCESSES", argv[3], 1, MAX_PROCESSES);
    run.a = shared_memory(3 * run.length * sizeof(double));
    run.b = run.a + run.length;
    run.c = run.b + run.length;
    run.shared = shared_memory(sizeof *run.shared);
    run.barrier = new_barrier(run.processes);
    in_children(run.processes, stream, &run);
    double bytes = 24.0 * (double)run.length;
    printf("{\"benchmark\": \"triad\", \"array_mib\": %zu, \"processes\": %d, \"passes\": %ld, \"seconds\": %.6f,"
           " \"mb_per_second\": %.3f, \"best_mb_per_second\": %.3f, \"gigabytes\": %.6f}\n",
           mib, run.processes, run.shared->passes, run.shared->elapsed,
           bytes * (double)run.shared->passes / run.shared->elapsed / 1e6, bytes / run.shared->best / 1e6,
           bytes * (double)run.shared->passes / 1e9);
    return 0;
}
