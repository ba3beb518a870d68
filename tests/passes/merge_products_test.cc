// Random products of the same rows, with loops, products and results around them, compute the same bits when
// they are merged.
#include "passes/merge_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"

namespace braid::test {
namespace {

using namespace ir;

int products_of(const Schedule& schedule) {
  int count = 0;
  for (OpId op : execution_order(schedule)) count += schedule.graph[op].as<Gemm>() != nullptr;
  return count;
}

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  // Small whole numbers, so that sums are exact.
  std::string make() {
    constexpr const char* kTypes[] = {"f32", "f16", "bf16"};
    type_ = kTypes[pick(3)];
    const bool batched = pick(3) == 0;
    const int ranks = 1 + pick(2);
    rows_ = batched ? "b, n" : "n";
    depth_ = 1 + pick(5);
    text_ = fmt::format("graph main  ranks {}  dim n in [1, 5]  dim b in [1, 3]\n", ranks);
    text_ += fmt::format("input %x: {}[{}, {}]  input %t: {}[{}, {}]\n", type_, rows_, depth_, type_, rows_,
                         depth_);
    const int count = 2 + pick(4);
    for (int k = 0; k < count; ++k) product(k, batched, ranks);
    for (int k = 0; k < count; ++k) reader(k, batched);
    return text_;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::string numbers(int count) {
    std::string out;
    for (int k = 0; k < count; ++k) out += fmt::format("{}{}", k == 0 ? "" : ", ", pick(7) - 3);
    return "[" + out + "]";
  }
  std::string constant(int count, int ranks) {
    if (ranks == 1 || pick(2) == 0) return numbers(count);
    return fmt::format("per_rank({}, {})", numbers(count), numbers(count));
  }

  void product(int k, bool batched, int ranks) {
    const int columns = columns_.emplace_back(1 + pick(9));
    const bool transposed = pick(2) == 0;
    const std::string size =
        transposed ? fmt::format("{}, {}", columns, depth_) : fmt::format("{}, {}", depth_, columns);
    text_ += fmt::format("constant %w{}: {}[{}] = {}\n", k, type_, size, constant(depth_ * columns, ranks));
    std::string operand = transposed ? fmt::format("transpose(%w{})", k) : fmt::format("%w{}", k);
    if (batched) {
      operand = fmt::format("%w{} [b, {}, {}] strides [0, {}]", k, depth_, columns,
                            transposed ? fmt::format("1, {}", depth_) : fmt::format("{}, 1", columns));
    }
    text_ +=
        fmt::format("%p{}: {}[{}, {}]{} = gemm %{}, {}\n", k, type_, rows_, columns,
                    result_.emplace_back(pick(8) == 0) ? " output" : "", pick(5) == 0 ? "t" : "x", operand);
    if (pick(2) == 0 || result_.back()) return;
    text_ += fmt::format("constant %c{}: {}[{}] = {}\n", k, type_, columns, constant(columns, ranks));
    const std::string last = batched ? "i2" : "i1";
    text_ += fmt::format(
        "%p{0}.b: {1}[{2}, {3}] = pointwise {{ %0 = load %p{0} %1 = load %c{0}[{4}] %2 = add %0, %1 store %2 "
        "}}\n",
        k, type_, rows_, columns, last);
    biased_.insert(k);
  }

  void reader(int k, bool batched) {
    const std::string name = fmt::format("%p{}{}", k, biased_.contains(k) ? ".b" : "");
    if (result_[static_cast<std::size_t>(k)]) {
      text_ += fmt::format("output {}\n", name);
      return;
    }
    const int columns = columns_[static_cast<std::size_t>(k)];
    const int kind = pick(4);
    if (kind == 0 && !batched) {
      text_ += fmt::format("%y{0}: {1}[n, n] output = gemm {2}, transpose({2})\n", k, type_, name);
    } else if (kind == 1) {
      text_ += fmt::format("%y{}: {}[{}] output = reduction max over [{}] {{ %0 = load {} store %0 }}\n", k,
                           type_, rows_, columns, name);
    } else if (kind == 2 && !batched) {
      text_ += fmt::format("%y{}: {}[{}*n] output = pointwise {{ %0 = load {}[i0] store %0 }}\n", k, type_,
                           columns, name);
    } else {
      text_ +=
          fmt::format("%y{}: {}[{}, {}] output = pointwise {{ %0 = load {} %1 = mul %0, %0 store %1 }}\n", k,
                      type_, rows_, columns, name);
    }
    text_ += fmt::format("output %y{}\n", k);
  }

  std::mt19937_64 random_;
  std::string text_, type_, rows_;
  int depth_ = 0;
  std::vector<int> columns_;
  std::vector<bool> result_;
  std::set<int> biased_;
};

TEST(MergeProducts, KeepsTheBitsOfRandomPrograms) {
  int merged = 0;
  const int count = random_cases(100);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string text = RandomText(seed).make();
    Schedule schedule = parse_schedule(text);
    ASSERT_TRUE(verify(schedule).empty()) << text;
    const std::map<std::string, std::int64_t> dims = {{"n", 1 + seed % 5}, {"b", 1 + seed % 3}};
    std::vector<std::vector<Tensor>> inputs;
    for (int rank = 0; rank < schedule.graph.ranks; ++rank)
      inputs.push_back(random_inputs(schedule.graph, dims, seed + static_cast<std::uint64_t>(rank), true));
    const auto want = run(schedule, inputs).outputs;
    const int before = products_of(schedule);
    if (seed % 3 == 0) passes::run_passes(schedule, passes::parse_pass_list("fuse_epilogues,name_post_ops"));
    const bool changed = passes::MergeProducts().run(schedule);
    ASSERT_EQ(changed, products_of(schedule) < before) << print(schedule);
    merged += changed;
    EXPECT_TRUE(verify(schedule).empty()) << print(schedule);
    EXPECT_EQ(print(parse_schedule(print(schedule))), print(schedule));
    EXPECT_EQ(run(schedule, inputs).outputs, want) << text << print(schedule);
    passes::run_passes(schedule, passes::default_passes());
    EXPECT_EQ(run(schedule, inputs, {.use_plan = true}).outputs, want) << text << print(schedule);
    if (HasFailure()) return;
  }
  EXPECT_GT(merged, count / 4);
}

TEST(MergeProducts, HalvesWithUnalignedRowsArePaddedAloneIfTheGapIsSmall) {
  Schedule schedule = parse_schedule(R"(graph main  dim n in [1, 8]
input %x: f16[n, 1]  input %t: f16[n, 1]  input %u: f32[n, 1]
constant %a: f16[1, 57] = splat(0.5)  constant %b: f16[1, 9] = splat(0.5)  constant %c: f32[1, 57] = splat(0.5)
%p: f16[n, 57] = gemm %x, %a
%q: f16[n, 9] = gemm %t, %b
%r: f32[n, 57] = gemm %u, %c
%y: f16[n, 57] output = pointwise { %0 = load %p  %1 = exp %0  store %1 }
%z: f16[n, 9] output = pointwise { %0 = load %q  %1 = exp %0  store %1 }
%v: f32[n, 57] output = pointwise { %0 = load %r  %1 = exp %0  store %1 }
output %y  output %z  output %v
)");
  EXPECT_TRUE(passes::MergeProducts().run(schedule));
  std::vector<std::int64_t> pitches;
  for (OpId op : execution_order(schedule)) {
    if (const auto* gemm = schedule.graph[op].as<Gemm>()) pitches.push_back(gemm->out.strides[0].constant());
  }
  EXPECT_EQ(pitches, (std::vector<std::int64_t>{64, 9, 57}));
  const std::string text = print(schedule);
  EXPECT_EQ(print(parse_schedule(text)), text);  // constants with gaps between their rows, too
}

}  // namespace
}  // namespace braid::test
