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

#include "runtime/comm/collective_kinds.h"
#include "runtime/comm/futex.h"
#include "runtime/comm/shm_world.h"
#include "runtime/hash.h"
#include "runtime/kernel_variables.h"
#include "runtime/lifecycle.h"
#include "runtime/size_errors.h"

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

struct Instance::PreparedByDims {
  PreparedSets sets;      // of prepare
  PreparedSets measured;  // of steps that measure dimensions
};

Instance::Instance(const BraidProgram& table, const BraidCreateInfo& info, size_t scratch_bytes)
    : table_(table),
      prepared_(new PreparedByDims),
      threads_(std::max(1, omp_get_max_threads())),
      team_(threads_) {
  const TeamScope scope(&team_);
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
  shared_file_ = {info.weights, info.weights_bytes, table.weights_bytes, -1, id};
  rank_file_ = {info.rank_weights, info.rank_weights_bytes, table.rank_weights_bytes, rank_, id};
  weights_ = shared_file_.data();
  rank_weights_ = rank_file_.data();
  weights_mapped_ = info.weights_mapped != 0;
  if (table.arena_bytes > 0) {
    if (!info.arena || info.arena_bytes < table.arena_bytes ||
        reinterpret_cast<uintptr_t>(info.arena) % 64 != 0) {
      fail(BRAID_INVALID_ARGUMENT,
           "the arena must be " + std::to_string(table.arena_bytes) + " bytes, aligned to 64");
    }
    arena_ = static_cast<std::byte*>(info.arena);
  }
  world_ = reinterpret_cast<World*>(info.world);
  if (!world_ && table.ranks == 1 && table.collective_count > 0) {
    own_world_ = Owned<World>(world_of_one(table).release());
    world_ = own_world_.get();
  }
  if (table.ranks > 1 || table.collective_count > 0) {
    if (!world_)
      fail(BRAID_INVALID_ARGUMENT, "a program for " + number(table.ranks) + " ranks needs a world");
    if (world_->size() != table.ranks || world_->rank() != rank_) {
      fail(BRAID_INVALID_ARGUMENT, "the program is for " + number(table.ranks) +
                                       " ranks, but the world has " + number(world_->size()));
    }
    if (world_->segment_bytes() < table.comm_bytes) {
      fail(BRAID_INVALID_ARGUMENT, "the communication segment has " +
                                       std::to_string(world_->segment_bytes()) +
                                       " bytes, but the program needs " + std::to_string(table.comm_bytes));
    }
    segment_ = world_->segment();
  }
  if (scratch_bytes > 0) {
    scratch_stride_ = (scratch_bytes + 127) / 64 * 64;
    scratch_memory_.resize(scratch_stride_ * static_cast<size_t>(threads_) + 64);
    scratch_ = scratch_memory_.data() + (64 - reinterpret_cast<uintptr_t>(scratch_memory_.data()) % 64) % 64;
  }
  // Reserved now, because a step must not allocate.
  error_.reserve(512);
  tickets_.resize(static_cast<size_t>(table.collective_count));
}

Instance::~Instance() = default;

void Instance::begin_node(size_t index) {
  times_[index] = {monotonic_ns(), 0, 0};
  node_ = index;
}

