// Memory plans of programs with 1,000 collectives: how long plan_memory takes, and how far the communication
// segment is from the most that lives at once, below which no placement can go.
//   comm_plan_bench          the table, as Markdown
//   comm_plan_bench --check  verifies the plans and fails where a segment exceeds the bound by more than 5 %
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/in_place_collectives.h"
#include "ir/verifier.h"
#include "passes/plan_memory.h"

namespace braid {
namespace {

using namespace ir;

constexpr int kCollectives = 1000;
constexpr int kRanks = 8;
constexpr double kSlack = 1.05;

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  double unit() { return static_cast<double>(next() >> 11) / 9007199254740992.0; }

 private:
  std::uint64_t state_;
};

struct Shape {
  std::string name;
  int groups = 1;
  bool mixed_sizes = false;
  int flight = 0;        // steps between a start and its wait, up to
  int release = 0;       // between wait and release, up to
  int use = 0;           // between wait and last use, up to
  int long_lived = 0;    // of 100 results, those that live for a tenth of the program
  bool gathers = false;  // beside all-reduces: results of n times the operand's size, and the reverse
};

const Shape kShapes[] = {
    {"chain of equal all-reduces"},
    {"equal, in flight beside each other", 1, false, 12, 12, 4},
    {"256 B to 16 MB", 1, true, 12, 12, 4},
    {"256 B to 16 MB, some live long", 1, true, 12, 12, 4, 10},
    {"gathers and scatters, 256 B to 16 MB", 1, true, 12, 12, 4, 0, true},
    {"four groups, gathers, some live long", 4, true, 24, 24, 8, 10, true},
};

class Program {
 public:
  Program(const Shape& shape, std::uint64_t seed) : shape_(shape), random_(seed) {
    Graph& g = graph();
    g.ranks = kRanks;
    for (int k = 0; k < shape.groups; ++k) {
      std::vector<int> ranks;
      for (int r = 0; r < kRanks; ++r) ranks.push_back((r + k) % kRanks);
      groups_.push_back(g.add_group(fmt::format("g{}", k), std::move(ranks)));
    }
    const BufferId x = g.add_owned("x", DType::u8, {256}, StorageKind::input);
    g.inputs.push_back({"x", x});
    last_ = x;
    for (int k = 0; k < kCollectives; ++k) {
      catch_up();
      collective(k);
    }
    while (!due_.empty()) catch_up(true);
    g.outputs.push_back({"y", kernel("y", {last_}, StorageKind::output)});
  }
  Schedule& schedule() { return schedule_; }

 private:
  const Shape& shape_;
  Random random_;
  Schedule schedule_;
  std::vector<GroupId> groups_;
  BufferId last_;
  std::multimap<int, std::function<void()>> due_;  // by step: waits, uses, releases
  int step_ = 0;

  Graph& graph() { return schedule_.graph; }
  int upto(int n) { return n == 0 ? 0 : random_.below(n + 1); }

  void emit(Operation op) {
    schedule_.nodes.push_back(ScheduleNode::single(graph().add_op(std::move(op))));
    ++step_;
  }
  void catch_up(bool all = false) {
    while (!due_.empty() && (all || due_.begin()->first <= step_)) {
      const std::function<void()> action = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      action();
    }
  }
  // Reads all of it and makes 256 bytes.
  BufferId kernel(const std::string& name, const std::vector<BufferId>& reads, StorageKind kind) {
    const BufferId out = graph().add_owned(name, DType::u8, {256}, kind);
    ExternKernel k;
    for (BufferId b : reads) k.reads.push_back(whole(graph(), b));
    k.writes.push_back(whole(graph(), out));
    emit({name, std::move(k), {out}, {}, std::nullopt});
    return out;
  }
  BufferId comm(const std::string& name, std::int64_t bytes, GroupId group, CommBufferKind kind) {
    Graph& g = graph();
    const BufferId b = g.add_owned(name, DType::u8, {bytes}, StorageKind::comm);
    g[g[b].storage].groups = {group};
    g[g[b].storage].comm_kind = kind;
    g[b].layout = CommBufferLayout{{1}, kind, {group}};
    return b;
  }

