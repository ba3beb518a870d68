// Checks every access of a run against its memory plan: the lifecycle verifier of the interpreter.
//
// Every planned storage is born at its first step and dead after its last one. An access outside these steps,
// a write over bytes that still belong to another storage, and a read of bytes that another storage has
// overwritten since (including in-place reuse, element by element) are InternalErrors that name storage and
// step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

class PlanWatch {
 public:
  // Requires a schedule with a plan; the schedule must outlive this object.
  explicit PlanWatch(const Schedule& schedule);

  void begin_step(int step) { step_ = step; }
  // The tenant of a root storage; -1 if it is not planned.
  int tenant(StorageId storage) const { return tenant_of_[static_cast<std::size_t>(storage.index)]; }
  // `offset` counts bytes from the storage's first; the last argument names the accessing operation.
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
  std::vector<int> arena_, comm_;  // per byte: the tenant that wrote it last, or -1
  int step_ = 0;
};

}  // namespace braid::ir
