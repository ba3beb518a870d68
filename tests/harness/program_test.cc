// The calls of harness/program.h do the same for a CPU program and for a CUDA program.
#include "harness/program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "codegen/temp_dir.h"
#include "driver/compile.h"

namespace braid::harness {
namespace {

constexpr const char* kAffine = R"(graph affine
dim n in [1, 4]
input %x: f32[n, 2]
constant %bias: f32[2] = [10, 20]
%y: f32[n, 2] = pointwise {
  %0 = load %x
  %1 = constant f32 2
  %2 = mul %0, %1
  %3 = load %bias[i1]
  %4 = add %2, %3
  store %4
}
output %y
)";

constexpr const char* kSum = R"(graph sum
ranks 2
group @world = [0, 1]
input %x: f32[2]
%own: f32[2] comm(symmetric, @world) = pointwise {
  %0 = load %x
  store %0
}
%all: f32[2] comm(symmetric, @world) = all_reduce sum @world (%own)
%all.1 mutates %all = wait all
release all
%y: f32[2] = pointwise {
  %0 = load %all.1
  store %0
}
output %y
)";

ir::Tensor floats(std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  ir::Tensor tensor = ir::make_tensor(ir::DType::f32, std::move(sizes));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// By target.
class Programs : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Program> load(const char* text) {
    CompileOptions options;
    options.model = folder_.path() + "/model.braid";
    options.target = GetParam();
    options.output_dir = folder_.path() + "/program";
    std::ofstream(options.model) << text;
    compile(options);
    const bool cuda = options.target == "cuda";
    return load_program(find_program(options.output_dir,
                                     cuda ? DeviceChoice::emulated : DeviceChoice::automatic, options.model));
  }

 private:
  codegen::TempDir folder_;
};

INSTANTIATE_TEST_SUITE_P(Targets, Programs, testing::Values("cpu", "cuda"));

TEST_P(Programs, RanksGiveTheSameInThreadsAndInProcesses) {
  const auto program = load(kSum);
  const RankTensors inputs = {{floats({2}, {1, 2})}, {floats({2}, {10, 20})}};
  for (const RanksAs ranks_as : {RanksAs::threads, RanksAs::processes}) {
    const std::vector<RankResult> results = execute(*program, inputs, {.ranks_as = ranks_as, .repeat = 2});
    ASSERT_EQ(results.size(), 2u);
    for (const RankResult& result : results) EXPECT_EQ(result.outputs[0], floats({2}, {11, 22}));
  }
}

TEST_P(Programs, ASessionGivesWhatARunGives) {
  const auto program = load(kAffine);
  const std::vector<ir::Tensor> inputs = {floats({3, 2}, {1, 2, 3, 4, 5, 6})};
  const std::vector<RankResult> results = execute(*program, {inputs}, {});
  EXPECT_EQ(results[0].outputs[0], floats({3, 2}, {12, 24, 16, 28, 20, 32}));

  const auto session = program->open({.device = program->is_cuda() ? "emulated" : ""});
  const rt::TensorView x{const_cast<std::byte*>(inputs[0].bytes.data()), rt::DType::f32, inputs[0].sizes};
  session->prepare({&x, 1});
  const std::span<const std::int64_t> shape = session->output_shape(0);
  ir::Tensor y = ir::make_tensor(ir::DType::f32, {shape.begin(), shape.end()});
  const rt::TensorView out{y.bytes.data(), rt::DType::f32, shape};
  const std::uint8_t on_host = 0;
  session->run({{&x, 1}, {&out, 1}, {&on_host, 1}, {&on_host, 1}});
  EXPECT_EQ(y, results[0].outputs[0]);
}

TEST_P(Programs, SaysWhatGoesInAndOutAndRefusesOthers) {
  const auto program = load(kAffine);
  const ProgramInterface& interface = program->interface();
  ASSERT_EQ(interface.dims.size(), 1u);
  EXPECT_EQ(interface.dims[0].max, 4);
  EXPECT_EQ(interface.inputs[0].name, "x");
  EXPECT_EQ(interface.outputs[0].max_bytes, 32);
  try {
    execute(*program, {{floats({2, 3}, {1, 2, 3, 4, 5, 6})}}, {});
    FAIL() << "three columns are not two";
  } catch (const rt::ProgramError& error) {
    EXPECT_EQ(error.code(), rt::kWrongInput);
  }
}

}  // namespace
}  // namespace braid::harness
