/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a process under test: counts every call that changes something outside the process and kills
 * the process (SIGKILL, no handler can run) at a chosen one, before it, or with half of a write done.
 *
 *   boundary_arm(n, torn)  die at the n-th call from now on; 0 counts only
 *   boundary_count()       calls since boundary_arm
 *   boundary_log()         one letter a call: w write of SQLite, s its sync, k write to a kernel file (or what
 *                          stands for one), r its replacement, a move of a thread, i device ioctl, o other
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

static long armed, count;
static int torn;
static int active;
static char letters[1 << 16];

void boundary_arm(long n, int half)
{
    armed = n;
    torn = half;
    count = 0;
    active = 1;
    memset(letters, 0, sizeof letters);
}

long boundary_count(void)
{
    return count;
}

const char *boundary_log(void)
{
    return letters;
}

/* Returns whether this call is the one to die at. */
static int reached(char letter)
{
    if (!active)
        return 0;
    if (count < (long)sizeof letters - 1)
        letters[count] = letter;
    return ++count == armed;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SIMPLE(letter, type, name, parameters, arguments) \
    type name parameters                                  \
    {                                                     \
        if (reached(letter))                              \
            die();                                        \
        return REAL(name) arguments;                      \
    }

ssize_t write(int fd, const void *data, size_t size)
{
    if (fd > 2 && reached('k')) {
        struct statfs where;
        /* procfs and sysfs are handed a text in one piece or not at all; a plain file can be cut. */
        if (torn && !fstatfs(fd, &where) && where.f_type != 0x9fa0 && where.f_type != 0x62656572)
            REAL(write)(fd, data, size / 2);
        die();
    }
    return REAL(write)(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t place)
{
    if (reached('w')) {
        if (torn)
            REAL(pwrite64)(fd, data, size / 2, place);
        die();
    }
    return REAL(pwrite64)(fd, data, size, place);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t place)
{
    return pwrite64(fd, data, size, place);
}

SIMPLE('s', int, fsync, (int fd), (fd))
SIMPLE('s', int, fdatasync, (int fd), (fd))
SIMPLE('o', int, ftruncate, (int fd, off_t size), (fd, size))
SIMPLE('o', int, ftruncate64, (int fd, off64_t size), (fd, size))
SIMPLE('o', int, unlink, (const char *path), (path))
SIMPLE('o', int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags))
SIMPLE('r', int, rename, (const char *from, const char *to), (from, to))
SIMPLE('r', int, renameat, (int one, const char *from, int other, const char *to), (one, from, other, to))
SIMPLE('a', int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (pid, size, set))

int ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (request == 0x8946 /* SIOCETHTOOL, reads as well */ && reached('i'))
        die();
    return ((int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl"))(fd, request, argument);
}
