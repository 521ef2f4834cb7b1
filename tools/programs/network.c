/* SPDX-License-Identifier: Apache-2.0 */
/* serve ADDRESS PORT: answers every byte with itself, TCP and UDP.
 * request tcp|udp ADDRESS PORT SECONDS CONNECTIONS BYTES: a request, its answer, the next request; latencies.
 * connect ADDRESS PORT SECONDS PROCESSES: connect, one byte there and back, close; connections per second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define MAX_BYTES 65000
/* Longer than any answer takes; an answer that is lost ends the run (TCP) or is counted (UDP). */
#define ANSWER_S 5

static struct sockaddr_in address_of(const char *address, const char *port)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)whole("PORT", port, 1, 65535))};
    if (inet_pton(AF_INET, address, &found.sin_addr) != 1)
        fail("'%.60s' is no IPv4 address", address);
    return found;
}

static int new_socket(int type)
{
    int made = socket(AF_INET, type | SOCK_CLOEXEC, 0), on = 1;
    struct timeval limit = {.tv_sec = ANSWER_S};
    if (made < 0)
        fail("socket: %s", strerror(errno));
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (type == SOCK_STREAM)
        setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return made;
}

static void answer_stream(int from)
{
    static char block[MAX_BYTES];
    ssize_t got;
    while ((got = recv(from, block, sizeof block, 0)) > 0)
        for (ssize_t sent = 0, part; sent < got; sent += part)
            if ((part = send(from, block + sent, (size_t)(got - sent), 0)) <= 0)
                return;
}

static void answer_packets(int on)
{
    static char block[MAX_BYTES];
    struct timeval none = {0};
    setsockopt(on, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    for (;;) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(on, block, sizeof block, 0, (struct sockaddr *)&from, &length);
        if (got >= 0)
            sendto(on, block, (size_t)got, 0, (struct sockaddr *)&from, length);
    }
}

/* Several processes accept from one socket, so that short connections need no process each. */
#define ACCEPTORS 16

int run_serve(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: nova-perf-bench serve ADDRESS PORT\n", stderr);
        return 2;
    }
    struct sockaddr_in here = address_of(argv[1], argv[2]);
    int packets = new_socket(SOCK_DGRAM), listener = new_socket(SOCK_STREAM);
    struct timeval none = {0};
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    if (bind(packets, (struct sockaddr *)&here, sizeof here) || bind(listener, (struct sockaddr *)&here, sizeof here)
        || listen(listener, 4096))
        fail("%s port %s: %s", argv[1], argv[2], strerror(errno));
    pid_t server = getpid();
    if (fork() == 0) {
        end_with(server);
        answer_packets(packets);
    }
    for (int at = 1; at < ACCEPTORS; at++)
        if (fork() == 0) {
            end_with(server);
            break;
        }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int from = accept(listener, NULL, NULL), on = 1;
        if (from < 0)
            continue;
        setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        answer_stream(from);
        close(from);
    }
}

struct client {
    struct sockaddr_in to;
    int type;
    size_t bytes;
    double seconds;
    struct barrier *barrier;
    struct result {
        struct histogram latencies;
        uint64_t lost;
        double elapsed;
    } *results;
};

static void connect_to(int made, const struct sockaddr_in *to)
{
    if (connect(made, (const struct sockaddr *)to, sizeof *to))
        fail("%s: %s", "connect", strerror(errno)); /* "Connection refused": the server does not listen yet */
}

/* Whether the answer came whole; one that never comes ends a TCP run. Requests bear a number in as many bytes as they
 * have, so that the answer to an earlier packet, which was given up, is not taken for that to this one. */
