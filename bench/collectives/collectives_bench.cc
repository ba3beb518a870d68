// Every collective between the processes of one machine: this runtime beside MPI, interleaved in one run, so
// that both see the same noise. Start it with mpirun:
//
//   mpirun -n 2 collectives_bench [--seconds S] [--only KIND] [--size BYTES] [--best]
//
// Every MPI rank also joins a World of the shared-memory engine. Each round times one batch of calls per
// contestant:
//   no copies   inputs and outputs lie in the segment; an input is released before its next use
//   windows     the same by hand: data in an MPI-3 shared window, a barrier per call, peers' data read where
//               they lie
//   copies      inputs and outputs are ordinary memory, as MPI has them
//   MPI         the blocking call on ordinary memory
// Each takes two inputs in turn, like a program that writes one while the other is under way. It is timed
// once with inputs that nothing writes between calls, and once with a producer that writes the whole input
// before each call (its time counts: the lines that it takes back from a peer's cache are part of the price).
// The tables show medians over the rounds of the slowest rank's time for one call. A size is that of the
// larger buffer: all gathered data, all data that is scattered. The root of a broadcast alternates, and a
// message goes to and fro, so that no rank runs ahead; a message's time is that of one way.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/bootstrap.h"

namespace {

using namespace braid::rt;

constexpr size_t kSizes[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
                             1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr size_t kLargest = 64 << 20;
constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                     CollectiveKind::all_to_all,     CollectiveKind::send};
constexpr int kMaxRounds = 201;
constexpr int kMinRounds = 9;

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Calls of a batch: enough to hide the clock, and no more, so that a batch that was preempted is an outlier.
// Even, so that every rank is root as often as the other of a pair.
int calls_for(size_t bytes) { return static_cast<int>(std::clamp<size_t>((1 << 20) / bytes, 2, 100)); }

const char* name_of(CollectiveKind kind) {
  return kind == CollectiveKind::send ? "send / recv" : to_string(kind);
}

// The element count of a call whose larger buffer has `bytes`.
size_t count_for(CollectiveKind kind, size_t bytes, int ranks) {
  const bool blocks = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
                      kind == CollectiveKind::all_to_all;
  return bytes / sizeof(float) / static_cast<size_t>(blocks ? ranks : 1);
}

// The calls of one contestant. `turn` counts them, equally on all ranks.
class Runtime {
 public:
  Runtime(Communicator& group, bool in_segment, float* input0, float* input1, float* output)
      : group_(group), in_segment_(in_segment), inputs_{input0, input1}, output_(output) {}

  // Peers may still read the input of two turns ago until it is released: a program writes it after that.
  float* input(int turn) {
    const int side = turn % 2;
    if (in_segment_ && used_[side]) require(group_.release(tickets_[side]));
    used_[side] = false;
    return inputs_[side];
  }

  void call(CollectiveKind kind, size_t count, int turn) {
    const int side = turn % 2;
    CollectiveCall call{
        .kind = kind, .count = count, .input = inputs_[side], .output = output_, .label = "bench"};
    if (kind == CollectiveKind::broadcast) {  // the root's buffer is both, as MPI has it
      call.peer = turn % group_.size();
      call.output = inputs_[side];
    }
    if (kind == CollectiveKind::send) {
      if (group_.index() > 1) return;
      call.peer = 1 - group_.index();
      if (group_.index() != side) call.kind = CollectiveKind::recv;
    }
    input(turn);
    require(group_.start(call, &tickets_[side]));
    require(group_.wait(tickets_[side]));
    used_[side] = true;
    // The output is one buffer: only push lets peers write it, and that ends with the wait.
  }

