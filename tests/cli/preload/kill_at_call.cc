// Loaded into braid with LD_PRELOAD: ends it, as kill -9 does, before its BRAID_TEST_KILL_AT-th call that
// changes a file system; with BRAID_TEST_KILL_SIGNAL by that signal. Programs that braid starts are spared.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void count() {
  static std::atomic<long> calls{0};
  static const long last = [] {
    const char* text = std::getenv("BRAID_TEST_KILL_AT");
    return text && std::strcmp(program_invocation_short_name, "braid") == 0 ? std::atol(text) : 0L;
  }();
  static const int signal = [] {
    const char* text = std::getenv("BRAID_TEST_KILL_SIGNAL");
    return text ? std::atoi(text) : SIGKILL;
  }();
  if (last > 0 && ++calls == last) ::kill(::getpid(), signal);
}

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  count();
  return next(&rename, "rename")(from, to);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  count();
  return next(&write, "write")(fd, bytes, size);
}
ssize_t writev(int fd, const iovec* parts, int n) {
  count();
  return next(&writev, "writev")(fd, parts, n);
}
int mkdir(const char* path, mode_t mode) noexcept {
  count();
  return next(&mkdir, "mkdir")(path, mode);
}
char* mkdtemp(char* pattern) noexcept {
  count();
  return next(&mkdtemp, "mkdtemp")(pattern);
}
int unlink(const char* path) noexcept {
  count();
  return next(&unlink, "unlink")(path);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  count();
  return next(&unlinkat, "unlinkat")(folder, path, flags);
}
int remove(const char* path) noexcept {
  count();
  return next(&remove, "remove")(path);
}

}  // extern "C"
