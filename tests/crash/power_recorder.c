// SPDX-License-Identifier: Apache-2.0
// Records, for a program that runs with it in LD_PRELOAD, the writes, truncations and syncs of files
// whose name contains "store.db", and the lines on its standard output, in the order in which they
// returned. `power_cut.py` reads the record: op, length of the name, name, offset, length, data.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record_fd = -1;

static const char *name_of(int fd, char *buffer, size_t size) {
    char link[64], digits[16];
    int n = 0;
    if (fd == 1) return "stdout";
    strcpy(link, "/proc/self/fd/");
    do digits[n++] = '0' + fd % 10; while ((fd /= 10));
    size_t at = strlen(link);
    while (n) link[at++] = digits[--n];
    link[at] = 0;
    ssize_t length = readlink(link, buffer, size - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    const char *base = strrchr(buffer, '/');
    if (!base || strncmp(base + 1, "store.db", 8) || strstr(base, "-shm") || strstr(base, ".lock"))
        return NULL;
    return base + 1;
}

static void record(char op, int fd, uint64_t offset, const void *data, uint32_t length) {
    char buffer[4096];
    const char *name = name_of(fd, buffer, sizeof buffer);
    if (!name) return;
    if (record_fd < 0)
        record_fd = open(getenv("POWER_RECORD"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    uint8_t name_length = strlen(name);
    struct iovec parts[] = {{&op, 1}, {&name_length, 1}, {(void *)name, name_length},
                            {&offset, 8}, {&length, 4}, {(void *)data, data ? length : 0}};
    syscall(SYS_writev, record_fd, parts, 6);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define PWRITE(symbol, type) \
    ssize_t symbol(int fd, const void *data, size_t size, type offset) { \
        REAL(ssize_t, #symbol, int, const void *, size_t, type); \
        pthread_mutex_lock(&lock); \
        ssize_t done = real(fd, data, size, offset); \
        if (done > 0) record('W', fd, offset, data, done); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    pthread_mutex_lock(&lock);
    if (fd == 1) record('A', fd, 0, data, size);  // before anyone can see it
    ssize_t done = real(fd, data, size);
    pthread_mutex_unlock(&lock);
    return done;
}

#define TRUNCATE(symbol, type) \
    int symbol(int fd, type size) { \
        REAL(int, #symbol, int, type); \
        pthread_mutex_lock(&lock); \
        int failed = real(fd, size); \
        if (!failed) record('T', fd, size, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return failed; \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(symbol) \
    int symbol(int fd) { \
        REAL(int, #symbol, int); \
        int failed = real(fd); \
        pthread_mutex_lock(&lock); \
        if (!failed) record('S', fd, 0, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return failed; \
    }
SYNC(fsync)
SYNC(fdatasync)
