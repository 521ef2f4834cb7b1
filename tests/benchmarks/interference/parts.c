// SPDX-License-Identifier: Apache-2.0
/* The guest and the loads of the benchmark "interference". Each obeys lines on standard input:
 *
 *   work [PAUSE_NS], rest   begin its load, with this time from piece to piece, and end it
 *   begin, end              one window; at its end a line of JSON says what was done in it
 *
 *   parts guest CPU                            a vCPU that is always busy, and an emulator thread
 *   parts packets NAMESPACE DEVICE ADDRESS PORT PAUSE_NS FRAMES
 *                                              send datagrams from there through a veth, and receive
 *   parts tcp NAMESPACE STREAMS ADDRESS PORT PAUSE_NS BYTES
 *                                              send BYTES a stream from there, and receive
 *   parts write FILE PAUSE_NS BYTES            write, and wait until the kernel has written it back
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_STEPS = 60000, EMULATOR_EVENTS = 2, MOST_EVENTS = 1 << 20, MOST_FRAMES = 64 };
enum { GUEST_CPU = 1 };              /* as placements.py has it */
enum { IDLE, BEGIN, MEASURE, END };
/* The guest's events take turns: one calculates, the next reads and writes
   lines of 1 MiB. Of 4 MiB it took up to twice as long without any load: other machines share
   the cache that has room for them. */
enum { CALCULATE, TOUCH, KINDS };
enum { LINES = 1 << 14, TOUCHED_LINES = 4096 };

static uint64_t done, offered;      /* of the load, in this window */
static char *bytes;                 /* a piece of the load */
static long length;
static volatile uint64_t spent;     /* keeps the compiler from dropping the work */

/* The vCPU's: how long each event of a kind took, in ns. */
static atomic_int phase = IDLE;
static uint32_t *durations[KINDS];
static uint64_t events[KINDS];
static struct line {
    uint32_t next, visits;
    char rest[56];
} *lines;
static sem_t ended;
static int vcpu_cpu, vcpu_tid;

static void require(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(3);
    }
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* One event: a chain of multiplications that is as long every time. */
static void spend(void)
{
    uint64_t value = spent;
    for (int step = 0; step < EVENT_STEPS; step++)
        value = value * 6364136223846793005ull + 1442695040888963407ull;
    spent = value;
}

/* One ring of all lines in an order by chance, so that no line can be read ahead (Sattolo). */
static void make_lines(void)
{
    lines = aligned_alloc(sizeof *lines, LINES * sizeof *lines);
    require(!!lines, "aligned_alloc");
    for (uint32_t at = 0; at < LINES; at++)
        lines[at] = (struct line){.next = at};
    unsigned seed = 1;
    for (uint32_t at = LINES - 1; at > 0; at--) {
        uint32_t other = rand_r(&seed) % at, next = lines[at].next;
        lines[at].next = lines[other].next;
        lines[other].next = next;
    }
}

static void touch(void)
{
    static uint32_t at;
    for (int step = 0; step < TOUCHED_LINES; step++) {
        at = lines[at].next;
        lines[at].visits++;
    }
}

static void *vcpu(void *unused)
{
    (void)unused;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(vcpu_cpu, &cpus);
    require(!sched_setaffinity(0, sizeof cpus, &cpus), "sched_setaffinity");
    prctl(PR_SET_NAME, "CPU 0/KVM");
    vcpu_tid = syscall(SYS_gettid);
    sem_post(&ended);
    uint64_t begun = now();
    for (int kind = CALCULATE;; kind = kind == CALCULATE ? TOUCH : CALCULATE) {
        if (kind == CALCULATE)
            spend();
        else
            touch();
        uint64_t time = now();
        int wanted = atomic_load(&phase);
        if (wanted == BEGIN) {
            events[CALCULATE] = events[TOUCH] = 0;
            atomic_store(&phase, MEASURE);
        } else if (wanted == MEASURE && events[kind] < MOST_EVENTS) {
            durations[kind][events[kind]++] = time - begun;
        } else if (wanted == END) {
            atomic_store(&phase, IDLE);
            sem_post(&ended);
        }
        begun = time;
    }
    return NULL;
}

static void emulate(void)
{
    offered++;
    for (int event = 0; event < EMULATOR_EVENTS; event++)
        spend();
    done++;
}

static int ascending(const void *left, const void *right)
{
    uint32_t one = *(const uint32_t *)left, other = *(const uint32_t *)right;
    return (one > other) - (one < other);
}

/* Events of a kind in a second of their own time. */
static double rate(int kind)
{
    double sum = 0;
    for (uint64_t at = 0; at < events[kind]; at++)
        sum += durations[kind][at];
    return sum ? events[kind] * 1e9 / sum : 0;
}

