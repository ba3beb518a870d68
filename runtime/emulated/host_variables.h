// Static variables of a program's host code that several host threads touch at the same time. Ranks that are
// threads share them; ranks that are processes do not.
//
// A variable belongs to one thread until a second one touches it. From then on all threads that touch it must
// hold one lock, or do so atomically, if any of them writes (Eraser: Savage et al., 1997). Accesses of the
// first thread until then count as its initialisation, unless it was a write within a step. A thread that
// began after the other's latest access, or after its end, takes the variable over. The order in which the
// threads happened to run does not matter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/emulated/access_set.h"

namespace braid::emulated {

// Code at this address is instrumented: the variables of its object are watched.
void watch_variables_of(uintptr_t code);

// The calling host thread has begun, as far as can be told.
void know_host_thread();

bool is_watched_variable(uintptr_t address);
// Host code accesses a watched variable.
void touch_variable(uintptr_t address, size_t size, AccessKind kind);
// Host code has loaded the byte that says whether a local static variable is initialised.
void saw_guard(const volatile void* guard, bool initialised);

}  // namespace braid::emulated

// Programs are linked with --wrap for these, so that the locks that a thread holds are known.
extern "C" {
int __wrap_pthread_mutex_lock(void* mutex);
int __wrap_pthread_mutex_trylock(void* mutex);
int __wrap_pthread_mutex_unlock(void* mutex);
}
