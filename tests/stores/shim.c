/* Preloaded into a test process: makes the disk fail on demand.
 *
 * QUORACY_FAULTS names a directory. As long as a file of the given name is in it:
 *   fsync-wal   fsync and fdatasync of the write-ahead log fail with EIO
 *   fsync-db    the same for journal.db itself
 *   fsync-seg   the same for a segment that is being written
 *   full        writes to journal.db and its log fail with ENOSPC
 *   write-wal   writes to the log fail with EIO
 *   slow-wal    every sync of the log takes longer, by as many milliseconds as stand in the file meanwhile
 * and every sync of the log appends a line to the file "log", if that is there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int on(const char *fault) {
    char path[4096];
    const char *directory = getenv("QUORACY_FAULTS");
    if (!directory) return 0;
    snprintf(path, sizeof path, "%s/%s", directory, fault);
    return access(path, F_OK) == 0;
}

static int is(int fd, const char *end) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    size_t wanted = strlen(end);
    if (size < (ssize_t)wanted) return 0;
    path[size] = 0;
    return strcmp(path + size - wanted, end) == 0;
}

/* Read anew every time, so that a sync that hangs ends when the test says so. */
static long slow_ms(void) {
    char path[4096];
    long by_ms = 0;
    snprintf(path, sizeof path, "%s/slow-wal", getenv("QUORACY_FAULTS"));
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &by_ms) != 1) abort();
    fclose(file);
    return by_ms;
}

static int sync_fails(int fd) {
    int saved = errno;
    if (is(fd, "journal.db-wal") && on("slow-wal")) {
        for (long slept_ms = 0; slept_ms < slow_ms(); slept_ms++) usleep(1000);
    }
    if (is(fd, "journal.db-wal") && on("log")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/log", getenv("QUORACY_FAULTS"));
        int log = open(path, O_WRONLY | O_APPEND);
        if (log >= 0) {
            if (write(log, "synced\n", 7) != 7) abort();
            close(log);
        }
    }
    if ((is(fd, "journal.db-wal") && on("fsync-wal")) || (is(fd, "journal.db") && on("fsync-db")) ||
        (is(fd, ".qseg.new") && on("fsync-seg"))) {
        errno = EIO;
        return 1;
    }
    errno = saved;
    return 0;
}

static int write_fails(int fd) {
    int saved = errno;
    int log = is(fd, "journal.db-wal");
    if ((log || is(fd, "journal.db")) && on("full")) {
        errno = ENOSPC;
        return 1;
    }
    if (log && on("write-wal")) {
        errno = EIO;
        return 1;
    }
    errno = saved;
    return 0;
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    return sync_fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    return sync_fails(fd) ? -1 : real(fd);
}

ssize_t pwrite64(int fd, const void *content, size_t size, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return write_fails(fd) ? -1 : real(fd, content, size, offset);
}

ssize_t pwrite(int fd, const void *content, size_t size, off_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite");
    return write_fails(fd) ? -1 : real(fd, content, size, offset);
}

ssize_t write(int fd, const void *content, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return write_fails(fd) ? -1 : real(fd, content, size);
}