static int ask(struct client *client, int made, char *block)
{
    static uint64_t sequence;
    char number[sizeof sequence];
    size_t length = client->bytes < sizeof number ? client->bytes : sizeof number, got = 0;
    sequence++;
    for (size_t at = 0; at < length; at++)
        number[at] = (char)(sequence >> 8 * at);
    memcpy(block, number, length);
    if (send(made, block, client->bytes, 0) != (ssize_t)client->bytes)
        fail("send: %s", strerror(errno));
    while (got < client->bytes) {
        ssize_t part = recv(made, block + got, client->bytes - got, 0);
        if (part <= 0) {
            if (client->type == SOCK_DGRAM && part < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
            fail("receive: %s", part < 0 ? strerror(errno) : "the server closed the connection");
        }
        if (client->type == SOCK_STREAM || ((size_t)part == client->bytes && !memcmp(block, number, length)))
            got += (size_t)part;
    }
    if (memcmp(block, number, length))
        fail("receive: this is not the answer to the request");
    return 1;
}

static void request(int number, void *context)
{
    static char block[MAX_BYTES];
    struct client *client = context;
    struct result *result = &client->results[number];
    int made = new_socket(client->type);
    connect_to(made, &client->to);
    meet(client->barrier);
    double begun = now(), last = begun;
    do {
        int came = ask(client, made, block);
        double ended = now();
        if (came)
            add_latency(&result->latencies, (uint64_t)((ended - last) * 1e9));
        else
            result->lost++;
        last = ended;
    } while (last - begun < client->seconds);
    result->elapsed = last - begun;
    close(made);
}

static void connections(int number, void *context)
{
    struct client *client = context;
    struct result *result = &client->results[number];
    /* Closed with a reset: no port of the client is kept for a minute afterwards. */
    struct linger reset = {.l_onoff = 1};
    char block[1] = {1};
    meet(client->barrier);
    double begun = now(), last = begun;
    do {
        int made = new_socket(SOCK_STREAM);
        setsockopt(made, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        connect_to(made, &client->to);
        ask(client, made, block);
        close(made);
        double ended = now();
        add_latency(&result->latencies, (uint64_t)((ended - last) * 1e9));
        last = ended;
    } while (last - begun < client->seconds);
    result->elapsed = last - begun;
}

static void measure(struct client *client, int processes, const char *name, void (*work)(int, void *))
{
    client->results = shared_memory((size_t)processes * sizeof *client->results);
    client->barrier = new_barrier(processes);
    in_children(processes, work, client);
    static struct histogram all;
    double rate = 0, longest = 0;
    uint64_t lost = 0;
    for (int at = 0; at < processes; at++) {
        const struct result *one = &client->results[at];
        merge_latencies(&all, &one->latencies);
        rate += (double)one->latencies.count / one->elapsed;
        lost += one->lost;
        if (one->elapsed > longest)
            longest = one->elapsed;
    }
    if (!all.count)
        fail("%s: no answer came", name);
    printf("{\"benchmark\": \"%s\", \"processes\": %d, \"seconds\": %.6f, \"count\": %llu, \"lost\": %llu,"
           " \"per_second\": %.3f, \"mean_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f,"
           " \"max_us\": %.3f}\n",
           name, processes, longest, (unsigned long long)all.count, (unsigned long long)lost, rate,
           (double)all.sum_ns / (double)all.count / 1e3, quantile_us(&all, 0.5), quantile_us(&all, 0.99),
           quantile_us(&all, 0.999), (double)all.max_ns / 1e3);
}

int run_request(int argc, char **argv)
{
    if (argc != 7 || (strcmp(argv[1], "tcp") && strcmp(argv[1], "udp"))) {
        fputs("usage: nova-perf-bench request tcp|udp ADDRESS PORT SECONDS CONNECTIONS BYTES\n", stderr);
        return 2;
    }
    struct client client = {.to = address_of(argv[2], argv[3])};
    client.type = strcmp(argv[1], "udp") ? SOCK_STREAM : SOCK_DGRAM;
    client.seconds = (double)whole("SECONDS", argv[4], 1, 3600);
    int processes = (int)whole("CONNECTIONS", argv[5], 1, client.type == SOCK_STREAM ? ACCEPTORS : 256);
    client.bytes = (size_t)whole("BYTES", argv[6], 1, MAX_BYTES);
    measure(&client, processes, "request", request);
    return 0;
}

int run_connect(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: nova-perf-bench connect ADDRESS PORT SECONDS PROCESSES\n", stderr);
        return 2;
    }
    struct client client = {.to = address_of(argv[1], argv[2]), .type = SOCK_STREAM, .bytes = 1};
    client.seconds = (double)whole("SECONDS", argv[3], 1, 3600);
    measure(&client, (int)whole("PROCESSES", argv[4], 1, ACCEPTORS), "connect", connections);
    return 0;
}
