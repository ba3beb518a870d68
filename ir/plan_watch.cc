#include "ir/plan_watch.h"

#include <fmt/format.h>

#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/in_place_collectives.h"

namespace braid::ir {

PlanWatch::PlanWatch(const Schedule& schedule)
    : schedule_(&schedule), tenant_of_(schedule.graph.storages.size(), -1) {
  internal_check(schedule.plan.has_value(), "a run with a memory plan needs a schedule that has one");
  for (const auto& [storage, place] : schedule.plan->placements) {
    tenant_of_[static_cast<std::size_t>(storage.index)] = static_cast<int>(tenants_.size());
    tenants_.push_back({&schedule.graph[storage].name, place});
  }
  for (const auto& [result, operand] : shared_places(schedule)) {
    tenant_of_[static_cast<std::size_t>(result.index)] = tenant_of_[static_cast<std::size_t>(operand.index)];
  }
  arena_.assign(static_cast<std::size_t>(schedule.plan->arena_bytes), -1);
  comm_.assign(static_cast<std::size_t>(schedule.plan->comm_bytes), -1);
}

void PlanWatch::fail(const Tenant& tenant, const std::string& who, const std::string& what) const {
  const bool known = step_ >= 0 && step_ < static_cast<int>(schedule_->nodes.size());
  throw InternalError(fmt::format("memory plan: step {} ('{}' in node '{}') touches '{}', which {}", step_,
                                  who, known ? name_of(*schedule_, step_) : std::string(), *tenant.name,
                                  what));
}

void PlanWatch::touch(int tenant, std::int64_t offset, std::int64_t bytes, bool write,
                      const std::string& who) {
  const Tenant& t = tenants_[static_cast<std::size_t>(tenant)];
  if (step_ < t.place.first_step) fail(t, who, fmt::format("is born at step {}", t.place.first_step));
  if (step_ > t.place.last_step) fail(t, who, fmt::format("died after step {}", t.place.last_step));
  std::vector<int>& owners = t.place.space == MemorySpace::arena ? arena_ : comm_;
  for (std::int64_t k = t.place.offset + offset; k < t.place.offset + offset + bytes; ++k) {
    int& owner = owners[static_cast<std::size_t>(k)];
    if (owner == tenant) continue;
    if (owner >= 0) {
      const Tenant& other = tenants_[static_cast<std::size_t>(owner)];
      if (write && other.place.last_step > step_) {
        fail(t, who,
             fmt::format("shares byte {} with '{}', which lives until step {}", k, *other.name,
                         other.place.last_step));
      }
      // Bytes of an older tenant that this one never wrote are merely uninitialised.
      if (!write && other.place.first_step > t.place.first_step) {
        fail(t, who,
             fmt::format("lost byte {} to '{}', which was born at step {}", k, *other.name,
                         other.place.first_step));
      }
    }
    if (write) owner = tenant;
  }
}

}  // namespace braid::ir