 private:
  Communicator& group_;
  bool in_segment_;
  float* inputs_[2];
  float* output_;
  Ticket tickets_[2];
  bool used_[2] = {};
};

void call_mpi(CollectiveKind kind, size_t count, int turn, float* input, float* output) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int n = static_cast<int>(count);
  switch (kind) {
    case CollectiveKind::all_reduce:
      MPI_Allreduce(input, output, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      return;
    case CollectiveKind::all_gather:
      MPI_Allgather(input, n, MPI_FLOAT, output, n, MPI_FLOAT, MPI_COMM_WORLD);
      return;
    case CollectiveKind::reduce_scatter:
      MPI_Reduce_scatter_block(input, output, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      return;
    case CollectiveKind::broadcast:
      MPI_Bcast(input, n, MPI_FLOAT, turn % size, MPI_COMM_WORLD);
      return;
    case CollectiveKind::all_to_all:
      MPI_Alltoall(input, n, MPI_FLOAT, output, n, MPI_FLOAT, MPI_COMM_WORLD);
      return;
    default:
      if (rank > 1) return;
      if (rank == turn % 2) {
        MPI_Send(input, n, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD);
      } else {
        MPI_Recv(output, n, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
  }
}

// A hand-written MPI-3 alternative for data that may be produced in shared memory.
class Windows {
 public:
  // Allocates two inputs and an output of `floats` each for every rank.
  explicit Windows(size_t floats) : floats_(floats) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    float* own = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(3 * floats * sizeof(float)), sizeof(float), MPI_INFO_NULL,
                            MPI_COMM_WORLD, &own, &window_);
    for (int r = 0; r < size_; ++r) {
      MPI_Aint bytes = 0;
      int unit = 0;
      float* at = nullptr;
      MPI_Win_shared_query(window_, r, &bytes, &unit, &at);
      memory_.push_back(at);
    }
    std::fill(own, own + 3 * floats, 1.0f);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  }
  ~Windows() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  float* input(int turn) const { return input_of(rank_, turn); }

  // Peers may read this rank's input of this turn until the barrier of the next one; the turn after that
  // writes it again.
  void call(CollectiveKind kind, size_t count, int turn) {
    if (kind == CollectiveKind::send) return message(count, turn);
    meet();
    float* const out = output_of(rank_);
    const auto own_block = static_cast<size_t>(rank_) * count;
    switch (kind) {
      case CollectiveKind::all_reduce:
        if (count * sizeof(float) < kTwoShotBytes) return sum(out, 0, count, turn);
        return all_reduce_two_shot(count, turn);
      case CollectiveKind::reduce_scatter:
        return sum(out, own_block, count, turn);
      case CollectiveKind::all_gather:
        for (int r = 0; r < size_; ++r) copy(out + static_cast<size_t>(r) * count, input_of(r, turn), count);
        return;
      case CollectiveKind::all_to_all:
        for (int r = 0; r < size_; ++r)
          copy(out + static_cast<size_t>(r) * count, input_of(r, turn) + own_block, count);
        return;
      default:  // broadcast
        if (const int root = turn % size_; root != rank_) copy(input(turn), input_of(root, turn), count);
    }
  }

 private:
  // Beyond what caches hold, each rank adds up one share and the others copy it.
  static constexpr size_t kTwoShotBytes = 1 << 20;

  float* input_of(int rank, int turn) const {
    return memory_[static_cast<size_t>(rank)] + static_cast<size_t>(turn % 2) * floats_;
  }
  float* output_of(int rank) const { return memory_[static_cast<size_t>(rank)] + 2 * floats_; }

  void meet() {
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window_);
  }
  static void copy(float* to, const float* from, size_t count) {
    std::memcpy(to, from, count * sizeof(float));
  }

  // out[k] = the sum of all ranks' inputs at first + k, in rank order.
  void sum(float* out, size_t first, size_t count, int turn) const {
    const float* const a = input_of(0, turn) + first;
    if (size_ == 2) {
      const float* const b = input_of(1, turn) + first;
#pragma omp simd
      for (size_t k = 0; k < count; ++k) out[k] = a[k] + b[k];
      return;
    }
    copy(out, a, count);
    for (int r = 1; r < size_; ++r) {
      const float* const b = input_of(r, turn) + first;
#pragma omp simd
      for (size_t k = 0; k < count; ++k) out[k] += b[k];
    }
  }

  void all_reduce_two_shot(size_t count, int turn) {
    const auto share = [&](int r) { return count * static_cast<size_t>(r) / static_cast<size_t>(size_); };
    sum(output_of(rank_) + share(rank_), share(rank_), share(rank_ + 1) - share(rank_), turn);
    meet();
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) copy(output_of(rank_) + share(r), output_of(r) + share(r), share(r + 1) - share(r));
    }
    meet();  // the next call writes the outputs that peers have just read
  }

  void message(size_t count, int turn) {
    if (rank_ > 1) return;
    MPI_Win_sync(window_);
    if (rank_ == turn % 2) {
      MPI_Send(nullptr, 0, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(nullptr, 0, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Win_sync(window_);
      copy(output_of(rank_), input_of(1 - rank_, turn), count);
    }
  }

  size_t floats_;
  int rank_ = 0, size_ = 1;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<float*> memory_;  // per rank
};

struct Contestant {
  std::function<void(CollectiveKind kind, size_t count, int turn)> call;
  std::function<float*(int turn)> input;  // of this rank
};

// Writes every element of the input, as the kernel before a collective does. Ranks that only receive write
// nothing.
void produce(const Contestant& contestant, CollectiveKind kind, size_t count, int turn, int rank, int ranks) {
  const bool of_root = kind == CollectiveKind::broadcast || kind == CollectiveKind::send;
  if (of_root && rank != turn % (kind == CollectiveKind::send ? 2 : ranks)) return;
  const bool blocks = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
  const size_t written = count * static_cast<size_t>(blocks ? ranks : 1);
  std::fill_n(contestant.input(turn), written, static_cast<float>(turn));
}

// Seconds of one call, of the slowest rank.
double time_batch(const Contestant& contestant, CollectiveKind kind, size_t count, int calls,
                  bool rewritten) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int turn = 0; turn < calls; ++turn) {
    if (rewritten) produce(contestant, kind, count, turn, rank, ranks);
    contestant.call(kind, count, turn);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

struct Times {
  double us = 0;      // median of one call, or the smallest
  double spread = 0;  // between the 10th and the 90th percentile, as a share of the median
};

Times summary(std::vector<double> seconds, bool best) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return {(best ? seconds.front() : at(0.5)) * 1e6, (at(0.9) - at(0.1)) / at(0.5)};
}

