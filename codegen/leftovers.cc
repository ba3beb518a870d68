#include "codegen/leftovers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "ir/error.h"

namespace braid::codegen {

namespace {

constexpr int kSlots = 64;
constexpr int kDeathLooks = 200;          // checks whether killed processes are gone,
constexpr long kDeathLookNs = 5'000'000;  // one every 5 ms

// A signal handler reads these, so they have to be global.
struct Slot {
  enum State : int { unused, being_written, used };
  std::atomic<int> state;
  pid_t group;  // 0: a path
  char path[PATH_MAX];
};
std::array<Slot, kSlots> slots;
std::atomic<pid_t> owner = 0;  // children inherit the handler, but own nothing

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::mutex handlers;    // of all that follows, which no handler reads
bool for_good = false;  // end_cleanly_on_signals
int scopes = 0;         // EndsCleanly

constexpr int kNoSlot = -1;

int take_slot(pid_t group, const std::string& path) {
  if (owner == 0) return kNoSlot;                           // no handler that looks
  if (path.size() >= sizeof slots[0].path) return kNoSlot;  // such a path cannot be created either
  for (int k = 0; k < kSlots; ++k) {
    Slot& slot = slots[static_cast<std::size_t>(k)];
    int expected = Slot::unused;
    if (!slot.state.compare_exchange_strong(expected, Slot::being_written)) continue;
    slot.group = group;
    std::memcpy(slot.path, path.c_str(), path.size() + 1);
    slot.state.store(Slot::used);
    return k;
  }
  // An application may compile as much at once as it likes.
  if (!for_good) return kNoSlot;
  throw ir::InternalError("more leftovers at a time than there are slots");
}

void free_slot(int slot) {
  if (slot != kNoSlot) slots[static_cast<std::size_t>(slot)].state.store(Slot::unused);
}

// From here on: only what POSIX allows in a signal handler, so no directory streams.

struct DirectoryEntry {  // of getdents64(2)
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

void remove_entry(int folder, const char* name, bool links);

// Removing while reading may make the system skip entries, so this repeats until there are none.
void remove_entries(int folder) {
  alignas(DirectoryEntry) char buffer[4096];
  for (bool removed = true; removed;) {
    removed = false;
    ::lseek(folder, 0, SEEK_SET);
    for (long n; (n = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;) {
      for (long at = 0; at < n;) {
        const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
        at += entry->bytes;
        if (std::strcmp(entry->name, ".") == 0 || std::strcmp(entry->name, "..") == 0) continue;
        remove_entry(folder, entry->name, true);
        struct stat info;
        removed |= ::fstatat(folder, entry->name, &info, AT_SYMLINK_NOFOLLOW) != 0;
      }
    }
  }
}

void remove_entry(int folder, const char* name, bool links) {
  struct stat info;
  if (::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISDIR(info.st_mode)) {
    const int inner = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return;
    remove_entries(inner);
    ::close(inner);
    ::unlinkat(folder, name, AT_REMOVEDIR);
  } else if (links || S_ISREG(info.st_mode)) {
    ::unlinkat(folder, name, 0);
  }
}

// Returns when no process of the group can write any longer.
void end_group(pid_t group) {
  ::kill(-group, SIGKILL);
  for (int look = 0; look < kDeathLooks; ++look) {
    ::waitpid(group, nullptr, WNOHANG);
    if (::kill(-group, 0) != 0 && errno == ESRCH) return;
    const timespec pause{0, kDeathLookNs};
    ::nanosleep(&pause, nullptr);
  }
}

void end_cleanly(int signal) {
  if (::getpid() == owner) {
    for (const bool groups : {true, false}) {
      for (Slot& slot : slots) {
        if (slot.state.load() != Slot::used || (slot.group != 0) != groups) continue;
        if (groups) {
          end_group(slot.group);
        } else {
          remove_entry(AT_FDCWD, slot.path, false);
        }
      }
    }
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when the handler returns
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_handler = end_cleanly;
  sigfillset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

auto handler_of(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

}  // namespace

void end_cleanly_on_signals() {
  const std::lock_guard lock(handlers);
  for_good = true;
  owner = ::getpid();
  for (const int signal : kSignals) {
    if (handler_of(signal) != SIG_IGN) handle(signal);
  }
}

EndsCleanly::EndsCleanly() {
  const std::lock_guard lock(handlers);
  if (scopes++ > 0 || for_good) return;
  owner = ::getpid();
  for (const int signal : kSignals) {
    if (handler_of(signal) == SIG_DFL) handle(signal);
  }
}

EndsCleanly::~EndsCleanly() {
  const std::lock_guard lock(handlers);
  if (--scopes > 0 || for_good) return;
  for (const int signal : kSignals) {
    if (handler_of(signal) == end_cleanly) ::signal(signal, SIG_DFL);
  }
  owner = 0;
}

Leftover::Leftover(const std::string& path) : slot_(take_slot(0, std::filesystem::absolute(path).string())) {}
Leftover::~Leftover() { free_slot(slot_); }

LeftoverProcesses::LeftoverProcesses(pid_t group) : slot_(take_slot(group, {})) {}
LeftoverProcesses::~LeftoverProcesses() { free_slot(slot_); }

}  // namespace braid::codegen
