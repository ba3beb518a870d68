// The promises of a generated program to its caller: errors, no allocation in a step, fixed memory, several
// ranks.
#include "runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/allocations.h"
#include "tests/codegen/compiled.h"
#include "tests/paths.h"

namespace fs = std::filesystem;

namespace braid::test {
namespace {

using ::testing::HasSubstr;

// A block as transformers have it: product with epilogue, normalisation, gather.
const char* kBlock = R"(graph main
dim n in [1, 32]
input %ids: i64[n]
input %scale: f32[n, 64]
constant %table: f32[10, 64] = splat(0.0)
constant %w: f32[64, 64] = splat(0.0)
constant %bias: f32[64] = splat(0.0)
%e: f32[n, 64] = pointwise from "embedding" { %0 = load %ids[i0] %1 = check_index %0, 10 %2 = load %table[64*%1 + i1] store %2 }
%h: f32[n, 64] = gemm %e, %w epilogue { %0 = acc f32 %1 = load %bias[i1] %2 = add %0, %1 return %2 }
%m: f32[n] = reduction max over [64] { %0 = load %h store %0 }
%y: f32[n, 64] = pointwise { %0 = load %h %1 = load %m[i0] %2 = sub %0, %1 %3 = load %scale %4 = mul %2, %3 store %4 }
output %y
)";

const char* kAllReduce = R"(graph main
dim n in [1, 32]
ranks 2
group @tp = [0, 1]
input %x: f32[n, 16]
constant %w: f32[16, 8] = per_rank(splat(0.0), splat(0.0))
%p: f32[n, 8] comm(symmetric, @tp) = gemm %x, %w
%r: f32[n, 8] comm(symmetric, @tp) = all_reduce sum @tp (%p)
%r.1 mutates %r = wait r
%y: f32[n, 8] = pointwise { %0 = load %r.1 %1 = tanh %0 store %1 }
release r
output %y
)";

const char* kGuarded = R"(graph main
dim a in [1, 8]
dim b in [1, 8]
guard a == b from "Add"
input %x: f32[a]
input %y: f32[b]
%z: f32[a] = pointwise { %0 = load %x %1 = load %y[i0] %2 = add %0, %1 store %2 }
output %z
)";

// Three dimensions whose names become equal once they are identifiers.
const char* kAlike = R"(graph main
dim "a b" in [1, 8]
dim "a-b" in [1, 8]
dim a_b in [1, 8]
input %x: f32["a b"]
input %y: f32["a-b", a_b]
%z: f32["a-b", "a b"] = pointwise { %0 = load %x[i1] %1 = load %y[i0 * a_b] %2 = add %0, %1 store %2 }
output %z
)";

class CppProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>();
    compiled_->add("block", kBlock);
    compiled_->add("all_reduce", kAllReduce);
    compiled_->add("guarded", kGuarded);
    compiled_->add("alike", kAlike);
    compiled_->build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }
  static inline std::unique_ptr<Compiled> compiled_;

  static std::vector<ir::Tensor> block_inputs(std::int64_t n, std::int64_t id = 3) {
    return {ir::make_tensor(ir::DType::i64, {n}, std::vector<std::int64_t>(static_cast<std::size_t>(n), id)),
            random_tensor(ir::DType::f32, {n, 64}, 5)};
  }
};

void expect_program_error(int code, const std::string& part, const std::function<void()>& f) {
  try {
    f();
    FAIL() << "no error";
  } catch (const rt::ProgramError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(e.what(), HasSubstr(part));
  }
}

TEST_F(CppProgram, OneProgramServesAllSizesFromTheSameMemoryWithoutAllocating) {
  rt::Program program = compiled_->open("block");
  const std::byte* arena = program.arena().data();
  for (std::int64_t n : {1, 5, 32, 5, 1}) {
    std::vector<ir::Tensor> in = block_inputs(n);
    ir::Tensor out = ir::make_tensor(ir::DType::f32, {n, 64});
    const std::vector<rt::TensorView> inputs = {view(in[0]), view(in[1])}, outputs = {view(out)};
    program.run(inputs, outputs);  // prepares for n
    begin_counting_allocations();
    program.run(inputs, outputs);
    EXPECT_EQ(end_counting_allocations(), 0) << "at n = " << n;
    EXPECT_EQ(program.arena().data(), arena);
    const auto want =
        ir::run(compiled_->schedule("block"), std::vector<std::vector<ir::Tensor>>{in}).outputs[0];
    expect_close(out, want[0], 2e-5, "n = " + std::to_string(n));
  }
}

TEST_F(CppProgram, InstancesAreIndependent) {
  rt::Program a = compiled_->open("block"), b = compiled_->open("block");
  const auto first = compiled_->run(a, block_inputs(4));
  compiled_->run(b, block_inputs(9, 7));
  EXPECT_EQ(compiled_->run(a, block_inputs(4)), first);
}

TEST_F(CppProgram, AnIndexOutsideOfItsAxisNamesTheNode) {
  rt::Program program = compiled_->open("block");
  expect_program_error(rt::kStepFailed, "'embedding': index 10 is out of range for an axis of size 10",
                       [&] { compiled_->run(program, block_inputs(2, 10)); });
  expect_program_error(rt::kStepFailed, "index -1", [&] { compiled_->run(program, block_inputs(2, -1)); });
  compiled_->expect_like_interpreter_on("block", block_inputs(2, 9), 2e-5);
}

TEST_F(CppProgram, DimensionsWhoseNamesReadAlikeAreApart) {
  compiled_->expect_like_interpreter_on(
      "alike", {random_tensor(ir::DType::f32, {2}, 1), random_tensor(ir::DType::f32, {3, 5}, 2)}, 0);
}

