// All-reduce of float sums between the processes of one machine: this runtime beside MPI_Allreduce,
// interleaved in one run, so that both see the same noise. Start it with mpirun:
//
//   mpirun -n 2 allreduce_bench [--rounds N]
//
// Every MPI rank also joins a World of the shared-memory engine. Each round times one batch per size of
//   no copies   input and output lie in the segment, two input buffers in turn; release before each reuse
//   copies      input and output are ordinary memory, as MPI has them
//   in place    the same segment buffer is input and output
//   MPI         MPI_Allreduce
// and the table shows medians over the rounds of the slowest rank's time for one call.
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

constexpr size_t kSizes[] = {1 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr size_t kLargest = 16 << 20;

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Calls of a batch: enough to hide the clock, and no more, so that a batch that was preempted is an outlier.
int calls_for(size_t bytes) { return static_cast<int>(std::clamp<size_t>((1 << 20) / bytes, 1, 100)); }

struct Contestant {
  const char* name;
  std::function<void(size_t count)> run;
};

class Bench {
 public:
  Bench(World& world, Algorithm algorithm) : algorithm_(algorithm) {
    std::vector<int> ranks(world.size());
    for (int i = 0; i < world.size(); ++i) ranks[i] = i;
    require(world.group(ranks, "bench", &group_));
    segment_ = reinterpret_cast<float*>(world.segment());
    const size_t floats = kLargest / sizeof(float);
    input_.assign(floats, 1.0f);
    output_.assign(floats, 0.0f);
    std::fill(segment_, segment_ + 3 * floats, 1.0f);
  }

  void no_copies(size_t count) {
    const int side = turn_++ % 2;
    if (used_[side]) require(group_->release(tickets_[side]));  // the program would now write the input
    collective(count, segment_ + side * (kLargest / sizeof(float)), segment_ + 2 * (kLargest / sizeof(float)),
               &tickets_[side]);
    used_[side] = true;
    // The output is one buffer: before the next call writes it, nobody may still read it. Only two-shot lets
    // peers touch it, and that ends with the wait.
  }

  void copies(size_t count) {
    Ticket ticket;
    collective(count, input_.data(), output_.data(), &ticket);
  }

  void in_place(size_t count) {
    Ticket ticket;
    float* data = segment_ + 2 * (kLargest / sizeof(float));
    collective(count, data, data, &ticket);
    require(group_->release(ticket));
  }

  void mpi(size_t count) {
    MPI_Allreduce(input_.data(), output_.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

 private:
  void collective(size_t count, const float* input, float* output, Ticket* ticket) {
    require(group_->start({.kind = CollectiveKind::all_reduce,
                           .algorithm = algorithm_,
                           .count = count,
                           .input = input,
                           .output = output,
                           .label = "bench"},
                          ticket));
    require(group_->wait(*ticket));
  }

  Algorithm algorithm_;
  Communicator* group_ = nullptr;
  float* segment_ = nullptr;
  std::vector<float> input_, output_;
  Ticket tickets_[2];
  bool used_[2] = {};
  unsigned turn_ = 0;
};

// Seconds of one call, of the slowest rank.
double time_batch(const Contestant& contestant, size_t bytes, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) contestant.run(bytes / sizeof(float));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string size_name(size_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MB" : std::to_string(bytes >> 10) + " KB";
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rounds = 201;
  Algorithm algorithm = Algorithm::automatic;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--algorithm") == 0) {  // automatic, one_shot, two_shot
      algorithm = argv[i + 1][0] == 'o'   ? Algorithm::one_shot
                  : argv[i + 1][0] == 't' ? Algorithm::two_shot
                                          : Algorithm::automatic;
    }
  }
  {
    std::unique_ptr<World> world;
    require(join_world_from_environment({.segment_bytes = 3 * kLargest}, &world));
    Bench bench(*world, algorithm);
    const Contestant contestants[] = {
        {"no copies", [&](size_t count) { bench.no_copies(count); }},
        {"copies", [&](size_t count) { bench.copies(count); }},
        {"in place", [&](size_t count) { bench.in_place(count); }},
        {"MPI", [&](size_t count) { bench.mpi(count); }},
    };
    constexpr size_t kContestants = std::size(contestants);
    if (world->rank() == 0) {
      std::printf(
          "| float sum, %d ranks | no copies us | copies us | in place us | MPI us | no copies / MPI | "
          "copies / MPI |\n"
          "|---|---|---|---|---|---|---|\n",
          world->size());
    }
    for (const size_t bytes : kSizes) {
      std::vector<double> seconds[kContestants];
      const int calls = calls_for(bytes);
      for (const Contestant& contestant : contestants) time_batch(contestant, bytes, calls);  // warm up
      for (int round = 0; round < rounds; ++round) {
        for (size_t c = 0; c < kContestants; ++c)
          seconds[c].push_back(time_batch(contestants[c], bytes, calls));
      }
      if (world->rank() != 0) continue;
      double us[kContestants];
      for (size_t c = 0; c < kContestants; ++c) us[c] = median(seconds[c]) * 1e6;
      std::printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", size_name(bytes).c_str(), us[0],
                  us[1], us[2], us[3], us[0] / us[3], us[1] / us[3]);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
