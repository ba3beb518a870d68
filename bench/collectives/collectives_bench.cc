// Every collective between the processes of one machine: this runtime beside MPI, interleaved in one run, so
// that both see the same noise. Start it with mpirun:
//
//   mpirun -n 2 collectives_bench [--seconds S] [--only KIND] [--size BYTES] [--best]
//
// Every MPI rank also joins a World of the shared-memory engine. Each round times one batch of calls per
// contestant:
//   no copies   inputs and outputs lie in the segment; an input is released before its next use
//   copies      inputs and outputs are ordinary memory, as MPI has them
//   MPI         the blocking call
// each with two inputs in turn, as a program has it that writes one while the other is under way,
// and the tables show medians over the rounds of the slowest rank's time for one call. A size is that of the
// larger buffer: all gathered data, all data that is scattered. The root of a broadcast alternates, and a
// message goes to and fro, so that no rank runs ahead; a message's time is that of one way.
#include <mpi.h>

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
    if (in_segment_ && used_[side])
      require(group_.release(tickets_[side]));  // the program would now write the input
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

using Contestant = std::function<void(CollectiveKind kind, size_t count, int turn)>;

// Seconds of one call, of the slowest rank.
double time_batch(const Contestant& contestant, CollectiveKind kind, size_t count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int turn = 0; turn < calls; ++turn) contestant(kind, count, turn);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double smallest(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string size_name(size_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MB" : std::to_string(bytes >> 10) + " KB";
}

// Median microseconds of one call per contestant. `budget`: seconds that the rounds may take, about.
std::vector<double> measure(std::span<const Contestant> contestants, CollectiveKind kind, size_t bytes,
                            int ranks, double budget, bool best) {
  const size_t count = count_for(kind, bytes, ranks);
  const int calls = calls_for(bytes);
  double one_round = 0;
  for (const bool warm : {false, true}) {
    one_round = 0;
    for (const Contestant& contestant : contestants)
      one_round += time_batch(contestant, kind, count, calls) * calls;
    (void)warm;
  }
  const int rounds = std::clamp(static_cast<int>(budget / one_round), kMinRounds, kMaxRounds) | 1;
  std::vector<std::vector<double>> seconds(contestants.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < contestants.size(); ++c)
      seconds[c].push_back(time_batch(contestants[c], kind, count, calls));
  }
  std::vector<double> us;
  for (const auto& of_one : seconds) us.push_back((best ? smallest(of_one) : median(of_one)) * 1e6);
  return us;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double budget = 1.5;
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
  int not_faster = 0;
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
    const Contestant contestants[] = {
        [&](CollectiveKind kind, size_t count, int turn) { in_segment.call(kind, count, turn); },
        [&](CollectiveKind kind, size_t count, int turn) { ordinary.call(kind, count, turn); },
        [&](CollectiveKind kind, size_t count, int turn) {
          call_mpi(kind, count, turn, turn % 2 == 0 ? input.data() : other_input.data(), output.data());
        },
    };
    const bool prints = world->rank() == 0;
    for (const CollectiveKind kind : kKinds) {
      if (!only.empty() && only != to_string(kind)) continue;
      if (prints) {
        std::printf(
            "| %s, %d ranks | no copies us | copies us | MPI us | no copies / MPI | copies / MPI |\n"
            "|---|---|---|---|---|---|\n",
            name_of(kind), world->size());
      }
      for (const size_t bytes : kSizes) {
        if (only_size != 0 && only_size != bytes) continue;
        const std::vector<double> us = measure(contestants, kind, bytes, world->size(), budget, best);
        if (!prints) continue;
        for (const size_t c : {0, 1}) not_faster += us[c] >= us[2];
        std::printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", size_name(bytes).c_str(), us[0], us[1],
                    us[2], us[0] / us[2], us[1] / us[2]);
        std::fflush(stdout);
      }
      if (prints) std::printf("\n");
    }
    if (prints) std::printf("Not faster than MPI: %d of the cells.\n", not_faster);
  }
  MPI_Finalize();
  return 0;
}
