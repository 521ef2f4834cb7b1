/* SPDX-License-Identifier: Apache-2.0 */
/* system SECONDS TEST...: what the kernel does for programs, operations per second, one test after the other.
 *
 * Each test runs for SECONDS in this process, or in one child where the operation is a process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static const char *self;

/* Operations between two looks at the clock. */
#define BATCH 256

static double syscalls(double seconds)
{
    long done = 0;
    double begun = now(), ended;
    do {
        for (int at = 0; at < BATCH; at++)
            syscall(SYS_getppid);
        done += BATCH;
        ended = now();
    } while (ended - begun < seconds);
    return (double)done / (ended - begun);
}

static void transfer(ssize_t moved, size_t wanted, const char *what)
{
    if (moved != (ssize_t)wanted)
        fail("%s: %s", what, moved < 0 ? strerror(errno) : "cut short");
}

/* 512 bytes written into a pipe and read back by the same process. */
static double pipes(double seconds)
{
    char block[512] = {0};
    int ends[2];
    if (pipe(ends))
        fail("pipe: %s", strerror(errno));
    long done = 0;
    double begun = now(), ended;
    do {
        for (int at = 0; at < BATCH; at++) {
            transfer(write(ends[1], block, sizeof block), sizeof block, "pipe");
            transfer(read(ends[0], block, sizeof block), sizeof block, "pipe");
        }
        done += BATCH;
        ended = now();
    } while (ended - begun < seconds);
    close(ends[0]);
    close(ends[1]);
    return (double)done / (ended - begun);
}

/* A number passed to and fro between two processes: two switches per round, rounds are counted. */
static double switches(double seconds)
{
    int there[2], back[2];
    long token = 0, done = 0;
    if (pipe(there) || pipe(back))
        fail("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid == 0) {
        close(there[1]);
        close(back[0]);
        while (read(there[0], &token, sizeof token) == (ssize_t)sizeof token)
            if (write(back[1], &token, sizeof token) != (ssize_t)sizeof token)
                break;
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    double begun = now(), ended;
    do {
        token = done;
        transfer(write(there[1], &token, sizeof token), sizeof token, "context");
        transfer(read(back[0], &token, sizeof token), sizeof token, "context");
        if (token != done++)
            fail("context: another number came back");
        ended = now();
    } while (ended - begun < seconds);
    close(there[1]);
    close(back[0]);
    waitpid(pid, NULL, 0);
    return (double)done / (ended - begun);
}

static void reap(pid_t pid, const char *what)
{
    int status;
    if (pid < 0)
        fail("%s: fork: %s", what, strerror(errno));
    if (waitpid(pid, &status, 0) != pid || status)
        fail("%s: a child failed (status %d)", what, status);
}

static double processes(double seconds)
{
    long done = 0;
    double begun = now(), ended;
    do {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        reap(pid, "process");
        done++;
        ended = now();
    } while (ended - begun < seconds);
    return (double)done / (ended - begun);
}

/* Programs started one after the other; each is this program with nothing to do. */
static double programs(double seconds)
{
    long done = 0;
    double begun = now(), ended;
    do {
        pid_t pid;
        char *argv[] = {"nova-perf-bench", "system", "0", NULL};
        if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
            fail("exec: %s cannot be started", self);
        reap(pid, "exec");
        done++;
        ended = now();
    } while (ended - begun < seconds);
    return (double)done / (ended - begun);
}

/* A file of so many blocks copied again and again, through the page cache; bytes copied per second. */
static double copies(double seconds, size_t block_size, int blocks)
{
    char from_name[] = "nova-perf-from.XXXXXX", to_name[] = "nova-perf-to.XXXXXX", block[4096];
    int from = mkstemp(from_name), to = mkstemp(to_name);
    if (from < 0 || to < 0)
        fail("copy: a file cannot be made here: %s", strerror(errno));
    unlink(from_name);
    unlink(to_name);
    memset(block, 'x', sizeof block);
    for (int at = 0; at < blocks; at++)
        transfer(write(from, block, block_size), block_size, "copy");
    long done = 0;
    double begun = now(), ended;
    do {
        lseek(from, 0, SEEK_SET);
        lseek(to, 0, SEEK_SET);
        for (int at = 0; at < blocks; at++) {
            transfer(read(from, block, block_size), block_size, "copy");
            transfer(write(to, block, block_size), block_size, "copy");
        }
        done += blocks;
        ended = now();
    } while (ended - begun < seconds);
    close(from);
    close(to);
    return (double)done * (double)block_size / (ended - begun);
}

static double copy256(double seconds) { return copies(seconds, 256, 500); }
static double copy1024(double seconds) { return copies(seconds, 1024, 2000); }
static double copy4096(double seconds) { return copies(seconds, 4096, 8000); }

/* Small scripts, run by the same shell and tools on host and guest: busybox. */
static double scripts(double seconds)
{
    static const char script[] =
        "busybox seq 200 | busybox sort -r | busybox tee nova-perf-script.$$ | busybox wc -l >/dev/null\n"
        "busybox grep -c 1 nova-perf-script.$$ >/dev/null\n"
        "busybox rm nova-perf-script.$$\n";
    long done = 0;
    double begun = now(), ended;
    do {
        pid_t pid;
        char *argv[] = {"busybox", "sh", "-e", "-c", (char *)script, NULL};
        if (posix_spawnp(&pid, "busybox", NULL, NULL, argv, environ))
            fail("shell: there is no busybox on this machine; install the package busybox-static");
        reap(pid, "shell");
        done++;
        ended = now();
    } while (ended - begun < seconds);
    return (double)done / (ended - begun);
}

static const struct {
    const char *name;
    double (*run)(double);
} tests[] = {
    {"syscall", syscalls}, {"pipe", pipes},         {"context", switches},  {"process", processes}, {"exec", programs},
    {"copy_256", copy256}, {"copy_1024", copy1024}, {"copy_4096", copy4096}, {"shell", scripts},
};

int run_system(int argc, char **argv)
{
    static char path[PATH_MAX];
    if (argc == 2 && !strcmp(argv[1], "0"))
        return 0; /* the program that the test of exec starts */
    if (argc < 3) {
        fputs("usage: nova-perf-bench system SECONDS TEST...\ntests:", stderr);
        for (size_t at = 0; at < sizeof tests / sizeof *tests; at++)
            fprintf(stderr, " %s", tests[at].name);
        fputc('\n', stderr);
        return 2;
    }
    double seconds = (double)whole("SECONDS", argv[1], 1, 3600);
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        fail("/proc/self/exe: %s", strerror(errno));
    self = path;
    printf("{\"benchmark\": \"system\", \"seconds\": %.0f, \"rates\": {", seconds);
    for (int wanted = 2; wanted < argc; wanted++) {
        size_t at = 0;
        while (at < sizeof tests / sizeof *tests && strcmp(argv[wanted], tests[at].name))
            at++;
        if (at == sizeof tests / sizeof *tests) {
            fprintf(stderr, "nova-perf-bench: there is no test '%.40s'\n", argv[wanted]);
            return 2;
        }
        fflush(stdout);
        double rate = tests[at].run(seconds);
        printf("%s\"%s\": %.3f", wanted > 2 ? ", " : "", tests[at].name, rate);
    }
    puts("}}");
    return 0;
}
