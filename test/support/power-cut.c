/*
 * A disk that loses what was not synced, for a process started with LD_PRELOAD.
 *
 * POWER_CUT_DIR      the folder that is on this disk
 * POWER_CUT_PLATTER  what survives: inodes/<file> holds a file as it was when it was last synced, and names/<name>
 *                    is a link to one of them, as the folder was when it was last synced
 * POWER_CUT_AT       the process dies at this sync, the first being 1; even: before it, odd: after it took effect
 * POWER_CUT_LIE      a file: while it exists, a sync says that it was done and does nothing
 *
 * Everything goes to the real folder too, so that the process notices nothing. Each file is put on the platter whole
 * and in one step; what a torn write would leave is made from both folders afterwards.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int syncs = 0;

static void fail(const char *what) {
  perror(what);
  abort();
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "" : value;
}

/* A number alone would not do: the next new file often gets that of the last deleted one. */
static void identity(int folder, const char *name, char *out, size_t size) {
  struct statx s;
  int flags = name[0] == '\0' ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  if (statx(folder, name, flags, STATX_INO | STATX_BTIME, &s) != 0) fail("statx");
  snprintf(out, size, "%llu-%lld-%u", (unsigned long long)s.stx_ino, (long long)s.stx_btime.tv_sec, s.stx_btime.tv_nsec);
}

/* The file as it is now becomes what the platter holds of it. */
static void keep_file(int fd) {
  char id[128], path[PATH_MAX], fresh[PATH_MAX + 8], self[64];
  identity(fd, "", id, sizeof id);
  snprintf(path, sizeof path, "%s/inodes/%s", setting("POWER_CUT_PLATTER"), id);
  snprintf(fresh, sizeof fresh, "%s.new", path);
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  int in = open(self, O_RDONLY | O_CLOEXEC);
  int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (in < 0 || out < 0) fail(path);
  static char buffer[1 << 16];
  ssize_t count;
  while ((count = read(in, buffer, sizeof buffer)) > 0)
    if (write(out, buffer, count) != count) fail(path);
  if (count < 0 || close(in) != 0 || close(out) != 0 || rename(fresh, path) != 0) fail(path);
}

/* The names as they are now become the names on the platter. */
static void keep_names(const char *folder) {
  char names[PATH_MAX], path[PATH_MAX + 256], target[256], id[128];
  snprintf(names, sizeof names, "%s/names", setting("POWER_CUT_PLATTER"));
  DIR *on_platter = opendir(names), *real = opendir(folder);
  if (on_platter == NULL || real == NULL) fail(names);
  for (struct dirent *entry; (entry = readdir(on_platter)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", names, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  for (struct dirent *entry; (entry = readdir(real)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    identity(dirfd(real), entry->d_name, id, sizeof id);
    snprintf(target, sizeof target, "../inodes/%s", id);
    snprintf(path, sizeof path, "%s/%s", names, entry->d_name);
    if (symlink(target, path) != 0) fail(path);
  }
  closedir(on_platter);
  closedir(real);
}

static int is_ours(int fd, char *path) {
  char self[64];
  const char *folder = setting("POWER_CUT_DIR");
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(self, path, PATH_MAX - 1);
  if (length < 0 || folder[0] == '\0') return 0;
  path[length] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0;
}

static void take_effect(int fd, const char *path) {
  struct stat s;
  if (fstat(fd, &s) != 0) fail(path);
  if (S_ISDIR(s.st_mode)) keep_names(path);
  else keep_file(fd);
}

static int sync_of(int fd, const char *name) {
  char path[PATH_MAX];
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  if (!is_ours(fd, path)) return real(fd);
  pthread_mutex_lock(&lock);
  int cut = atoi(setting("POWER_CUT_AT"));
  syncs += 1;
  if (syncs == cut && cut % 2 == 0) kill(getpid(), SIGKILL);
  if (access(setting("POWER_CUT_LIE"), F_OK) != 0) take_effect(fd, path);
  if (syncs == cut) kill(getpid(), SIGKILL);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd) { return sync_of(fd, "fsync"); }
int fdatasync(int fd) { return sync_of(fd, "fdatasync"); }
