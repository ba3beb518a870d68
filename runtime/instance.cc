#include "runtime/instance.h"

#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/futex.h"
#include "runtime/comm/shm_world.h"
#include "runtime/hash.h"
#include "runtime/instance_error.h"
#include "runtime/kernel_variables.h"
#include "runtime/lifecycle.h"
#include "runtime/mapped_weights.h"
#include "runtime/size_errors.h"
#include "runtime/team.h"
#include "runtime/thread_choice.h"

namespace braid::rt {
namespace {

[[noreturn]] void fail(BraidStatus status, std::string message) {
  throw InstanceError{status, std::move(message)};
}

std::string number(int64_t v) { return std::to_string(v); }

// The world of a program with one rank and collectives: without peers, it needs none from the caller.
std::unique_ptr<World> world_of_one(const BraidProgram& table) {
  SharedMemory memory;
  std::unique_ptr<World> world;
  Status status = SharedMemory::create(
      1, {.segment_bytes = table.comm_bytes, .peer_reads = false, .worker = CommWorker::off}, &memory);
  if (status.ok()) status = memory.attach(0, &world);
  if (!status.ok()) fail(BRAID_COMM_ERROR, status.message);
  return world;
}

// Returns the properties of a group's collectives on which its members must agree.
std::string trace_of(const BraidProgram& table, int32_t group) {
  std::string text;
  for (int32_t k = 0; k < table.collective_count; ++k) {
    const BraidCollective& c = table.collectives[k];
    if (c.group != group) continue;
    const bool paired = std::strcmp(c.kind, "send") == 0 || std::strcmp(c.kind, "recv") == 0;
    text += paired ? std::string("send/recv") : std::string(c.kind);
    if (c.reduce[0]) text += std::string(" ") + c.reduce;
    if (!paired && c.detail >= 0) text += " root " + number(c.detail);
    text += std::string(" ") + to_string(static_cast<DType>(c.dtype)) + " " + number(c.max_bytes) + " B";
    if (!paired) text += " at " + number(c.input_offset) + " -> " + number(c.output_offset);
    text += std::string(" '") + c.label + "'\n";
  }
  return text;
}

// The row of the table as the engine's call.
CollectiveCall call_of(const BraidCollective& row) {
  const auto refuse = [&](const char* what, const char* name) {
    fail(BRAID_INTERNAL_ERROR, std::string("the program's table names ") + what + " '" + name + "'");
  };
  CollectiveCall call;
  const auto kind = std::find_if(std::begin(kCollectiveTable), std::end(kCollectiveTable),
                                 [&](const CollectiveRow& r) { return std::strcmp(r.name, row.kind) == 0; });
  if (kind == std::end(kCollectiveTable)) refuse("the collective", row.kind);
  call.kind = kind->kind;
  call.dtype = static_cast<DType>(row.dtype);
  if (row.reduce[0] != 0) {
    constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod};
    const auto op = std::find_if(std::begin(kOps), std::end(kOps),
                                 [&](ReduceOp o) { return std::strcmp(to_string(o), row.reduce) == 0; });
    if (op == std::end(kOps)) refuse("the reduction", row.reduce);
    call.op = *op;
  }
  constexpr Algorithm kAlgorithms[] = {Algorithm::automatic, Algorithm::one_shot, Algorithm::two_shot};
  const auto algorithm = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms), [&](Algorithm a) {
    return std::strcmp(to_string(a), row.algorithm) == 0;
  });
  if (algorithm == std::end(kAlgorithms)) refuse("the algorithm", row.algorithm);
  call.algorithm = *algorithm;
  call.peer = std::max(0, row.detail);
  call.label = row.label;
  return call;
}

constexpr size_t kMeasuredSets = 256;

}  // namespace

struct Instance::Prepared : Choice {
  Prepared(const std::vector<int64_t>& key, int threads) : sizes(key), choice_of_threads(threads) {
    dims = sizes.data();
  }

  const std::vector<int64_t> sizes;
  mutable ThreadChoice choice_of_threads;
};

struct Instance::State {
  explicit State(const BraidProgram& of_program)
      : table(of_program), threads(std::max(1, omp_get_max_threads())), team(threads) {}

  bool check(const Status& result, size_t collective);
  bool plan_held(bool held);

