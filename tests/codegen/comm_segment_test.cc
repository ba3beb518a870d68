// Communication buffers at run time: the same addresses at every size and in every step, nothing made after
// set-up, and as many bytes copied as the plan says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "ir/comm_buffer.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/allocations.h"
#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

// The calls that one rank makes to its engine.
struct Record {
  std::int64_t groups = 0;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>>
      starts;  // input and output, from the segment's begin
  const std::byte* segment = nullptr;
};

class RecordingCommunicator final : public rt::Communicator {
 public:
  RecordingCommunicator(rt::Communicator& inner, Record& record) : inner_(inner), record_(record) {}
  int size() const override { return inner_.size(); }
  int index() const override { return inner_.index(); }
  std::span<const int> members() const override { return inner_.members(); }
  const std::string& name() const override { return inner_.name(); }
  rt::Status start(const rt::CollectiveCall& call, rt::Ticket* ticket) override {
    record_.starts.emplace_back(static_cast<const std::byte*>(call.input) - record_.segment,
                                static_cast<std::byte*>(call.output) - record_.segment);
    return inner_.start(call, ticket);
  }
  rt::Status wait(rt::Ticket ticket) override { return inner_.wait(ticket); }
  rt::Status release(rt::Ticket ticket) override { return inner_.release(ticket); }
  bool test(rt::Ticket ticket) override { return inner_.test(ticket); }
  rt::Status compare_fingerprint(std::uint64_t hash, std::string_view text) override {
    return inner_.compare_fingerprint(hash, text);
  }
  void abort(std::string_view reason) override { inner_.abort(reason); }

 private:
  rt::Communicator& inner_;
  Record& record_;
};

class RecordingWorld final : public rt::World {
 public:
  RecordingWorld(rt::World& inner, Record& record) : inner_(inner), record_(record) {
    record.segment = inner.segment();
  }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::byte* segment() const override { return inner_.segment(); }
  std::size_t segment_bytes() const override { return inner_.segment_bytes(); }
  rt::Status group(std::span<const int> ranks, std::string_view name, rt::Communicator** out) override {
    ++record_.groups;
    rt::Communicator* made = nullptr;
    const rt::Status status = inner_.group(ranks, name, &made);
    *out = nullptr;
    if (made != nullptr) *out = &communicators_.emplace_back(*made, record_);
    return status;
  }
  rt::Status last_error() const override { return inner_.last_error(); }
  void abort(std::string_view reason) override { inner_.abort(reason); }

 private:
  std::uint64_t staged_bytes() const override { return inner_.copied_bytes(); }
  rt::World& inner_;
  Record& record_;
  std::deque<RecordingCommunicator> communicators_;
};

// Turns an exception on a rank into a failure of the test.
template <class Body>
auto guarded(Body body) {
  return [body](rt::World& world) {
    try {
      return body(world);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "rank " << world.rank() << ": " << e.what();
      return 1;
    }
  };
}

constexpr const char* kSized = R"(graph sized
dim n in [1, 300]
ranks 2
group @g = [0, 1]
group @h = [1, 0]
input %x: f32[n, 16]
%a: f32[n, 16] comm(symmetric, @g, @h) = pointwise {
  %0 = load %x[16*i0 + i1]
  %1 = exp %0
  store %1
}
%r: f32[n, 16] comm(registered, @g) = all_reduce sum @g (%a)
%s: f32[2*n, 16] comm(registered, @h) = all_gather @h (%a)
%r.1 mutates %r = wait r as r.wait
%s.1 mutates %s = wait s as s.wait
release r as r.release
release s as s.release
%b: f32[n, 16] comm(symmetric, @g) = pointwise {
  %0 = load %r.1[16*i0 + i1]
  %1 = load %s.1[16*i0 + i1]
  %2 = add %0, %1
  store %2
}
%t: f32[n, 16] comm(registered, @g) = all_reduce max @g (%b)
%t.1 mutates %t = wait t as t.wait
release t as t.release
%y: f32[n, 16] output = pointwise { %0 = load %t.1[16*i0 + i1] %1 = neg %0 store %1 }
output %y
)";

