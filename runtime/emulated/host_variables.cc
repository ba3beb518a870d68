#include "runtime/emulated/host_variables.h"

#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/program_image.h"

namespace braid::emulated {
namespace {

using Locks = std::set<const void*>;
const char kAtomically = 0;  // stands for a lock among threads that access a variable atomically

// Ranges of addresses, to which some are added and none removed. Ranges without room are not watched.
class Ranges {
 public:
  bool hold(uintptr_t address) const {
    const size_t latest = latest_.load(std::memory_order_relaxed), count = count_.load();
    if (latest < count && all_[latest].holds(address, 1)) return true;
    for (size_t k = 0; k < count; ++k) {
      if (!all_[k].holds(address, 1)) continue;
      latest_.store(k, std::memory_order_relaxed);
      return true;
    }
    return false;
  }
  bool full() const { return count_.load() == all_.size(); }
  // Call with a lock held.
  void add(const AddressRange& range) {
    const size_t count = count_.load();
    if (full() || hold(range.begin)) return;
    all_[count] = range;
    count_.store(count + 1);
  }

 private:
  std::array<AddressRange, 256> all_;
  std::atomic<size_t> count_{0};
  mutable std::atomic<size_t> latest_{0};  // that held an address
};

// The variables of the objects with instrumented code.
struct Watched {
  Ranges objects, variables;
  std::atomic<uintptr_t> begin{UINTPTR_MAX}, end{0};  // around all variables
  std::mutex mutex;                                   // held while ranges are added
};
constinit Watched watched;

// A host thread, from its first access to a variable on.
struct Toucher {
  Toucher();
  ~Toucher();
  uint64_t id, began;
  Locks locks;                                  // that it holds
  const volatile char* initialising = nullptr;  // the guard of a local static variable
};

struct Variable {
  enum class State : uint8_t { kOwned, kShared, kModified } state = State::kOwned;
  uint64_t latest = 0;           // when it was touched last
  std::vector<uint64_t> owners;  // one, or all threads that share it
  bool written_in_step = false;
  Locks locks;  // that all have held since it is shared
};

struct Variables {
  std::mutex mutex;
  uint64_t now = 0;  // counts threads
  std::set<uint64_t> alive;
  std::unordered_map<uintptr_t, Variable> bytes;
};
Variables& variables() {
  static Variables* instance = new Variables;
  return *instance;
}

Toucher::Toucher() {
  Variables& all = variables();
  const std::lock_guard lock(all.mutex);
  id = began = ++all.now;
  all.alive.insert(id);
}
Toucher::~Toucher() {
  Variables& all = variables();
  const std::lock_guard lock(all.mutex);
  all.alive.erase(id);
}

__thread Toucher* mine __attribute__((tls_model("initial-exec"))) = nullptr;
__thread bool ended __attribute__((tls_model("initial-exec"))) = false;

// Null while the thread's last objects are destroyed.
Toucher* toucher() {
  if (mine != nullptr || ended) return mine;
  struct End {
    bool begun = false;
    ~End() {
      delete mine;
      mine = nullptr;
      ended = true;
    }
  };
  thread_local End end;
  end.begun = true;
  return mine = new Toucher;
}

void keep_common(Locks& locks, const Locks& held) {
  std::erase_if(locks, [&](const void* lock) { return held.count(lock) == 0; });
}

// Whether the access races. `held`: the locks of this access.
bool touch(Variables& all, Variable& variable, const Toucher& me, AccessKind kind, const Locks& held,
           bool in_step) {
  const bool writes = kind != AccessKind::kRead;
  std::erase_if(variable.owners, [&](uint64_t owner) {
    return owner != me.id && (all.alive.count(owner) == 0 || variable.latest < me.began);
  });
  const bool alone = variable.owners.empty() || (variable.owners.size() == 1 && variable.owners[0] == me.id);
  if (alone) {
    variable.state = Variable::State::kOwned;
    variable.written_in_step = (variable.written_in_step && !variable.owners.empty()) || (writes && in_step);
    variable.owners = {me.id};
  } else {
    const bool first = variable.state == Variable::State::kOwned;
    if (first) variable.locks = held;
    keep_common(variable.locks, held);
    if (std::find(variable.owners.begin(), variable.owners.end(), me.id) == variable.owners.end())
      variable.owners.push_back(me.id);
    const bool modified = writes || (first && variable.written_in_step && in_step) ||
                          variable.state == Variable::State::kModified;
    variable.state = modified ? Variable::State::kModified : Variable::State::kShared;
  }
  variable.latest = all.now;
  return variable.state == Variable::State::kModified && variable.locks.empty();
}

std::string object_at(uintptr_t address) {
  struct Search {
    uintptr_t address;
    std::string name;
  } search{address, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        Search& s = *static_cast<Search*>(data);
        for (int k = 0; k < object->dlpi_phnum; ++k) {
          const auto& header = object->dlpi_phdr[k];
          const AddressRange range{object->dlpi_addr + header.p_vaddr, header.p_memsz};
          if (header.p_type == PT_LOAD && range.holds(s.address, 1)) {
            s.name = object->dlpi_name;
            return 1;
          }
        }
        return 0;
      },
      &search);
  search.name.erase(0, search.name.rfind('/') + 1);  // npos + 1 is 0
  return search.name.empty() ? "the program" : search.name;
}

void report(uintptr_t address) {
  const AddressRange segment = variables_at(address);
  if (segment.empty()) return;  // another object had been loaded there
  const std::string& label = host_thread().label;
  const std::string who = "host code" + (label.empty() ? "" : " [" + label + "]") + " of several ranks";
  const std::string object = object_at(address);
  // A loop over an array gives one finding.
  finding_list().add(FindingKind::kRace, who + object,
                     who + " touches a static variable, byte " + std::to_string(address - segment.begin) +
                         " of those of " + object +
                         ", with no lock that all hold: ranks that are threads share it");
}

}  // namespace

