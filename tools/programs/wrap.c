/* SPDX-License-Identifier: Apache-2.0 */
/* fan COUNT FIRST PROGRAM ARGUMENT...: runs a program so many times side by side, each with a port of its own, and
 *     prints their outputs (JSON objects) as one list.
 * copy FILE MEGABYTES RUNS PROGRAM ARGUMENT... [--before LAST]: makes a file that does not compress and times a program
 *     that copies it, after one run with LAST in place of its last argument, which is not timed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define MAX_COPIES 64

static pid_t start(char **argv, int output)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(output, 1);
        execvp(argv[0], argv);
        fprintf(stderr, "nova-perf-bench: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        fail("wait: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void pass_on(FILE *file)
{
    char block[65536];
    size_t got;
    rewind(file);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        fwrite(block, 1, got, stdout);
}

int run_fan(int argc, char **argv)
{
    FILE *outputs[MAX_COPIES];
    pid_t pids[MAX_COPIES];
    if (argc < 4) {
        fputs("usage: nova-perf-bench fan COUNT FIRST PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    int count = (int)whole("COUNT", argv[1], 1, MAX_COPIES), worst = 0;
    long first = whole("FIRST", argv[2], 1, 65536 - count);
    for (int at = 0; at < count; at++) {
        char port[12];
        char **copy = calloc((size_t)argc, sizeof *copy);
        outputs[at] = tmpfile();
        if (!copy || !outputs[at])
            fail("temporary file: %s", strerror(errno));
        snprintf(port, sizeof port, "%ld", first + at);
        for (int word = 3; word < argc; word++)
            copy[word - 3] = strcmp(argv[word], "@PORT@") ? argv[word] : port;
        pids[at] = start(copy, fileno(outputs[at]));
        free(copy);
    }
    for (int at = 0; at < count; at++) {
        int status = status_of(pids[at]);
        if (status > worst)
            worst = status;
    }
    printf("{\"outputs\": [");
    for (int at = 0; at < count; at++) {
        if (at)
            putchar(',');
        pass_on(outputs[at]);
    }
    puts("]}");
    return worst;
}

/* Bytes of a xorshift generator: they neither compress nor repeat. */
static void fill(const char *name, size_t bytes)
{
    static uint64_t block[8192];
    struct stat found;
    uint64_t state = 88172645463325252ull;
    if (!stat(name, &found) && S_ISREG(found.st_mode) && (size_t)found.st_size == bytes)
        return;
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        fail("%s: %s", name, strerror(errno));
    for (size_t done = 0; done < bytes;) {
        size_t wanted = bytes - done < sizeof block ? bytes - done : sizeof block;
        for (size_t at = 0; at < sizeof block / sizeof *block; at++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block[at] = state;
        }
        ssize_t written = write(file, block, wanted);
        if (written <= 0)
            fail("%s: %s", name, written < 0 ? strerror(errno) : "cut short");
        done += (size_t)written;
    }
    fsync(file);
    close(file);
}

int run_copy(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: nova-perf-bench copy FILE MEGABYTES RUNS PROGRAM ARGUMENT... [--before LAST]\n", stderr);
        return 2;
    }
    size_t bytes = (size_t)whole("MEGABYTES", argv[2], 1, 1000000) * 1000000;
    int runs = (int)whole("RUNS", argv[3], 1, 1000);
    fill(argv[1], bytes);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    double *seconds = calloc((size_t)runs, sizeof *seconds);
    if (!seconds || nowhere < 0)
        fail("no memory");
    char *last = NULL;
    if (argc > 7 && !strcmp(argv[argc - 2], "--before")) {
        last = argv[argc - 3];
        argv[argc - 3] = argv[argc - 1];
        argv[argc - 2] = NULL;
    }
    for (int at = last ? -1 : 0; at < runs; at++) {
        double begun = now();
        int status = status_of(start(argv + 4, nowhere));
        if (status) {
            fprintf(stderr, "nova-perf-bench: copy: %s ended with status %d\n", argv[4], status);
            return status;
        }
        if (at < 0)
            argv[argc - 3] = last;
        else
            seconds[at] = now() - begun;
    }
    printf("{\"benchmark\": \"copy\", \"bytes\": %zu, \"seconds\": [", bytes);
    for (int at = 0; at < runs; at++)
        printf("%s%.6f", at ? ", " : "", seconds[at]);
    puts("]}");
    return 0;
}