TEST(CommSegment, HasTheSameAddressesAtEverySizeAndInEveryStepAndNothingIsMadeAfterSetUp) {
  Compiled compiled("-O1");
  compiled.add("sized", kSized);
  const BraidProgram* table = compiled.table("sized");
  ASSERT_NE(table, nullptr);
  Record records[2];
  long allocated[2] = {};
  std::vector<ir::Tensor> results[2];
  rt::LaunchOptions launch;
  launch.world = rt::world_options(*table);
  const rt::Status status = rt::launch_threads(
      2, launch, guarded([&](rt::World& inner) {
        const auto rank = static_cast<std::size_t>(inner.rank());
        Record& record = records[rank];
        record.starts.reserve(1000);
        RecordingWorld world(inner, record);
        rt::Program program = compiled.open("sized", &world);
        EXPECT_EQ(record.groups, 2);
        for (const std::int64_t n : {300, 1, 17, 128, 299}) {
          ir::Tensor x = random_tensor(ir::DType::f32, {n, 16}, 3 * static_cast<std::uint64_t>(n) + rank);
          ir::Tensor y = ir::make_tensor(ir::DType::f32, {n, 16});
          const rt::TensorView in[] = {view(x)}, out[] = {view(y)};
          program.prepare(program.dims_of(in));
          program.run(in, out);  // chooses and remembers what depends on the size
          const long before = allocations_of_this_thread();
          for (int step = 0; step < 3; ++step) program.run(in, out);
          allocated[rank] += allocations_of_this_thread() - before;
          results[rank].push_back(y);
        }
        return 0;
      }));
  ASSERT_TRUE(status.ok()) << status.message;
  for (const Record& record : records) {
    EXPECT_EQ(record.groups, 2) << "registration after set-up";
    constexpr std::size_t kPerStep = 3;
    ASSERT_EQ(record.starts.size(), 5 * 4 * kPerStep);
    for (std::size_t k = 0; k < record.starts.size(); ++k) {
      const auto& [input, output] = record.starts[k];
      EXPECT_EQ(record.starts[k], record.starts[k % kPerStep]) << "start " << k;
      EXPECT_EQ(record.starts[k], records[0].starts[k]) << "offsets differ between ranks";
      EXPECT_EQ(input, table->collectives[k % kPerStep].input_offset);
      EXPECT_EQ(output, table->collectives[k % kPerStep].output_offset);
      EXPECT_EQ(input % ir::kCommAlignment, 0);
    }
  }
  EXPECT_EQ(allocated[0], 0);
  EXPECT_EQ(allocated[1], 0);
  for (std::size_t k = 0; k < results[0].size(); ++k) {
    EXPECT_EQ(results[0][k].bytes, results[1][k].bytes) << "a maximum is the same everywhere";
  }
}

// ---- bytes copied beyond what the algorithm needs

// The operand of the all-reduce: what a kernel writes; the same, and the result takes its place; the graph's
// input itself.
enum class Operand { produced, in_place, input };
constexpr Operand kOperands[] = {Operand::produced, Operand::in_place, Operand::input};

// A producer, an all-reduce and a consumer of `elements`.
std::string program_of(std::int64_t elements, Operand operand) {
  const std::string n = std::to_string(elements);
  const std::string producer =
      operand == Operand::input ? "%0 = load %x store %0" : "%0 = load %x %1 = exp %0 store %1";
  const std::string result =
      operand == Operand::in_place ? "%r mutates %a" : "%r: f32[" + n + "] comm(registered, @g)";
  return "graph figure\nranks 2\ngroup @g = [0, 1]\ninput %x: f32[" + n + "]\n%a: f32[" + n +
         "] comm(symmetric, @g) = pointwise { " + producer + " }\n" + result +
         " = all_reduce sum @g (%a) as sum\n%r.1 mutates %r = wait sum\nrelease sum\n%y: f32[" + n +
         "] output = pointwise { %0 = load %r.1 %1 = neg %0 store %1 }\noutput %y\n";
}

std::int64_t planned_copies(const ir::Schedule& schedule) {
  return ir::bounds(ir::copied_bytes(schedule.graph, ir::comm_buffer_decisions(schedule))).max;
}

TEST(CommCopies, AreCountedAtRunTimeAsThePlanSays) {
  Compiled compiled("-O1");
  std::map<std::string, std::int64_t> want;
#ifdef __SANITIZE_THREAD__
  constexpr std::int64_t kMostKib = 1024;  // it looks at every byte
#else
  constexpr std::int64_t kMostKib = 16 * 1024;
#endif
  for (std::int64_t kib = 1; kib <= kMostKib; kib *= 4) {
    for (const Operand operand : kOperands) {
      const std::string name = fmt::format("kib{}_{}", kib, static_cast<int>(operand));
      compiled.add_schedule(name, schedule_of(program_of(kib * 256, operand)), true);
      want[name] = operand == Operand::input ? kib * 1024 : 0;
    }
  }
  for (const auto& [name, bytes] : want) {
    EXPECT_EQ(planned_copies(compiled.schedule(name)), bytes) << name;
    const BraidProgram* table = compiled.table(name);
    ASSERT_NE(table, nullptr);
    constexpr int kSteps = 3;
    std::atomic<int> checked = 0;
    rt::LaunchOptions launch;
    launch.world = rt::world_options(*table);
    const rt::Status status = rt::launch_threads(
        2, launch, guarded([&](rt::World& world) {
          rt::Program program = compiled.open(name, &world);
          const std::uint64_t before = world.copied_bytes();
          const auto inputs = random_inputs(compiled.schedule(name).graph, {}, 5);
          for (int step = 0; step < kSteps; ++step) compiled.run(program, inputs);
          EXPECT_EQ(static_cast<std::int64_t>(world.copied_bytes() - before), kSteps * bytes) << name;
          ++checked;
          return 0;
        }));
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(checked, 2);
  }
}

}  // namespace
}  // namespace braid::test