  const BraidProgram& table;
  MappedWeights shared_file, rank_file;
  bool weights_mapped = false;
  std::unique_ptr<World> own_world;  // for a program with one rank that was given none
  World* world = nullptr;
  std::vector<Communicator*> groups;
  std::vector<CollectiveCall> calls;  // of the table's collectives, without sizes and operands
  std::vector<Ticket> tickets;
  std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> sets;      // of prepare
  std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> measured;  // of steps that measure dimensions
  const Prepared* given = nullptr;                                     // of the last prepare
  const int threads;  // of OpenMP, at most, for the library in a step
  Team team;
  std::vector<std::byte> scratch_memory;
  std::unique_ptr<Lifecycle> lifecycle;
  std::string error;
  BraidStatus status = BRAID_OK;
};

Instance::Instance(const BraidProgram& table, const BraidCreateInfo& info, size_t scratch_bytes)
    : state_(new State(table)) {
  const TeamScope scope(&state_->team);
  if (info.abi_version != BRAID_ABI_VERSION || info.struct_size != sizeof(BraidCreateInfo)) {
    fail(BRAID_INVALID_ARGUMENT, "the caller was built for version " + std::to_string(info.abi_version) +
                                     " of the program interface, the program for version " +
                                     std::to_string(BRAID_ABI_VERSION));
  }
  if (info.rank < 0 || info.rank >= table.ranks) {
    fail(BRAID_INVALID_ARGUMENT,
         "rank " + number(info.rank) + " of a program for " + number(table.ranks) + " ranks");
  }
  if (const std::string wrong = kernel_variables_fault(); !wrong.empty()) fail(BRAID_INVALID_ARGUMENT, wrong);
  rank_ = info.rank;
  const uint64_t id = table.compilation_id;
  state_->shared_file = {info.weights, info.weights_bytes, table.weights_bytes, -1, id};
  state_->rank_file = {info.rank_weights, info.rank_weights_bytes, table.rank_weights_bytes, rank_, id};
  weights_ = state_->shared_file.data();
  rank_weights_ = state_->rank_file.data();
  state_->weights_mapped = info.weights_mapped != 0;
  if (table.arena_bytes > 0) {
    if (!info.arena || info.arena_bytes < table.arena_bytes ||
        reinterpret_cast<uintptr_t>(info.arena) % 64 != 0) {
      fail(BRAID_INVALID_ARGUMENT,
           "the arena must be " + std::to_string(table.arena_bytes) + " bytes, aligned to 64");
    }
    arena_ = static_cast<std::byte*>(info.arena);
  }
  state_->world = reinterpret_cast<World*>(info.world);
  if (!state_->world && table.ranks == 1 && table.collective_count > 0) {
    state_->own_world = world_of_one(table);
    state_->world = state_->own_world.get();
  }
  if (table.ranks > 1 || table.collective_count > 0) {
    if (!state_->world)
      fail(BRAID_INVALID_ARGUMENT, "a program for " + number(table.ranks) + " ranks needs a world");
    if (state_->world->size() != table.ranks || state_->world->rank() != rank_) {
      fail(BRAID_INVALID_ARGUMENT, "the program is for " + number(table.ranks) +
                                       " ranks, but the world has " + number(state_->world->size()));
    }
    if (state_->world->segment_bytes() < table.comm_bytes) {
      fail(BRAID_INVALID_ARGUMENT, "the communication segment has " +
                                       std::to_string(state_->world->segment_bytes()) +
                                       " bytes, but the program needs " + std::to_string(table.comm_bytes));
    }
    segment_ = state_->world->segment();
  }
  if (scratch_bytes > 0) {
    scratch_stride_ = (scratch_bytes + 127) / 64 * 64;
    state_->scratch_memory.resize(scratch_stride_ * static_cast<size_t>(state_->threads) + 64);
    scratch_ = state_->scratch_memory.data() +
               (64 - reinterpret_cast<uintptr_t>(state_->scratch_memory.data()) % 64) % 64;
  }
  // Reserved now, because a step must not allocate.
  state_->error.reserve(512);
  state_->tickets.resize(static_cast<size_t>(table.collective_count));
}

Instance::~Instance() = default;