std::string size_name(size_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MB" : std::to_string(bytes >> 10) + " KB";
}

// One call per contestant with inputs left alone, then per contestant with inputs rewritten. `budget`:
// seconds that the rounds may take, about.
std::vector<Times> measure(std::span<const Contestant> contestants, CollectiveKind kind, size_t bytes,
                           int ranks, double budget, bool best) {
  const size_t count = count_for(kind, bytes, ranks);
  const int calls = calls_for(bytes);
  std::vector<std::vector<double>> seconds(2 * contestants.size());
  const auto round = [&] {
    double all = 0;
    for (size_t c = 0; c < seconds.size(); ++c) {
      seconds[c].push_back(
          time_batch(contestants[c % contestants.size()], kind, count, calls, c >= contestants.size()));
      all += seconds[c].back() * calls;
    }
    return all;
  };
  round();
  const double one_round = round();  // warm; equal on all ranks, since times are the slowest rank's
  for (auto& of_one : seconds) of_one.clear();
  const int rounds = std::clamp(static_cast<int>(budget / one_round), kMinRounds, kMaxRounds);
  for (int k = 0; k < rounds; ++k) round();
  std::vector<Times> times;
  for (const auto& of_one : seconds) times.push_back(summary(of_one, best));
  return times;
}

// The value of an MPI setting by the name that Open MPI gives it; "not told" where this MPI has none of that
// name.
std::string mpi_setting(const char* wanted) {
  int provided = 0, count = 0;
  std::string value = "not told";
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return value;
  MPI_T_cvar_get_num(&count);
  for (int k = 0; k < count; ++k) {
    char name[256] = "", description[1024] = "";
    int name_length = sizeof name, description_length = sizeof description, verbosity = 0, binding = 0,
        scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    if (MPI_T_cvar_get_info(k, name, &name_length, &verbosity, &type, &names, description,
                            &description_length, &binding, &scope) != MPI_SUCCESS ||
        std::strcmp(name, wanted) != 0)
      continue;
    MPI_T_cvar_handle handle;
    int elements = 0, number = 0;
    if (type != MPI_INT || MPI_T_cvar_handle_alloc(k, nullptr, &handle, &elements) != MPI_SUCCESS) break;
    MPI_T_cvar_read(handle, &number);
    MPI_T_cvar_handle_free(&handle);
    value = std::to_string(number);
    int items = 0, items_length = 0;
    if (names == MPI_T_ENUM_NULL || MPI_T_enum_get_info(names, &items, nullptr, &items_length) != MPI_SUCCESS)
      break;
    for (int item = 0; item < items; ++item) {
      char text[256] = "";
      int text_length = sizeof text, item_value = 0;
      MPI_T_enum_get_item(names, item, &item_value, text, &text_length);
      if (item_value == number) value = text;
    }
    break;
  }
  MPI_T_finalize();
  return value;
}

// Prints the conditions, beside the machine, that the figures depend on.
void print_conditions(const World& world) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  const std::string first(version, std::strcspn(version, ",\n"));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::printf(
      "%s with its defaults; transport of large messages (btl_vader_single_copy_mechanism): %s. %d ranks, "
      "each bound to %d of "
      "%ld processors.\n\n",
      first.c_str(), mpi_setting("btl_vader_single_copy_mechanism").c_str(), world.size(),
      CPU_COUNT(&allowed), ::sysconf(_SC_NPROCESSORS_ONLN));
}