TEST_F(CppProgram, WrongInputsAreRefusedByName) {
  rt::Program program = compiled_->open("block");
  auto in = block_inputs(3);
  in[1] = random_tensor(ir::DType::f32, {4, 64}, 1);
  expect_program_error(rt::kWrongInput,
                       "input 'scale' has shape [4,64], expected [3,64] ([n,64] with n = 1..32)",
                       [&] { compiled_->run(program, in); });
  in[1] = random_tensor(ir::DType::f32, {64}, 1);  // of a rank that implies no n
  expect_program_error(rt::kWrongInput, "input 'scale' has shape [64], expected [n,64] with n = 1..32",
                       [&] { compiled_->run(program, in); });
  in[1] = random_tensor(ir::DType::f64, {3, 64}, 1);
  expect_program_error(rt::kWrongInput, "input 'scale' is f64, expected f32",
                       [&] { compiled_->run(program, in); });
  expect_program_error(rt::kWrongSize, "dimension 'n' is 33, but the program was compiled for 1 to 32",
                       [&] { compiled_->run(program, block_inputs(33)); });
  // Still usable.
  compiled_->run(program, block_inputs(3));
}

TEST_F(CppProgram, GuardsAreCheckedWhenSizesAreKnown) {
  rt::Program program = compiled_->open("guarded");
  const auto x = random_tensor(ir::DType::f32, {3}, 1), y = random_tensor(ir::DType::f32, {4}, 2);
  expect_program_error(rt::kWrongSize, "Add: a == b does not hold for a = 3, b = 4", [&] {
    compiled_->run(program, {x, y});
  });
  compiled_->expect_like_interpreter("guarded", {{"a", 4}, {"b", 4}});
}

TEST_F(CppProgram, WeightsOfAnotherProgramAreRefused) {
  rt::ProgramOptions options;
  options.weights_dir = "/nowhere";
  expect_program_error(rt::kCannotOpen, "weights.bin",
                       [&] { rt::Program::open(compiled_->table("block"), options); });
  // A folder of this process alone: several builds are tested side by side.
  const fs::path dir =
      fs::path(::testing::TempDir()) / ("braid_foreign_weights." + std::to_string(::getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "weights.bin", std::ios::binary) << std::string(100000, '\0');
  ASSERT_EQ(fs::file_size(dir / "weights.bin"), 100000u);
  options.weights_dir = dir;
  expect_program_error(rt::kCannotOpen, "not a weight file",
                       [&] { rt::Program::open(compiled_->table("block"), options); });
  fs::remove_all(dir);
}

TEST_F(CppProgram, RanksAgreeWithTheInterpreter) {
  const ir::Schedule& s = compiled_->schedule("all_reduce");
  for (int n : {1, 32}) {
    std::vector<std::vector<ir::Tensor>> inputs;
    for (std::uint64_t r = 0; r < 2; ++r) inputs.push_back(random_inputs(s.graph, {{"n", n}}, 11 + r));
    const auto want = ir::run(s, inputs).outputs;
    std::vector<std::vector<ir::Tensor>> got(2);
    rt::LaunchOptions launch;
    launch.world = rt::world_options(*compiled_->table("all_reduce"));
    const rt::Status status = rt::launch_threads(2, launch, [&](rt::World& world) {
      rt::Program program = compiled_->open("all_reduce", &world);
      for (int step = 0; step < 20; ++step)
        got[static_cast<std::size_t>(world.rank())] =
            compiled_->run(program, inputs[static_cast<std::size_t>(world.rank())]);
      return 0;
    });
    ASSERT_TRUE(status.ok()) << status.message;
    for (std::size_t r = 0; r < 2; ++r)
      expect_close(got[r][0], want[r][0], 2e-5, "rank " + std::to_string(r));
  }
}

TEST_F(CppProgram, AProgramForRanksNeedsAWorld) {
  expect_program_error(rt::kWrongRanks, "for 2 ranks", [&] { compiled_->open("all_reduce"); });
}

TEST(CppEmit, IsTheSameForTheSameInput) {
  const auto once = codegen::cpp::emit_cpp(schedule_of(kBlock)),
             again = codegen::cpp::emit_cpp(schedule_of(kBlock));
  EXPECT_EQ(once.source, again.source);
  EXPECT_EQ(once.manifest->dump(), again.manifest->dump());
  EXPECT_EQ(once.id, again.id);
}

TEST(CppEmit, RefusesWhatItDoesNotHaveInOneMessage) {
  try {
    codegen::cpp::emit_cpp(
        schedule_of("graph main input %x: f32[4] %a: f32[4] = extern \"foo\" reads(%x) %b: f32[4] = extern "
                    "\"bar\" reads(%a) output %b",
                    "plan_memory"));
    FAIL() << "no error";
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 601);
    EXPECT_THAT(e.what(), HasSubstr("foo"));
    EXPECT_THAT(e.what(), HasSubstr("bar"));
  }
}

// tests/codegen/golden/block.cc.txt; written anew with BRAID_UPDATE_GOLDEN=1.
TEST(CppEmit, SourceOfASmallProgramIsAsReviewed) {
  codegen::cpp::EmitOptions options;
  options.name = "block";
  const std::string source = codegen::cpp::emit_cpp(schedule_of(kBlock), options).source;
  const std::string path = paths::source("tests/codegen/golden/block.cc.txt");
  if (std::getenv("BRAID_UPDATE_GOLDEN")) std::ofstream(path) << source;
  std::ifstream file(path);
  const std::string want((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(source, want) << "if this is meant: BRAID_UPDATE_GOLDEN=1 and read the difference";
}

}  // namespace
}  // namespace braid::test