const char* Instance::last_error() const { return state_->error.c_str(); }

void Instance::copies(int64_t bytes) {
  if (state_->world != nullptr) state_->world->count_copied(static_cast<uint64_t>(bytes));
}

void Instance::begin_node(size_t index) {
  times_[index] = {monotonic_ns(), 0, 0};
  node_ = index;
}

void Instance::set_up() {
  const TeamScope scope(&state_->team);
  pack_weights();
  state_->shared_file.check_small_rest();
  state_->rank_file.check_small_rest();
  join_groups();
  if (const LifecyclePlan* plan = lifecycle_plan()) {
    state_->lifecycle = std::make_unique<Lifecycle>(*plan, arena_, segment_);
  }
}

PackedMatrix Instance::pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col,
                            int64_t typical_m) {
  PackedMatrix packed = gemms_.pack(k, n, b, b_row, b_col, typical_m);
  if (!packed.valid()) return packed;  // nothing was read
  const int64_t down = (k - 1) * b_row, across = (n - 1) * b_col;
  weights_packed(b + std::min<int64_t>(down, 0) + std::min<int64_t>(across, 0),
                 b + std::max<int64_t>(down, 0) + std::max<int64_t>(across, 0) + 1);
  return packed;
}

PackedMatrix Instance::pack(DType a_type, DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                            int64_t b_col) {
  PackedMatrix packed = gemms_.pack(a_type, type, k, n, b, b_row, b_col);
  if (!packed.valid()) return packed;
  const int64_t down = (k - 1) * b_row, across = (n - 1) * b_col;
  const auto* bytes = static_cast<const std::byte*>(b);
  weights_packed(bytes + std::min<int64_t>(down, 0) + std::min<int64_t>(across, 0),
                 bytes + std::max<int64_t>(down, 0) + std::max<int64_t>(across, 0) + 1);
  return packed;
}

void Instance::pack(const ConvolutionShape& shape, const void* b) {
  windows_.kernel(shape, b);
  if (shape.weights() == 0) return;
  int64_t last = (shape.groups - 1) * shape.b_group + (shape.channels - 1) * shape.b_channel +
                 (shape.filters - 1) * shape.b_filter;
  for (int d = 0; d < shape.spatial; ++d) last += (shape.taps[d] - 1) * shape.b_tap[d];
  const auto* bytes = static_cast<const std::byte*>(b);
  weights_packed(bytes, bytes + (last + 1) * static_cast<int64_t>(size_of(shape.b_type)));
}

int64_t Instance::column_block(size_t first, size_t count) const {
  const int64_t block = current_->gemms[first].column_block();
  for (size_t k = first + 1; k < first + count; ++k) {
    if (current_->gemms[k].column_block() != block) return 0;
  }
  return block;
}

void Instance::weights_packed(const void* begin, const void* end) {
  MappedWeights& file = state_->rank_file.holds(begin) ? state_->rank_file : state_->shared_file;
  file.check(begin, end);
  if (!state_->weights_mapped) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(begin) / page * page;
  ::madvise(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(end) - first,
            MADV_DONTNEED);  // may be refused
}

void Instance::join_groups() {
  for (int32_t k = 0; k < state_->table.collective_count; ++k)
    state_->calls.push_back(call_of(state_->table.collectives[k]));
  for (int32_t g = 0; g < state_->table.group_count; ++g) {
    const BraidGroup& group = state_->table.groups[g];
    const int32_t* const end = group.ranks + group.size * group.parts;
    const auto me = std::find(group.ranks, end, rank_) - group.ranks;
    const bool member = me < end - group.ranks;
    Communicator* communicator = nullptr;
    const bool used =
        std::any_of(state_->table.collectives, state_->table.collectives + state_->table.collective_count,
                    [&](const BraidCollective& c) { return c.group == g; });
    if (used && member) {
      const int32_t* const part = group.ranks + me / group.size * group.size;
      const std::vector<int> ranks(part, part + group.size);
      Status status = state_->world->group(ranks, group.name, &communicator);
      if (status.ok() && communicator) {
        const std::string trace = trace_of(state_->table, g);
        status = communicator->compare_fingerprint(fnv1a(trace), trace);
      }
      if (!status.ok()) fail(BRAID_COMM_ERROR, "group '" + std::string(group.name) + "': " + status.message);
    }
    state_->groups.push_back(communicator);
  }
}

