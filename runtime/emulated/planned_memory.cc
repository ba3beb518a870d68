#include "runtime/emulated/planned_memory.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>

#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {

using PlannedPlace = rt::cuda::Place;
using rt::cuda::PlannedBuffer;
using rt::cuda::PlannedMemory;
using rt::cuda::Touch;
using Bytes = DeclaredStep::Bytes;

// The state of one instance, over all its runs.
struct PlanState {
  std::mutex mutex;
  // By buffer: bytes taken over in place that its own steps have not written yet.
  std::map<int, std::vector<Bytes>> taken_over;
  // As enqueued: the latest step of the run, and by buffer what its steps have touched.
  int latest = -1;
  std::map<int, std::vector<Bytes>> born;
  std::atomic<bool> abandoned = false;
};

namespace {

struct Segment {
  const PlannedBuffer* program;  // equal for all ranks of a program
  int64_t bytes;
};
struct Plans {
  std::mutex mutex;
  std::map<const PlannedMemory*, std::shared_ptr<PlanState>> states;
  std::map<uintptr_t, Segment> segments;
};
Plans& plans() {
  static Plans* instance = new Plans;
  return *instance;
}

thread_local const DeclaredStep* step_of_thread = nullptr;

constexpr uintptr_t kNowhere = std::numeric_limits<uintptr_t>::max();

uintptr_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

std::shared_ptr<PlanState> state_of(const PlannedMemory& plan) {
  Plans& all = plans();
  std::lock_guard lock(all.mutex);
  if (plan.segment != nullptr) all.segments[address_of(plan.segment)] = {plan.buffers, plan.segment_bytes};
  std::shared_ptr<PlanState>& state = all.states[&plan];
  if (!state) state = std::make_shared<PlanState>();
  return state;
}

// The segment, of any rank of the program, in whose allocation the address lies; 0: none.
uintptr_t segment_at(const PlannedBuffer* program, uintptr_t address) {
  Plans& all = plans();
  std::lock_guard lock(all.mutex);
  auto at = all.segments.upper_bound(address);
  if (at == all.segments.begin()) return 0;
  --at;
  const bool same =
      at->second.program == program && device_memory().find(at->first) == device_memory().find(address);
  return same ? at->first : 0;
}

void subtract(std::vector<Bytes>& from, Bytes what) {
  std::vector<Bytes> rest;
  for (const Bytes& b : from) {
    if (what.end <= b.begin || b.end <= what.begin) {
      rest.push_back(b);
      continue;
    }
    if (b.begin < what.begin) rest.push_back({b.begin, what.begin});
    if (what.end < b.end) rest.push_back({what.end, b.end});
  }
  from = std::move(rest);
}

Bytes absolute(const AccessRange& range) {
  const uintptr_t base = device_memory().at(range.allocation).begin;
  return {base + range.begin, base + range.end};
}

std::string text_of(uintptr_t begin, uintptr_t end, uintptr_t base) {
  return "bytes [" + std::to_string(begin - base) + ", " + std::to_string(end - base) + ")";
}

std::string quoted(const char* name) { return "'" + std::string(name) + "'"; }

const char* kind_text(PlannedPlace place) {
  switch (place) {
    case PlannedPlace::weights:
    case PlannedPlace::rank_weights:
      return "constant ";
    case PlannedPlace::input:
      return "input ";
    case PlannedPlace::output:
      return "output ";
    default:
      return "";
  }
}

std::string lives_in(const PlannedBuffer& b) {
  if (b.last_step < 0) return "from step " + std::to_string(b.first_step);
  return b.first_step == b.last_step
             ? "in step " + std::to_string(b.first_step)
             : "in steps " + std::to_string(b.first_step) + " to " + std::to_string(b.last_step);
}

AccessRanges as_writes(const std::vector<Bytes>& bytes) {
  AccessRanges out;
  for (const Bytes& b : bytes) {
    const int allocation = device_memory().find(b.begin);
    const uintptr_t base = device_memory().at(allocation).begin;
    out.writes.push_back({allocation, b.begin - base, b.end - base});
  }
  return out;
}

std::vector<Bytes> merged(std::vector<Bytes> bytes) {
  std::sort(bytes.begin(), bytes.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  std::vector<Bytes> out;
  for (const Bytes& b : bytes) {
    if (!out.empty() && b.begin <= out.back().end)
      out.back().end = std::max(out.back().end, b.end);
    else
      out.push_back(b);
  }
  return out;
}

// Both sorted and without overlaps.
std::vector<Bytes> difference(const std::vector<Bytes>& from, const std::vector<Bytes>& what) {
  std::vector<Bytes> out;
  auto cut = what.begin();
  for (Bytes b : from) {
    while (cut != what.end() && cut->end <= b.begin) ++cut;
    for (auto c = cut; c != what.end() && c->begin < b.end; ++c) {
      if (b.begin < c->begin) out.push_back({b.begin, c->begin});
      b.begin = std::max(b.begin, c->end);
    }
    if (b.begin < b.end) out.push_back(b);
  }
  return out;
}

}  // namespace

// ------------------------------------------------------------------------------------------ what is declared

uintptr_t DeclaredStep::Declared::end_from(uintptr_t address) const {
  if (address < first || address >= end()) return 0;
  const uintptr_t row =
      rows > 1 ? first + (address - first) / static_cast<uintptr_t>(pitch) * static_cast<uintptr_t>(pitch)
               : first;
  const uintptr_t stop = row + static_cast<uintptr_t>(bytes);
  return address < stop ? stop : 0;
}

uintptr_t DeclaredStep::Declared::next_from(uintptr_t address) const {
  if (address < first) return first;
  if (rows <= 1 || address >= end()) return kNowhere;
  const int64_t row = static_cast<int64_t>(address - first) / pitch + 1;
  return row < rows ? first + static_cast<uintptr_t>(row * pitch) : kNowhere;
}

DeclaredStep::DeclaredStep(const PlannedMemory& plan, int number, const std::string& label,
                           std::initializer_list<Touch> touches)
    : plan_(plan), number_(number), state_(state_of(plan)) {
  for (int k = 0; k < plan.buffer_count; ++k) {
    const PlannedBuffer& b = buffer(k);
    const void* base = b.place == PlannedPlace::arena          ? plan.arena
                       : b.place == PlannedPlace::segment      ? plan.segment
                       : b.place == PlannedPlace::weights      ? plan.weights
                       : b.place == PlannedPlace::rank_weights ? plan.rank_weights
                       : b.place == PlannedPlace::input        ? plan.inputs[b.offset]
                                                               : plan.outputs[b.offset];
    const bool planned = b.place != PlannedPlace::input && b.place != PlannedPlace::output;
    bases_.push_back(address_of(base) + (planned ? static_cast<uintptr_t>(b.offset) : 0));
  }
  const std::string who = "step " + std::to_string(number) + " [" + label + "]";
  for (const Touch& touch : touches) declare(touch, who);
  std::lock_guard lock(state_->mutex);
  if (number <= state_->latest) state_->born.clear();  // another run
  state_->latest = number;
  for (const Touch& touch : touches) find_birth(touch.buffer, who);
}

void DeclaredStep::declare(const Touch& touch, const std::string& who) {
  const PlannedBuffer& b = buffer(touch.buffer);
  const int64_t bytes = touch.bytes == rt::cuda::kWholeBuffer ? b.bytes : touch.bytes;
  if (bytes <= 0 || touch.rows <= 0) return;
  const int64_t end = touch.first + (touch.rows - 1) * touch.pitch + bytes;
  if (touch.first < 0 || end > b.bytes) {
    finding_list().add(FindingKind::kMemoryPlan, who + " declares bytes [" + std::to_string(touch.first) +
                                                     ", " + std::to_string(end) + ") of " + quoted(b.name) +
                                                     ", for which " + std::to_string(b.bytes) +
                                                     " bytes are planned");
  }
  const bool lives =
      b.first_step < 0 || (b.first_step <= number_ && (b.last_step < 0 || number_ <= b.last_step));
  if (!lives) {
    finding_list().add(FindingKind::kMemoryPlan,
                       who + " declares " + quoted(b.name) + ", which only lives " + lives_in(b));
  }
  declared_.push_back({touch.buffer, touch.writes,
                       bases_[static_cast<size_t>(touch.buffer)] + static_cast<uintptr_t>(touch.first), bytes,
                       touch.rows, touch.pitch});
}

bool DeclaredStep::is_declared(int index) const {
  return std::any_of(declared_.begin(), declared_.end(),
                     [&](const Declared& d) { return d.buffer == index; });
}

void DeclaredStep::find_birth(int index, const std::string& who) {
  const PlannedBuffer& mine = buffer(index);
  if (mine.first_step < 0 ||
      std::any_of(births_.begin(), births_.end(), [&](const Birth& b) { return b.buffer == index; }))
    return;
  std::vector<Bytes> touched;
  for (const Declared& d : declared_) {
    if (d.buffer != index || (mine.place == PlannedPlace::output && !d.writes)) continue;
    for (int64_t row = 0; row < d.rows; ++row) {
      const uintptr_t begin = d.first + static_cast<uintptr_t>(row * d.pitch);
      touched.push_back({begin, begin + static_cast<uintptr_t>(d.bytes)});
    }
  }
  touched = merged(std::move(touched));
  std::vector<Bytes>& born = state_->born[index];
  Birth birth{index, difference(touched, born), {}};
  touched.insert(touched.end(), born.begin(), born.end());
  born = merged(std::move(touched));
  if (birth.fresh.empty()) return;
  const uintptr_t begin = bases_[static_cast<size_t>(index)];
  for (int k = 0; k < plan_.buffer_count && mine.place != PlannedPlace::output; ++k) {
    const PlannedBuffer& other = buffer(k);
    const bool overlap = k != index && other.place == mine.place && other.offset < mine.offset + mine.bytes &&
                         mine.offset < other.offset + other.bytes;
    if (!overlap || other.first_step > number_ || other.last_step < number_) continue;
    const uintptr_t other_begin = bases_[static_cast<size_t>(k)];
    const Bytes both = {std::max(begin, other_begin),
                        std::min(begin + static_cast<uintptr_t>(mine.bytes),
                                 other_begin + static_cast<uintptr_t>(other.bytes))};
    if (other.last_step == number_ && other.first_step < number_) {
      const std::vector<Bytes> left = difference(birth.fresh, {both});
      const std::vector<Bytes> taken = difference(birth.fresh, left);
      birth.taken_over.insert(birth.taken_over.end(), taken.begin(), taken.end());
      birth.fresh = left;
    } else if (mine.first_step == number_) {
      finding_list().add(FindingKind::kMemoryPlan, who + ": " + quoted(mine.name) + " is born in " +
                                                       text_of(both.begin, both.end, other_begin) + " of " +
                                                       quoted(other.name) + ", which lives " +
                                                       lives_in(other));
    }
  }
  births_.push_back(std::move(birth));
}

std::string DeclaredStep::names_of_births() const {
  std::string out;
  for (const Birth& b : births_) out += (out.empty() ? "" : ", ") + quoted(buffer(b.buffer).name);
  return out;
}

std::vector<Bytes> DeclaredStep::begin_lives() const {
  std::vector<Bytes> fresh;
  std::lock_guard lock(state_->mutex);
  for (const Birth& birth : births_) {
    std::vector<Bytes>& taken = state_->taken_over[birth.buffer];
    if (buffer(birth.buffer).first_step == number_) taken.clear();
    taken.insert(taken.end(), birth.taken_over.begin(), birth.taken_over.end());
    fresh.insert(fresh.end(), birth.fresh.begin(), birth.fresh.end());
  }
  return merged(std::move(fresh));
}

// ------------------------------------------------------------------------------------------ what was touched

bool DeclaredStep::alive(int index) const {
  const PlannedBuffer& b = buffer(index);
  return b.first_step <= number_ && (b.last_step < 0 || number_ <= b.last_step);
}

// Returns the owner of a byte. Among the buffers there it is the one that is alive, else the last to have
// died, else the next to be born; -1 if there is none.
int DeclaredStep::owner(uintptr_t address) const {
  int best = -1;
  const auto rank = [&](int k) {
    const PlannedBuffer& b = buffer(k);
    if (alive(k)) return std::numeric_limits<int>::max();
    return b.first_step > number_ ? -b.first_step : b.last_step + 1;
  };
  for (int k = 0; k < plan_.buffer_count; ++k) {
    const uintptr_t base = bases_[static_cast<size_t>(k)];
    if (address < base || address - base >= static_cast<uintptr_t>(buffer(k).bytes)) continue;
    if (best < 0 || rank(k) > rank(best)) best = k;
  }
  return best;
}

void DeclaredStep::report(const std::string& who, Access access, uintptr_t begin, uintptr_t end,
                          const std::string& peer) const {
  const int there = owner(begin);
  const int index = device_memory().find(begin);
  std::string place = index < 0 ? "unknown memory" : device_memory().at(index).describe();
  uintptr_t base = index < 0 ? begin : device_memory().at(index).begin;
  const auto same = [&](const void* other) {
    return other != nullptr && device_memory().find(address_of(other)) == index;
  };
  if (same(plan_.arena)) place = "the arena";
  if (same(plan_.segment)) place = "the segment" + peer;
  if (same(plan_.weights)) place = "the weights";
  if (same(plan_.rank_weights)) place = "the weights of the rank";
  std::string why;
  for (const Declared& d : declared_) {
    const PlannedPlace p = buffer(d.buffer).place;
    if (d.end() != begin) continue;
    if (p == PlannedPlace::input || p == PlannedPlace::output) base = d.first, place = "the memory of ";
    if (p == PlannedPlace::input || p == PlannedPlace::output)
      place += kind_text(p) + quoted(buffer(d.buffer).name);
    why += "; they lie right behind " + quoted(buffer(d.buffer).name);
    break;
  }
  if (there < 0) {
    why += why.empty() ? "; no buffer is there" : "";
  } else {
    const PlannedBuffer& b = buffer(there);
    const std::string name = kind_text(b.place) + quoted(b.name);
    if (b.place == PlannedPlace::input || b.place == PlannedPlace::output)
      base = bases_[static_cast<size_t>(there)], place = name;
    if (is_declared(there) && access != Access::kRead) {
      const bool written = std::any_of(declared_.begin(), declared_.end(),
                                       [&](const Declared& d) { return d.buffer == there && d.writes; });
      why += written ? "; it writes other bytes of " + name : "; it only reads " + name;
    } else if (is_declared(there)) {
      why += "; it touches other bytes of " + name;
    } else if (b.first_step < 0) {
      why += "; " + name + " is there";
    } else {
      why += "; " + name + " is there" + (alive(there) ? "" : ", but dead") + ": it lives " + lives_in(b);
    }
  }
  const char* verb = access == Access::kRead    ? " reads "
                     : access == Access::kWrite ? " writes "
                                                : " changes ";
  const std::string text = who + ", step " + std::to_string(number_) + "," + verb +
                           text_of(begin, end, base) + " of " + place + ", which the step does not declare" +
                           why;
  finding_list().add(FindingKind::kUndeclaredAccess,
                     who + verb + std::to_string(number_) + " " + place + " " + std::to_string(there), text);
}

void DeclaredStep::check_ranges(const std::string& who, const std::vector<AccessRange>& ranges,
                                Access access) const {
  constexpr int kMost = 4;  // findings of one operation
  int found = 0, allocation = -1;
  Peer peer;
  for (const AccessRange& range : ranges) {
    if (range.allocation != allocation) peer = peer_of(allocation = range.allocation);
    if (device_memory().at(allocation).begin == address_of(plan_.workspace)) continue;
    // A kernel that waits long for a peer polls the host's flag.
    if (access == Access::kRead && device_memory().at(allocation).begin == address_of(plan_.abandoned))
      continue;
    const Bytes bytes = {absolute(range).begin + peer.distance, absolute(range).end + peer.distance};
    if (access == Access::kAtomic) {
      // A peer may not have begun a step yet, but its segment is laid out like this rank's.
      const Allocation& memory = device_memory().at(range.allocation);
      const bool flag = plan_.segment != nullptr && memory.kind == AllocationKind::kNccl &&
                        range.begin >= static_cast<size_t>(plan_.segment_bytes);
      if (flag || bytes.begin == address_of(plan_.error_flag)) continue;
    }
    for (uintptr_t at = bytes.begin; at < bytes.end;) {
      uintptr_t stop = 0, next = bytes.end;
      for (const Declared& d : declared_) {
        if (access != Access::kRead && !d.writes) continue;
        stop = std::max(stop, d.end_from(at));
        next = std::min(next, d.next_from(at));
      }
      if (stop == 0) {
        if (++found > kMost) return;
        report(who, access, at, next, peer.text);
        stop = next;
      }
      at = stop;
    }
  }
}

std::string DeclaredStep::overrun(uintptr_t begin, uintptr_t end) const {
  const Declared* left = nullptr;
  for (const Declared& d : declared_) {
    if (d.end_from(begin) == 0) continue;
    if (end <= d.end()) return {};
    if (left == nullptr || left->end() < d.end()) left = &d;
  }
  if (left == nullptr) return {};  // its accesses are not declared
  return std::to_string(end - left->end()) + " bytes past " + quoted(buffer(left->buffer).name);
}

DeclaredStep::Peer DeclaredStep::peer_of(int allocation) const {
  const Allocation& memory = device_memory().at(allocation);
  const uintptr_t segment = segment_at(plan_.buffers, memory.begin);
  if (segment == 0 || segment == address_of(plan_.segment)) return {};
  return {address_of(plan_.segment) - segment, " of rank " + std::to_string(memory.device)};
}

void DeclaredStep::report_unwritten(const std::string& who, OperationId operation, Bytes bytes,
                                    const Peer& peer) const {
  if (state_->abandoned) return;
  for (const Declared& d : declared_) {
    if (d.end_from(bytes.begin) == 0) continue;
    const PlannedBuffer& b = buffer(d.buffer);
    const uintptr_t base = bases_[static_cast<size_t>(d.buffer)];
    const int allocation = device_memory().find(bytes.begin - peer.distance);
    const uintptr_t start = device_memory().at(allocation).begin + peer.distance;
    std::string text = who + ", step " + std::to_string(number_) + ", reads " +
                       text_of(bytes.begin, bytes.end, base) + " of " + kind_text(b.place) + quoted(b.name) +
                       peer.text + ", which nobody has written";
    if (b.first_step >= 0) text += " since its birth at step " + std::to_string(b.first_step);
    finding_list().add_uninitialized(who + " / " + std::to_string(d.buffer) + peer.text, text, operation,
                                     static_cast<uint32_t>(allocation), bytes.begin - start,
                                     bytes.end - start);
    return;
  }
}

// Checks declared bytes only: undeclared bytes have a finding of their own, and the contents of a dead buffer
// are not defined.
void DeclaredStep::check_unwritten(const std::string& who, OperationId operation,
                                   const std::vector<AccessRange>& ranges) const {
  for (const AccessRange& range : ranges) {
    const Peer peer = peer_of(range.allocation);
    const Bytes bytes = absolute(range);
    const uintptr_t end = bytes.end + peer.distance;
    for (uintptr_t at = bytes.begin + peer.distance; at < end;) {
      uintptr_t stop = 0, next = end;
      for (const Declared& d : declared_) {
        stop = std::max(stop, d.end_from(at));
        next = std::min(next, d.next_from(at));
      }
      if (stop != 0) report_unwritten(who, operation, {at, std::min(stop, end)}, peer);
      at = stop != 0 ? stop : next;
    }
  }
}

void DeclaredStep::check_taken_over(const std::string& who, OperationId operation,
                                    const AccessRanges& ranges) const {
  std::lock_guard lock(state_->mutex);
  for (auto& [index, left] : state_->taken_over) {
    if (left.empty() || !is_declared(index)) continue;
    for (const AccessRange& range : ranges.writes) subtract(left, absolute(range));
    if (buffer(index).first_step == number_) continue;
    for (const AccessRange& range : ranges.reads) {
      const Bytes read = absolute(range);
      for (const Bytes& b : left) {
        if (b.end <= read.begin || read.end <= b.begin) continue;
        report_unwritten(who, operation, {std::max(b.begin, read.begin), std::min(b.end, read.end)}, {});
      }
    }
  }
}

void DeclaredStep::check(const std::string& who, OperationId operation, AccessRanges& ranges) const {
  check_ranges(who, ranges.reads, Access::kRead);
  check_ranges(who, ranges.writes, Access::kWrite);
  check_ranges(who, ranges.atomics, Access::kAtomic);
  check_unwritten(who, operation, ranges.uninitialized);
  check_taken_over(who, operation, ranges);
  ranges.uninitialized.clear();
}

// ------------------------------------------------------------------------------------------------- the calls

const DeclaredStep* running_step() { return step_of_thread; }

Task in_step(std::shared_ptr<const DeclaredStep> step, Task task) {
  return [step = std::move(step), task = std::move(task)](TaskContext& context) {
    step_of_thread = step.get();
    const bool good = task(context);
    step_of_thread = nullptr;
    return good;
  };
}

namespace {

// Overwrites the bytes with poison, as an operation of the stream.
void poison(TaskContext& context, const std::string& name, const std::vector<Bytes>& bytes) {
  const Checker::Operation operation =
      checker().begin(context.lane.thread, context.clock, name, context.label);
  for (const Bytes& b : bytes) device_memory().forget(b.begin, b.end);
  checker().finish(operation, as_writes(bytes));
}

}  // namespace

void begin_step(const PlannedMemory& plan, int number, cudaStream_t handle,
                std::initializer_list<Touch> touches) {
  HostThread& host = host_thread();
  host.declared = nullptr;
  CUstream_st* stream = find_stream(handle);
  if (!options().check_accesses || stream == nullptr) return;
  const auto step = std::make_shared<const DeclaredStep>(plan, number, host.label, touches);
  if (!step->births().empty()) {
    stream->enqueue({WorkKind::kOperation, "birth", [step](TaskContext& context) {
                       poison(context, "birth of " + step->names_of_births(), step->begin_lives());
                       return true;
                     }});
  }
  host.declared = step;
}

void end_steps(const PlannedMemory& plan, cudaStream_t handle, bool complete) {
  host_thread().declared = nullptr;
  const std::shared_ptr<PlanState> state = state_of(plan);
  {
    std::lock_guard lock(state->mutex);
    state->latest = -1;
    state->born.clear();
  }
  CUstream_st* stream = find_stream(handle);
  if (!options().check_accesses || stream == nullptr || !complete) return;
  std::vector<Bytes> left;
  for (int k = 0; k < plan.buffer_count; ++k) {
    const PlannedBuffer& b = plan.buffers[k];
    if (b.bytes <= 0 || (b.place != PlannedPlace::arena && b.place != PlannedPlace::segment)) continue;
    const uintptr_t begin = address_of(b.place == PlannedPlace::arena ? plan.arena : plan.segment) +
                            static_cast<uintptr_t>(b.offset);
    left.push_back({begin, begin + static_cast<uintptr_t>(b.bytes)});
  }
  if (left.empty()) return;
  stream->enqueue(
      {WorkKind::kOperation, "the end of the run", [left = merged(std::move(left))](TaskContext& context) {
         poison(context, "the end of the run", left);
         return true;
       }});
}

void abandon_plan(const PlannedMemory& plan) { state_of(plan)->abandoned = true; }

void forget_plan(const PlannedMemory& plan) {
  Plans& all = plans();
  std::lock_guard lock(all.mutex);
  all.states.erase(&plan);
  if (plan.segment != nullptr) all.segments.erase(address_of(plan.segment));
}

}  // namespace braid::emulated