void Instance::set_up() {
  const TeamScope scope(&team_);
  pack_weights();
  shared_file_.check_small_rest();
  rank_file_.check_small_rest();
  join_groups();
  if (const LifecyclePlan* plan = lifecycle_plan()) {
    lifecycle_ = Owned<Lifecycle>(new Lifecycle(*plan, arena_, segment_));
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
  const int64_t block = current_->gemms[first]->column_block();
  for (size_t k = first + 1; k < first + count; ++k) {
    if (current_->gemms[k]->column_block() != block) return 0;
  }
  return block;
}

void Instance::weights_packed(const void* begin, const void* end) {
  MappedWeights& file = rank_file_.holds(begin) ? rank_file_ : shared_file_;
  file.check(begin, end);
  if (!weights_mapped_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(begin) / page * page;
  ::madvise(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(end) - first,
            MADV_DONTNEED);  // may be refused
}

void Instance::join_groups() {
  for (int32_t k = 0; k < table_.collective_count; ++k) calls_.push_back(call_of(table_.collectives[k]));
  for (int32_t g = 0; g < table_.group_count; ++g) {
    const BraidGroup& group = table_.groups[g];
    const int32_t* const end = group.ranks + group.size * group.parts;
    const auto me = std::find(group.ranks, end, rank_) - group.ranks;
    const bool member = me < end - group.ranks;
    Communicator* communicator = nullptr;
    const bool used = std::any_of(table_.collectives, table_.collectives + table_.collective_count,
                                  [&](const BraidCollective& c) { return c.group == g; });
    if (used && member) {
      const int32_t* const part = group.ranks + me / group.size * group.size;
      const std::vector<int> ranks(part, part + group.size);
      Status status = world_->group(ranks, group.name, &communicator);
      if (status.ok() && communicator) {
        const std::string trace = trace_of(table_, g);
        status = communicator->compare_fingerprint(fnv1a(trace), trace);
      }
      if (!status.ok()) fail(BRAID_COMM_ERROR, "group '" + std::string(group.name) + "': " + status.message);
    }
    groups_.push_back(communicator);
  }
}

void Instance::guard(bool holds, const int64_t* dims, const char* text) const {
  if (!holds) fail(BRAID_BAD_SIZE, guard_error(table_, dims, text));
}

const Instance::Prepared* Instance::prepare_sizes(PreparedSets& sets, const std::vector<int64_t>& key) {
  const auto found = sets.find(key);
  if (found != sets.end()) return found->second.get();
  if (std::string error = bounds_error(table_, key.data()); !error.empty()) fail(BRAID_BAD_SIZE, error);
  check_guards(key.data());
  auto made = std::make_unique<Prepared>();
  made->threads = ThreadChoice(threads_);
  made->dims = key;
  choose_gemms(key.data(), made->gemms);
  choose_windows(key.data(), made->windows);
  choose_attentions(key.data(), made->attentions);
  return sets.emplace(key, std::move(made)).first->second.get();
}

BraidStatus Instance::prepare(const int64_t* dims) noexcept {
  const TeamScope scope(&team_);
  try {
    std::vector<int64_t> key(dims, dims + table_.dim_count);
    for (size_t k = 0; k < key.size(); ++k) {
      if (table_.dims[k].measured != 0) key[k] = table_.dims[k].max;
    }
    current_ = given_ = prepare_sizes(prepared_->sets, key);
    return BRAID_OK;
  } catch (...) {
    status_ = abi::current_exception();
    try {
      error_ = abi::reported();
    } catch (...) {
    }
    return status_;
  }
}

void Instance::measure(size_t dim, int64_t value, const char* node) {
  const BraidDim& measured = table_.dims[dim];
  if (value < measured.min || value > measured.max) {
    fail(BRAID_BAD_SIZE,
         std::string("'") + node + "': dimension '" + measured.name + "' is " + std::to_string(value) +
             (value > measured.max ? ", more than its capacity of " + std::to_string(measured.max)
                                   : ", less than " + std::to_string(measured.min)));
  }
  std::vector<int64_t> key = current_->dims;
  key[dim] = value;
  current_ = prepare_sizes(prepared_->measured, key);
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
    error_ = "run before prepare";
    return BRAID_INVALID_ARGUMENT;
  }
  const AtMostThreads limit(threads_);
  current_ = given_;
  // Data may decide for any number of sizes: those of the last steps are kept.
  if (prepared_->measured.size() > kMeasuredSets) prepared_->measured.clear();
  // A step with collectives waits for other ranks, so its duration tells nothing about threads.
  const bool timed = threads_ > 1 && table_.collective_count == 0;
  const std::optional<TimedStep> time = timed ? std::optional<TimedStep>(std::in_place) : std::nullopt;
  const TeamScope scope(current_->threads.team() ? &team_ : nullptr);
  index_error_ = {};
  try {
    if (lifecycle_) lifecycle_->begin();
    if (step(inputs, outputs) && (!lifecycle_ || plan_held(lifecycle_->end()))) {
      node(static_cast<size_t>(table_.node_count));
      if (time) time->report(given_->threads);
      return BRAID_OK;
    }
  } catch (...) {
    status_ = abi::current_exception();
    error_ = abi::reported();
  }
  if (world_ && table_.collective_count > 0 && status_ != BRAID_COMM_ERROR) world_->abort(error_);
  return status_;
}

bool Instance::plan_held(bool held) {
  if (held) return true;
  status_ = BRAID_INTERNAL_ERROR;
  error_ = lifecycle_->error();
  return false;
}

bool Instance::before_step(int32_t step) { return plan_held(lifecycle_->before(step)); }
bool Instance::after_step(int32_t step) { return plan_held(lifecycle_->after(step)); }

bool Instance::check(Status status, size_t collective) {
  if (status.ok()) return true;
  status_ = BRAID_COMM_ERROR;
  const BraidCollective& c = table_.collectives[collective];
  error_ = std::string(c.kind) + " of node '" + c.label + "': " + status.message;
  return false;
}

namespace {
// Ticket of a send to or a receive from itself, in which this rank takes no part.
constexpr uint64_t kPassedOver = ~uint64_t{0};
}  // namespace

bool Instance::start(size_t index, int64_t count, const void* input, void* output) {
  Communicator* group = groups_[static_cast<size_t>(table_.collectives[index].group)];
  CollectiveCall& call = calls_[index];
  call.count = static_cast<size_t>(count);
  call.input = input;
  call.output = output;
  const bool transfer = row_of(call.kind).point_to_point;
  if (group && transfer && call.peer == group->index()) {
    tickets_[index].value = kPassedOver;
    return true;
  }
  return !group || check(group->start(call, &tickets_[index]), index);
}
bool Instance::wait(size_t index) {
  Communicator* group = groups_[static_cast<size_t>(table_.collectives[index].group)];
  if (!group || tickets_[index].value == kPassedOver) return true;
  if (!check(group->wait(tickets_[index]), index)) return false;
  if (times_ != nullptr) [[unlikely]] {
    const LinkTimes link = group->link_times(tickets_[index]);
    times_[node_].due_ns = std::max(times_[node_].due_ns, link.due_ns);
    times_[node_].slept_ns += link.slept_ns;
  }
  return true;
}
bool Instance::release(size_t index) {
  Communicator* group = groups_[static_cast<size_t>(table_.collectives[index].group)];
  return !group || tickets_[index].value == kPassedOver || check(group->release(tickets_[index]), index);
}

bool Instance::indices_ok(const char* const* sites) {
  if (index_error_.site < 0) return true;
  status_ = BRAID_BAD_INDEX;
  error_ = std::string("node '") + sites[index_error_.site] + "': index " + number(index_error_.value) +
           " is out of range for an axis of size " + number(index_error_.size);
  return false;
}

bool Instance::call_extern(const char* node, BraidExternKernel kernel,
                           std::initializer_list<BraidTensorView> reads,
                           std::initializer_list<BraidTensorView> writes,
                           std::initializer_list<BraidAttribute> attributes) {
  const char* why = rt::call_extern(kernel, reads, writes, attributes, nullptr);
  if (why == nullptr) return true;
  status_ = BRAID_LIBRARY_ERROR;
  error_ = std::string("node '") + node + "': the extern kernel failed: " + why;
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