void Instance::guard(bool holds, const int64_t* dims, const char* text) const {
  if (!holds) fail(BRAID_BAD_SIZE, guard_error(state_->table, dims, text));
}

const Instance::Prepared* Instance::prepare_sizes(bool measured, const int64_t* dims) {
  const std::vector<int64_t> key(dims, dims + state_->table.dim_count);
  auto& sets = measured ? state_->measured : state_->sets;
  const auto found = sets.find(key);
  if (found != sets.end()) return found->second.get();
  if (std::string error = bounds_error(state_->table, dims); !error.empty()) fail(BRAID_BAD_SIZE, error);
  check_guards(dims);
  auto made = std::make_unique<Prepared>(key, state_->threads);
  choose_gemms(dims, made->gemms);
  choose_windows(dims, made->windows);
  choose_attentions(dims, made->attentions);
  return sets.emplace(key, std::move(made)).first->second.get();
}

BraidStatus Instance::prepare(const int64_t* dims) noexcept {
  const TeamScope scope(&state_->team);
  try {
    std::vector<int64_t> key(dims, dims + state_->table.dim_count);
    for (size_t k = 0; k < key.size(); ++k) {
      if (state_->table.dims[k].measured != 0) key[k] = state_->table.dims[k].max;
    }
    current_ = state_->given = prepare_sizes(false, key.data());
    return BRAID_OK;
  } catch (...) {
    state_->status = abi::current_exception();
    try {
      state_->error = abi::reported();
    } catch (...) {
    }
    return state_->status;
  }
}

void Instance::measure(size_t dim, int64_t value, const char* node) {
  const BraidDim& measured = state_->table.dims[dim];
  if (value < measured.min || value > measured.max) {
    fail(BRAID_BAD_SIZE,
         std::string("'") + node + "': dimension '" + measured.name + "' is " + std::to_string(value) +
             (value > measured.max ? ", more than its capacity of " + std::to_string(measured.max)
                                   : ", less than " + std::to_string(measured.min)));
  }
  std::vector<int64_t> sizes(current_->dims, current_->dims + state_->table.dim_count);
  sizes[dim] = value;
  current_ = prepare_sizes(true, sizes.data());
}

namespace {

// OpenMP's number of threads belongs to the calling thread, so a step may find more threads than the instance
// was made for.
class AtMostThreads {
 public:
  explicit AtMostThreads(int most) : before_(omp_get_max_threads()), lowered_(before_ > most) {
    if (lowered_) omp_set_num_threads(most);
  }
  ~AtMostThreads() {
    if (lowered_) omp_set_num_threads(before_);
  }
  AtMostThreads(const AtMostThreads&) = delete;
  AtMostThreads& operator=(const AtMostThreads&) = delete;

 private:
  const int before_;
  const bool lowered_;
};

}  // namespace

BraidStatus Instance::run(const void* const* inputs, void* const* outputs) noexcept {
  if (!current_) {
    state_->error = "run before prepare";
    return BRAID_INVALID_ARGUMENT;
  }
  const AtMostThreads limit(state_->threads);
  current_ = state_->given;
  // Data may decide for any number of sizes: those of the last steps are kept.
  if (state_->measured.size() > kMeasuredSets) state_->measured.clear();
  // A step with collectives waits for other ranks, so its duration tells nothing about threads.
  const bool timed = state_->threads > 1 && state_->table.collective_count == 0;
  const std::optional<TimedStep> time = timed ? std::optional<TimedStep>(std::in_place) : std::nullopt;
  const TeamScope scope(state_->given->choice_of_threads.team() ? &state_->team : nullptr);
  index_error_ = {};
  try {
    if (state_->lifecycle) state_->lifecycle->begin();
    if (step(inputs, outputs) && (!state_->lifecycle || state_->plan_held(state_->lifecycle->end()))) {
      node(static_cast<size_t>(state_->table.node_count));
      if (time) time->report(state_->given->choice_of_threads);
      return BRAID_OK;
    }
  } catch (...) {
    state_->status = abi::current_exception();
    state_->error = abi::reported();
  }
  if (state_->world && state_->table.collective_count > 0 && state_->status != BRAID_COMM_ERROR)
    state_->world->abort(state_->error);
  return state_->status;
}