static void watch(const dl_phdr_info& object) {
  const std::lock_guard lock(watched.mutex);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int k = 0; k < object.dlpi_phnum; ++k) {
    const auto& header = object.dlpi_phdr[k];
    if (header.p_type != PT_LOAD) continue;
    const AddressRange range{object.dlpi_addr + header.p_vaddr, header.p_memsz};
    begin = std::min(begin, range.begin);
    end = std::max(end, range.begin + range.bytes);
    if ((header.p_flags & PF_W) == 0) continue;
    watched.variables.add(range);
    watched.begin.store(std::min(watched.begin.load(), range.begin));
    watched.end.store(std::max(watched.end.load(), range.begin + range.bytes));
  }
  watched.objects.add({begin, end - begin});
}

void watch_variables_of(uintptr_t code) {
  if (watched.objects.hold(code) || watched.objects.full()) return;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        const auto code = *static_cast<const uintptr_t*>(data);
        for (int k = 0; k < object->dlpi_phnum; ++k) {
          const auto& header = object->dlpi_phdr[k];
          if (header.p_type != PT_LOAD ||
              !AddressRange{object->dlpi_addr + header.p_vaddr, header.p_memsz}.holds(code, 1))
            continue;
          watch(*object);
          return 1;
        }
        return 0;
      },
      &code);
}

void know_host_thread() { (void)toucher(); }

bool is_watched_variable(uintptr_t address) {
  if (address < watched.begin.load(std::memory_order_relaxed) ||
      address >= watched.end.load(std::memory_order_relaxed))
    return false;
  return watched.variables.hold(address);
}

void touch_variable(uintptr_t address, size_t size, AccessKind kind) {
  Toucher* const current = toucher();
  if (current == nullptr || !options().check_accesses) return;
  Toucher& me = *current;
  const HostThread* host = known_host_thread();
  bool in_step = host != nullptr && host->step != nullptr;
  if (me.initialising != nullptr) {
    if (*me.initialising != 0) me.initialising = nullptr;
    in_step &= me.initialising == nullptr;
  }
  Locks held = me.locks;
  if (kind == AccessKind::kAtomic || kind == AccessKind::kAtomicStore) held.insert(&kAtomically);
  bool races = false;
  {
    Variables& all = variables();
    const std::lock_guard lock(all.mutex);
    for (size_t k = 0; k < size; ++k) races |= touch(all, all.bytes[address + k], me, kind, held, in_step);
  }
  if (races) report(address);
}

void saw_guard(const volatile void* guard, bool initialised) {
  if (Toucher* me = toucher(); me != nullptr && !initialised)
    me->initialising = static_cast<const volatile char*>(guard);
}

}  // namespace braid::emulated

using braid::emulated::toucher;

static int locked(int error, const void* mutex) {
  if (error != 0) return error;
  if (auto* me = toucher()) me->locks.insert(mutex);
  return 0;
}

extern "C" {

int __wrap_pthread_mutex_lock(void* mutex) {
  return locked(pthread_mutex_lock(static_cast<pthread_mutex_t*>(mutex)), mutex);
}

int __wrap_pthread_mutex_trylock(void* mutex) {
  return locked(pthread_mutex_trylock(static_cast<pthread_mutex_t*>(mutex)), mutex);
}

int __wrap_pthread_mutex_unlock(void* mutex) {
  if (auto* me = toucher()) me->locks.erase(mutex);
  return pthread_mutex_unlock(static_cast<pthread_mutex_t*>(mutex));
}

}  // extern "C"
