// SPDX-License-Identifier: Apache-2.0
// Loaded before libfaketime, which replaces waits by its own: in Debian 12 an absolute
// clock_nanosleep() fails with EINVAL (Python's time.sleep), and a wait of a condition with the
// monotonic clock ends at once, so that threads of Python fight for its interpreter lock. These
// waits use the monotonic clock, which is not moved, so they can go to the C library directly.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void *find(const char *name, const char *version) {
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return version ? dlvsym(library, name, version) : dlsym(library, name);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, t, left) == 0 ? 0 : errno;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *t) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) {
        real = find("pthread_cond_timedwait", "GLIBC_2.3.2"); // the default of x86-64
        if (!real)
            real = find("pthread_cond_timedwait", NULL);
    }
    return real(condition, mutex, t);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *t) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real)
        real = find("sem_clockwait", NULL);
    return real(semaphore, clock, t);
}
