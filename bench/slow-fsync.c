/*
 * A slow disk, for LD_PRELOAD: fsync and fdatasync do their work and then sleep SLOW_FSYNC_US microseconds more.
 * The sleep is on the calling thread only, as a slow device's would be.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

typedef int (*sync_fn)(int);

static void be_slow(void) {
  const char *text = getenv("SLOW_FSYNC_US");
  long us = text ? atol(text) : 0;
  struct timespec rest = {us / 1000000, (us % 1000000) * 1000};
  int kept = errno;
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
  errno = kept;
}

int fsync(int fd) {
  sync_fn real = (sync_fn)dlsym(RTLD_NEXT, "fsync");
  int result = real(fd);
  be_slow();
  return result;
}

int fdatasync(int fd) {
  sync_fn real = (sync_fn)dlsym(RTLD_NEXT, "fdatasync");
  int result = real(fd);
  be_slow();
  return result;
}