static void print_guest(void)
{
    uint32_t *times = durations[CALCULATE];
    uint64_t last = events[CALCULATE] ? events[CALCULATE] - 1 : 0;
    qsort(times, events[CALCULATE], sizeof *times, ascending);
    printf("\"events_per_s\": %.1f, \"memory_events_per_s\": %.1f, \"p99_ms\": %.4f, "
           "\"p999_ms\": %.4f, \"longest_ms\": %.4f, ",
           rate(CALCULATE), rate(TOUCH), times[last * 99 / 100] / 1e6,
           times[last * 999 / 1000] / 1e6, times[last] / 1e6);
}

/* Packets: frames with UDP datagrams of many flows to one socket of our own. RPS deals out flows:
   one alone would always be on one CPU. */
enum { FLOWS = 64, SOURCE_PORT = 35 };
static int raw, udp, frames;
static unsigned char out_frames[MOST_FRAMES][60];
static struct mmsghdr sent[MOST_FRAMES], received[MOST_FRAMES];

static void exchange(void)
{
    static unsigned flow;
    for (int number = 0; number < frames; number++)
        out_frames[number][SOURCE_PORT] = flow++ % FLOWS;
    int count = sendmmsg(raw, sent, frames, 0);
    if (count > 0)
        offered += count;
    while ((count = recvmmsg(udp, received, MOST_FRAMES, MSG_DONTWAIT, NULL)) > 0)
        done += count;
}

/* What is made until leave() belongs to the sender's network namespace. */
static int own_namespace;
static void enter(const char *namespace)
{
    own_namespace = open("/proc/self/ns/net", O_RDONLY);
    int other = open(namespace, O_RDONLY);
    require(own_namespace >= 0 && other >= 0 && !setns(other, CLONE_NEWNET), namespace);
    close(other);
}

static void leave(void)
{
    require(!setns(own_namespace, CLONE_NEWNET), "setns");
    close(own_namespace);
}

static void open_packets(const char *namespace, char **arguments)
{
    static unsigned char frame[60] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46};
    static struct iovec out[MOST_FRAMES];
    static char data[MOST_FRAMES][64];
    static struct iovec in[MOST_FRAMES];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    require(inet_pton(AF_INET, arguments[1], &to.sin_addr) == 1, arguments[1]);
    frames = atoi(arguments[4]);
    require(frames > 0 && frames <= MOST_FRAMES, "frames");
    frame[22] = 64;
    frame[23] = IPPROTO_UDP;
    memcpy(frame + 30, &to.sin_addr, 4);
    memcpy(frame + 26, &to.sin_addr, 4);
    frame[29] ^= 3;              /* the other host of the network: .1 for .2 */
    uint32_t sum = 0;
    for (int at = 14; at < 34; at += 2)
        sum += frame[at] << 8 | frame[at + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    frame[24] = sum >> 8;
    frame[25] = sum;
    frame[34] = frame[36] = ntohs(to.sin_port) >> 8;
    frame[35] = frame[37] = ntohs(to.sin_port);
    frame[39] = 26;              /* length; a checksum of 0 is not looked at */
    for (int number = 0; number < MOST_FRAMES; number++) {
        memcpy(out_frames[number], frame, sizeof frame);
        out[number] = (struct iovec){out_frames[number], sizeof frame};
        sent[number].msg_hdr.msg_iov = &out[number];
        sent[number].msg_hdr.msg_iovlen = 1;
        in[number] = (struct iovec){data[number], sizeof data[number]};
        received[number].msg_hdr.msg_iov = &in[number];
        received[number].msg_hdr.msg_iovlen = 1;
    }
    int room = 8 << 20;
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    require(udp >= 0, "socket");
    require(!setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room), "SO_RCVBUFFORCE");
    require(!bind(udp, (struct sockaddr *)&to, sizeof to), "bind");
    enter(namespace);
    raw = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll device = {.sll_family = AF_PACKET,
                                 .sll_ifindex = if_nametoindex(arguments[0])};
    require(raw >= 0 && device.sll_ifindex, arguments[0]);
    require(!bind(raw, (struct sockaddr *)&device, sizeof device), "bind to a device");
    leave();
}

/* TCP: streams from ports that are always the same, since RPS deals out flows by their addresses. */
enum { MOST_STREAMS = 64, FIRST_PORT = 5001 };
static int streams, senders[MOST_STREAMS], receivers[MOST_STREAMS];

static void stream(void)
{
    ssize_t count;
    for (int number = 0; number < streams; number++) {
        offered += length;
        send(senders[number], bytes, length, MSG_DONTWAIT);
    }
    for (int number = 0; number < streams; number++)
        while ((count = recv(receivers[number], bytes, length, MSG_DONTWAIT)) > 0)
            done += count;
}

/* How many streams the guest's CPU has worked on last. */
static int streams_there(void)
{
    int there = 0;
    for (int number = 0; number < streams; number++) {
        int cpu;
        socklen_t size = sizeof cpu;
        require(!getsockopt(receivers[number], SOL_SOCKET, SO_INCOMING_CPU, &cpu, &size),
                "SO_INCOMING_CPU");
        there += cpu == GUEST_CPU;
    }
    return there;
}