bool Instance::State::plan_held(bool held) {
  if (held) return true;
  status = BRAID_INTERNAL_ERROR;
  error = lifecycle->error();
  return false;
}

bool Instance::before_step(int32_t step) { return state_->plan_held(state_->lifecycle->before(step)); }
bool Instance::after_step(int32_t step) { return state_->plan_held(state_->lifecycle->after(step)); }

bool Instance::State::check(const Status& result, size_t collective) {
  if (result.ok()) return true;
  status = BRAID_COMM_ERROR;
  const BraidCollective& c = table.collectives[collective];
  error = std::string(c.kind) + " of node '" + c.label + "': " + result.message;
  return false;
}

namespace {
// Ticket of a send to or a receive from itself, in which this rank takes no part.
constexpr uint64_t kPassedOver = ~uint64_t{0};
}  // namespace

bool Instance::start(size_t index, int64_t count, const void* input, void* output) {
  Communicator* group = state_->groups[static_cast<size_t>(state_->table.collectives[index].group)];
  CollectiveCall& call = state_->calls[index];
  call.count = static_cast<size_t>(count);
  call.input = input;
  call.output = output;
  const bool transfer = row_of(call.kind).point_to_point;
  if (group && transfer && call.peer == group->index()) {
    state_->tickets[index].value = kPassedOver;
    return true;
  }
  return !group || state_->check(group->start(call, &state_->tickets[index]), index);
}
bool Instance::wait(size_t index) {
  Communicator* group = state_->groups[static_cast<size_t>(state_->table.collectives[index].group)];
  if (!group || state_->tickets[index].value == kPassedOver) return true;
  if (!state_->check(group->wait(state_->tickets[index]), index)) return false;
  if (times_ != nullptr) [[unlikely]] {
    const LinkTimes link = group->link_times(state_->tickets[index]);
    times_[node_].due_ns = std::max(times_[node_].due_ns, link.due_ns);
    times_[node_].slept_ns += link.slept_ns;
  }
  return true;
}
bool Instance::release(size_t index) {
  Communicator* group = state_->groups[static_cast<size_t>(state_->table.collectives[index].group)];
  return !group || state_->tickets[index].value == kPassedOver ||
         state_->check(group->release(state_->tickets[index]), index);
}

bool Instance::indices_ok(const char* const* sites) {
  if (index_error_.site < 0) return true;
  state_->status = BRAID_BAD_INDEX;
  state_->error = std::string("node '") + sites[index_error_.site] + "': index " +
                  number(index_error_.value) + " is out of range for an axis of size " +
                  number(index_error_.size);
  return false;
}

bool Instance::call_extern(const char* node, BraidExternKernel kernel,
                           std::initializer_list<BraidTensorView> reads,
                           std::initializer_list<BraidTensorView> writes,
                           std::initializer_list<BraidAttribute> attributes) {
  const char* why = rt::call_extern(kernel, reads, writes, attributes, nullptr);
  if (why == nullptr) return true;
  state_->status = BRAID_LIBRARY_ERROR;
  state_->error = std::string("node '") + node + "': the extern kernel failed: " + why;
  return false;
}

namespace abi {
namespace {
thread_local std::string last;
}
BraidStatus report(BraidStatus status, const char* message) {
  last = message;
  return status;
}
const char* reported() { return last.c_str(); }
BraidStatus check_processor(uint32_t features) {
  const char* missing = missing_feature(features);
  if (missing == nullptr) return BRAID_OK;
  const std::string message = std::string("the program was compiled for a processor with ") + missing +
                              ", which this one lacks: compile it here, or with --cpu";
  return report(BRAID_INVALID_ARGUMENT, message.c_str());
}
BraidStatus current_exception() noexcept {
  try {
    throw;
  } catch (const InstanceError& e) {
    return report(e.status, e.message.c_str());
  } catch (const std::bad_alloc&) {
    return report(BRAID_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return report(BRAID_LIBRARY_ERROR, e.what());
  } catch (...) {
    return report(BRAID_INTERNAL_ERROR, "unknown exception");
  }
}
}  // namespace abi

}  // namespace braid::rt
