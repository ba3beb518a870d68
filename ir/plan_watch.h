// Holds a run to its memory plan, touch by touch: the lifecycle verifier of the interpreter.
//
// Every storage that the plan places is born at its first step and dead after its last one. A touch outside
// of these steps, a write over bytes that are still somebody else's, and a read of bytes that somebody else
// has overwritten since (in-place reuse included, element by element) are InternalErrors that name storage
// and step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

class PlanWatch {
 public:
  // Of a schedule with a plan, which must outlive it.
  explicit PlanWatch(const Schedule& schedule);

  void begin_step(int step) { step_ = step; }
  // The tenant of a root storage; -1 if it is not planned.
  int tenant(StorageId storage) const { return tenant_of_[static_cast<std::size_t>(storage.index)]; }
  // `offset` in bytes from the storage's first; `who` touches it.
  void touch(int tenant, std::int64_t offset, std::int64_t bytes, bool write, const std::string& who);

 private:
  struct Tenant {
    const std::string* name;
    Placement place;
  };
  [[noreturn]] void fail(const Tenant& tenant, const std::string& who, const std::string& what) const;

  const Schedule* schedule_;
  std::vector<Tenant> tenants_;
  std::vector<int> tenant_of_;     // by storage
  std::vector<int> arena_, comm_;  // per byte: the tenant that wrote it last, -1: nobody
  int step_ = 0;
};

}  // namespace braid::ir