static void open_streams(const char *namespace, char **arguments)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    require(inet_pton(AF_INET, arguments[1], &to.sin_addr) == 1, arguments[1]);
    require(listener >= 0, "socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    require(!bind(listener, (struct sockaddr *)&to, sizeof to), "bind");
    require(!listen(listener, MOST_STREAMS), "listen");
    streams = atoi(arguments[0]);
    require(streams > 0 && streams <= MOST_STREAMS, "streams");
    length = atol(arguments[4]);
    bytes = calloc(1, length);
    require(!!bytes, "calloc");
    enter(namespace);
    for (int number = 0; number < streams; number++) {
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(FIRST_PORT + number)};
        senders[number] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(senders[number], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        require(!bind(senders[number], (struct sockaddr *)&from, sizeof from), "bind a port");
        require(!connect(senders[number], (struct sockaddr *)&to, sizeof to), "connect");
        receivers[number] = accept(listener, NULL, NULL);
        require(receivers[number] >= 0, "accept");
    }
    leave();
}

/* Writing: the same bytes of one file, written back by the kernel's unbound workers. */
static int file;

static void write_back(void)
{
    offered += length;
    require(pwrite(file, bytes, length, 0) == length, "pwrite");
    require(!syncfs(file), "syncfs");
    done += length;
}

static void open_file(char **arguments)
{
    length = atol(arguments[2]);
    bytes = calloc(1, length);
    file = open(arguments[0], O_RDWR | O_CREAT, 0600);
    require(file >= 0 && bytes, arguments[0]);
}

static void obey(void (*work)(void), long pause_ns, int is_guest)
{
    struct pollfd input = {0, POLLIN, 0};
    uint64_t next = now(), started = next;
    int works = 0;
    char line[32];
    for (;;) {
        uint64_t time = now();
        uint64_t rest = next > time ? next - time : 0;
        struct timespec wait = {rest / 1000000000, rest % 1000000000};
        if (ppoll(&input, 1, works ? &wait : NULL, NULL) > 0) {
            if (!fgets(line, sizeof line, stdin))
                return;
            if (!strncmp(line, "work", 4) || !strcmp(line, "rest\n")) {
                works = *line == 'w';
                sscanf(line, "work %ld", &pause_ns);
                next = now();
            } else if (!strcmp(line, "begin\n")) {
                done = offered = 0;
                started = now();
                if (is_guest)
                    atomic_store(&phase, BEGIN);
            } else if (!strcmp(line, "end\n")) {
                double seconds = (now() - started) / 1e9;
                uint64_t done_now = done, offered_now = offered;
                printf("{");
                if (is_guest) {
                    atomic_store(&phase, END);
                    sem_wait(&ended);
                    print_guest();
                }
                if (streams)
                    printf("\"streams_there\": %d, ", streams_there());
                printf("\"seconds\": %.6f, \"done\": %lu, \"offered\": %lu}\n", seconds, done_now,
                       offered_now);
                next = now();
            }
            fflush(stdout);
        }
        if (works && now() >= next) {
            work();
            next += pause_ns;
            if (next < now())       /* what is late is not made up for */
                next = now();
        }
    }
}

int main(int count, char **arguments)
{
    setvbuf(stdin, NULL, _IONBF, 0);
    prctl(PR_SET_TIMERSLACK, 1);
    if (count == 3 && !strcmp(arguments[1], "guest")) {
        vcpu_cpu = atoi(arguments[2]);
        make_lines();
        for (int kind = 0; kind < KINDS; kind++) {
            durations[kind] = calloc(MOST_EVENTS, sizeof *durations[kind]);
            require(!!durations[kind], "calloc");
        }
        pthread_t thread;
        sem_init(&ended, 0, 0);
        require(!pthread_create(&thread, NULL, vcpu, NULL), "pthread_create");
        sem_wait(&ended);
        printf("ready %d\n", vcpu_tid);
        fflush(stdout);
        obey(emulate, 0, 1);
    } else if (count == 8 && !strcmp(arguments[1], "packets")) {
        open_packets(arguments[2], arguments + 3);
        printf("ready\n");
        fflush(stdout);
        obey(exchange, atol(arguments[6]), 0);
    } else if (count == 8 && !strcmp(arguments[1], "tcp")) {
        open_streams(arguments[2], arguments + 3);
        printf("ready\n");
        fflush(stdout);
        obey(stream, atol(arguments[6]), 0);
    } else if (count == 5 && !strcmp(arguments[1], "write")) {
        open_file(arguments + 2);
        printf("ready\n");
        fflush(stdout);
        obey(write_back, atol(arguments[3]), 0);
    } else {
        return 2;
    }
    return 0;
}
