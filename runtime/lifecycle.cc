#include "runtime/lifecycle.h"

#include <algorithm>

#include "runtime/hash.h"

namespace braid::rt {
namespace {

constexpr std::byte kPoison{0xff};

size_t at(int64_t k) { return static_cast<size_t>(k); }

}  // namespace

Lifecycle::Lifecycle(const LifecyclePlan& plan, std::byte* arena, std::byte* segment)
    : plan_(plan),
      arena_{arena, std::vector<int32_t>(at(plan.arena_bytes), kNobody)},
      segment_{segment, std::vector<int32_t>(at(plan.comm_bytes), kNobody)},
      births_(plan.steps.size()),
      deaths_(plan.steps.size()),
      hash_(plan.buffers.size(), 0),
      hashed_at_(plan.buffers.size(), -1) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    births_[at(plan.buffers[b].first_step)].push_back(static_cast<int32_t>(b));
    deaths_[at(plan.buffers[b].last_step)].push_back(static_cast<int32_t>(b));
  }
}

void Lifecycle::begin() {
  for (Space* space : {&arena_, &segment_}) {
    for (size_t k = 0; k < space->owner.size(); ++k) {
      if (space == &segment_ && space->owner[k] == kUnknown) continue;
      space->memory[k] = kPoison;
      space->owner[k] = kNobody;
    }
  }
  std::fill(hashed_at_.begin(), hashed_at_.end(), -1);
}

bool Lifecycle::fail(int32_t step, const PlannedBuffer& b, const std::string& what) {
  error_ = "memory plan: '" + std::string(b.name) + "' at step " + std::to_string(step);
  if (step >= 0 && at(step) < plan_.steps.size()) {
    error_ += " ('" + std::string(plan_.steps[at(step)].node) + "')";
  }
  error_ += ": " + what;
  return false;
}

uint64_t Lifecycle::hash(const PlannedBuffer& b) { return fnv1a(space_of(b).memory + b.offset, at(b.bytes)); }

bool Lifecycle::born(int32_t buffer, int32_t step) {
  const PlannedBuffer& b = plan_.buffers[at(buffer)];
  Space& space = space_of(b);
  for (int64_t k = b.offset; k < b.offset + b.bytes; ++k) {
    int32_t& owner = space.owner[at(k)];
    if (owner >= 0) {
      const PlannedBuffer& other = plan_.buffers[at(owner)];
      if (other.last_step > step) {
        return fail(step, b,
                    "is born over byte " + std::to_string(k) + " of '" + other.name +
                        "', which lives until step " + std::to_string(other.last_step));
      }
    } else if (owner != kUnknown && space.memory[k] != kPoison) {
      std::string whose;
      if (owner <= kDead)
        whose = std::string(" after '") + plan_.buffers[at(kDead - owner)].name + "' had died there";
      return fail(step, b, "byte " + std::to_string(k) + " was written before it was born" + whose);
    }
    owner = buffer;
  }
  return true;
}

bool Lifecycle::before(int32_t step) {
  const PlannedStep& s = plan_.steps[at(step)];
  const auto touches = plan_.touches.subspan(at(s.first_touch), at(s.touch_count));
  for (const PlannedTouch& t : touches) {
    const PlannedBuffer& b = plan_.buffers[at(t.buffer)];
    if (step < b.first_step)
      return fail(step, b, "is touched before its birth at step " + std::to_string(b.first_step));
    if (step > b.last_step)
      return fail(step, b, "is touched after its death at step " + std::to_string(b.last_step));
    if (hashed_at_[at(t.buffer)] >= 0 && hash(b) != hash_[at(t.buffer)]) {
      return fail(step, b,
                  "has changed since step " + std::to_string(hashed_at_[at(t.buffer)]) +
                      ", although no write was planned in between");
    }
  }
  for (const int32_t b : births_[at(step)]) {
    if (!born(b, step)) return false;
  }
  return true;
}

bool Lifecycle::after(int32_t step) {
  const PlannedStep& s = plan_.steps[at(step)];
  for (const PlannedTouch& t : plan_.touches.subspan(at(s.first_touch), at(s.touch_count))) {
    const PlannedBuffer& b = plan_.buffers[at(t.buffer)];
    if (t.in_flight || b.last_step == step) {
      hashed_at_[at(t.buffer)] = -1;
    } else if (t.writes) {
      hash_[at(t.buffer)] = hash(b);
      hashed_at_[at(t.buffer)] = step;
    }
  }
  const bool last = at(step) + 1 == plan_.steps.size();
  for (const int32_t buffer : deaths_[at(step)]) {
    const PlannedBuffer& b = plan_.buffers[at(buffer)];
    if (last) continue;  // results are copied from buffers that live to the end
    Space& space = space_of(b);
    for (int64_t k = b.offset; k < b.offset + b.bytes; ++k) {
      if (space.owner[at(k)] != buffer) continue;  // a buffer born at this step has it
      space.memory[k] = kPoison;
      space.owner[at(k)] = kDead - buffer;
    }
  }
  return true;
}

bool Lifecycle::end() {
  const auto steps = static_cast<int32_t>(plan_.steps.size());
  for (Space* space : {&arena_, &segment_}) {
    for (size_t k = 0; k < space->owner.size(); ++k) {
      int32_t& owner = space->owner[k];
      if (owner <= kDead && space->memory[k] != kPoison) {
        return fail(steps, plan_.buffers[at(kDead - owner)],
                    "byte " + std::to_string(k) + " was written after its death at step " +
                        std::to_string(plan_.buffers[at(kDead - owner)].last_step));
      }
      if (owner >= 0 && space == &segment_) owner = kUnknown;
    }
  }
  return true;
}

}  // namespace braid::rt