// The contestants, compared in pairs: data in shared memory, then data in ordinary memory.
enum : size_t { kNoCopies, kWindows, kCopies, kMpi, kContestants };

struct Lost {
  int to_windows = 0, to_mpi = 0, cells = 0;
};

void print_row(size_t bytes, const std::vector<Times>& times, Lost& lost) {
  const auto ratio = [&](size_t ours, size_t theirs) { return times[ours].us / times[theirs].us; };
  std::printf("| %s |", size_name(bytes).c_str());
  for (size_t c = 0; c < kContestants; ++c) std::printf(" %.2f |", times[c].us);
  for (const size_t first : {size_t{0}, size_t{kContestants}}) {
    const double shared = ratio(first + kNoCopies, first + kWindows),
                 ordinary = ratio(first + kCopies, first + kMpi);
    std::printf(" %.2f | %.2f |", shared, ordinary);
    lost.to_windows += shared >= 1;
    lost.to_mpi += ordinary >= 1;
    ++lost.cells;
  }
  double widest = 0;
  for (const Times& t : times) widest = std::max(widest, t.spread);
  std::printf(" %.0f %% |\n", 100 * widest);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double budget = 3;
  std::string only;
  size_t only_size = 0;
  bool best = false;  // the smallest time instead of the median: to compare on a machine that others use
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--best") == 0) best = true;
    if (i + 1 == argc) break;
    if (std::strcmp(argv[i], "--seconds") == 0) budget = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--size") == 0) only_size = std::strtoull(argv[i + 1], nullptr, 10);
  }
  {
    std::unique_ptr<World> world;
    require(join_world_from_environment({.segment_bytes = 3 * kLargest}, &world));
    std::vector<int> ranks(world->size());
    for (int i = 0; i < world->size(); ++i) ranks[i] = i;
    Communicator* group = nullptr;
    require(world->group(ranks, "bench", &group));
    const size_t floats = kLargest / sizeof(float);
    std::vector<float> input(floats, 1.0f), other_input(floats, 1.0f), output(floats, 0.0f);
    auto* segment = reinterpret_cast<float*>(world->segment());
    std::fill(segment, segment + 3 * floats, 1.0f);
    Runtime in_segment(*group, true, segment, segment + floats, segment + 2 * floats);
    Runtime ordinary(*group, false, input.data(), other_input.data(), output.data());
    Windows windows(floats);
    const auto ordinary_input = [&](int turn) { return turn % 2 == 0 ? input.data() : other_input.data(); };
    const Contestant contestants[kContestants] = {
        {[&](CollectiveKind kind, size_t count, int turn) { in_segment.call(kind, count, turn); },
         [&](int turn) { return in_segment.input(turn); }},
        {[&](CollectiveKind kind, size_t count, int turn) { windows.call(kind, count, turn); },
         [&](int turn) { return windows.input(turn); }},
        {[&](CollectiveKind kind, size_t count, int turn) { ordinary.call(kind, count, turn); },
         ordinary_input},
        {[&](CollectiveKind kind, size_t count, int turn) {
           call_mpi(kind, count, turn, ordinary_input(turn), output.data());
         },
         ordinary_input},
    };
    const bool prints = world->rank() == 0;
    if (prints) print_conditions(*world);
    Lost lost;
    for (const CollectiveKind kind : kKinds) {
      if (!only.empty() && only != to_string(kind)) continue;
      if (prints) {
        std::printf(
            "| %s, %d ranks | no copies us | windows us | copies us | MPI us | no copies / windows | copies "
            "/ MPI "
            "| rewritten: no copies / windows | rewritten: copies / MPI | spread at most |\n"
            "|---|---|---|---|---|---|---|---|---|---|\n",
            name_of(kind), world->size());
      }
      for (const size_t bytes : kSizes) {
        if (only_size != 0 && only_size != bytes) continue;
        const std::vector<Times> times = measure(contestants, kind, bytes, world->size(), budget, best);
        if (prints) print_row(bytes, times, lost);
      }
      if (prints) std::printf("\n");
    }
    if (prints) {
      std::printf("Not faster than windows: %d, than MPI: %d, of %d ratios each.\n", lost.to_windows,
                  lost.to_mpi, lost.cells);
    }
  }
  MPI_Finalize();
  return 0;
}