  void collective(int number) {
    const GroupId group = groups_[static_cast<std::size_t>(random_.below(shape_.groups))];
    std::int64_t bytes = 1 << 20;
    if (shape_.mixed_sizes) bytes = static_cast<std::int64_t>(256 * std::pow(2.0, 16 * random_.unit()));
    CollectiveKernel k;
    k.group = group;
    std::int64_t in = bytes, out = bytes;
    if (shape_.gathers) {
      const int kind = random_.below(3);
      const std::int64_t part = std::max<std::int64_t>(1, bytes / kRanks);
      if (kind == 1) k.kind = CollectiveKind::all_gather, in = part, out = part * kRanks;
      if (kind == 2) k.kind = CollectiveKind::reduce_scatter, in = part * kRanks, out = part;
    }
    const std::string name = fmt::format("c{}", number);
    const BufferId operand = comm(name + ".in", in, group, CommBufferKind::symmetric);
    ExternKernel producer;
    producer.reads = {whole(graph(), last_)};
    producer.writes = {whole(graph(), operand)};
    emit({name + ".in", std::move(producer), {operand}, {}, std::nullopt});
    const BufferId result = comm(name, out, group, CommBufferKind::registered);
    k.inputs = {whole(graph(), operand)};
    k.outputs = {whole(graph(), result)};
    emit({name, std::move(k), {result}, {}, std::nullopt});
    const OpId start = graph()[result].producer;
    due_.emplace(step_ + upto(shape_.flight), [=, this] {
      const BufferId waited = graph().add_mutation(result, name + ".waited");
      emit({name + ".wait", WaitKernel{start}, {waited}, {}, std::nullopt});
      const bool lives_long = random_.below(100) < shape_.long_lived;
      const int use = lives_long ? kCollectives / 2 : upto(shape_.use);
      due_.emplace(step_ + use, [=, this] {
        last_ = kernel(name + ".use", {waited, last_}, StorageKind::activation);
      });
      due_.emplace(step_ + upto(shape_.release), [=, this] {
        emit({name + ".release", ReleaseKernel{start}, {}, {}, std::nullopt});
      });
    });
  }
};

// Processor time of this thread: nearly the same beside other programs as on an idle machine.
double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// The most communication memory that lives at once, in whole slots; operand and result in one place count
// once.
std::int64_t lower_bound(const Schedule& s) {
  std::vector<std::int64_t> change(s.nodes.size() + 1, 0);
  const std::map<StorageId, StorageId> shared = shared_places(s);
  for (const auto& [storage, place] : s.plan->placements) {
    if (place.space != MemorySpace::comm || shared.contains(storage)) continue;
    const std::int64_t slot = (place.bytes + kCommAlignment - 1) / kCommAlignment * kCommAlignment;
    change[static_cast<std::size_t>(place.first_step)] += slot;
    change[static_cast<std::size_t>(place.last_step) + 1] -= slot;
  }
  std::int64_t now = 0, most = 0;
  for (std::int64_t c : change) most = std::max(most, now += c);
  return most;
}

struct Row {
  double median_ms = 0, worst_ms = 0;
  std::int64_t segment = 0, bound = 0;
  double ratio() const { return static_cast<double>(segment) / static_cast<double>(bound); }
};

Row measure(const Shape& shape, std::uint64_t seed, int repeats, bool verify) {
  Program program(shape, seed);
  Schedule& schedule = program.schedule();
  std::vector<double> ms;
  for (int k = 0; k < repeats; ++k) {
    schedule.plan.reset();
    const double begin = processor_ms();
    passes::PlanMemory{}.run(schedule);
    ms.push_back(processor_ms() - begin);
  }
  if (verify) check(schedule, "plan_memory");
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms.back(), schedule.plan->comm_bytes, lower_bound(schedule)};
}

int run(bool only_check, int repeats) {
  if (!only_check) {
    fmt::print(
        "{} collectives on {} ranks; milliseconds of processor time of plan_memory, median and worst of {}; "
        "the bound\nis the most that lives at once, in slots of {} bytes.\n\n",
        kCollectives, kRanks, repeats, kCommAlignment);
    fmt::print("| program | seed | ms | worst ms | segment, bytes | bound, bytes | ratio |\n");
    fmt::print("|---|---|---|---|---|---|---|\n");
  }
  int failures = 0;
  for (const Shape& shape : kShapes) {
    for (std::uint64_t seed = 1; seed <= (only_check ? 10u : 5u); ++seed) {
      const Row row = measure(shape, seed, repeats, only_check);
      if (!only_check) {
        fmt::print("| {} | {} | {:.1f} | {:.1f} | {} | {} | {:.3f} |\n", shape.name, seed, row.median_ms,
                   row.worst_ms, row.segment, row.bound, row.ratio());
      } else if (row.ratio() > kSlack || row.segment < row.bound) {
        fmt::print("{}, seed {}: {} bytes, bound {}\n", shape.name, seed, row.segment, row.bound);
        ++failures;
      }
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  try {
    const std::string_view option = argc > 1 ? argv[1] : "";
    return braid::run(option == "--check", option.empty() ? 21 : 1);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
