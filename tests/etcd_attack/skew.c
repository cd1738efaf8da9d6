// SPDX-License-Identifier: Apache-2.0
// Shifts the wall clock of a process by SKEW_S seconds: LD_PRELOAD=skew.so SKEW_S=3600 program.
// Monotonic clocks stay. Programs that do not call libc for the time (Go, so etcd) are unaffected.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew(void) {
    static long found, is_read;
    if (!is_read) {
        const char *text = getenv("SKEW_S");
        found = text ? atol(text) : 0;
        is_read = 1;
    }
    return found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += skew();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real)
        real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (!result)
        now->tv_sec += skew();
    return result;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
