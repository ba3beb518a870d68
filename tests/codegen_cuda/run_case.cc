#include "tests/codegen_cuda/run_case.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "ir/element.h"
#include "ir/interpreter.h"

namespace braid::test {
namespace {

// The weight files as a program's user would map them: weights.bin for rank -1.
std::vector<std::byte> weight_file(const std::filesystem::path& dir, int rank) {
  std::ifstream file(dir / (rank < 0 ? "weights.bin" : "weights.rank" + std::to_string(rank) + ".bin"),
                     std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::vector<std::int64_t> actual(const std::vector<ir::Expr>& sizes,
                                 const std::map<std::string, std::int64_t>& dims) {
  std::vector<std::int64_t> out;
  for (ir::Expr s : sizes) out.push_back(ir::evaluate(s, [&](ir::Expr d) { return dims.at(d.dim_name()); }));
  return out;
}

}  // namespace

const BraidCudaProgram* program_of(const std::string& name) {
  void* function = dlsym(RTLD_DEFAULT, ("braid_cuda_program_" + name).c_str());
  if (function == nullptr) throw std::runtime_error("case '" + name + "' is not in this executable");
  return reinterpret_cast<BraidCudaProgramFunction>(function)();
}

std::vector<std::vector<ir::Tensor>> random_inputs(const ir::Graph& graph,
                                                   const std::map<std::string, std::int64_t>& dims,
                                                   const RunOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<std::vector<ir::Tensor>> out(static_cast<std::size_t>(graph.ranks));
  for (auto& of_rank : out) {
    for (const ir::GraphInput& input : graph.inputs) {
      const ir::Buffer& buffer = graph[input.buffer];
      if (const auto given = options.inputs.find(input.name); given != options.inputs.end()) {
        of_rank.push_back(given->second);
        continue;
      }
      ir::Tensor t = ir::make_tensor(buffer.dtype, actual(buffer.sizes, dims));
      const std::int64_t item = ir::size_of(buffer.dtype);
      for (std::int64_t k = 0; k < t.numel(); ++k) {
        const std::int64_t low = ir::is_signed_integer(buffer.dtype) || ir::is_float(buffer.dtype) ? -3 : 0;
        std::int64_t whole = low + static_cast<std::int64_t>(random() % 7);
        ir::Literal value = whole;
        if (ir::is_float(buffer.dtype)) {
          value = options.integers ? static_cast<double>(whole)
                                   : std::uniform_real_distribution<double>(-2, 2)(random);
        } else if (buffer.dtype == ir::DType::boolean) {
          value = whole & 1;
        } else if (whole == 0) {
          value = std::int64_t{5};  // integers are divided by one another
        }
        ir::write_element(buffer.dtype, t.bytes.data() + k * item, value);
      }
      of_rank.push_back(std::move(t));
    }
  }
  return out;
}

CaseResult run_case(const std::string& name, const std::map<std::string, std::int64_t>& dims,
                    const RunOptions& options) {
  const Case c = find_case(name);
  const ir::Schedule schedule = c.build();
  const ir::Graph& graph = schedule.graph;
  const codegen::cuda::CudaProgram program = emitted(c);

  const std::filesystem::path dir =
      std::filesystem::path(::testing::TempDir()) / fmt::format("{}.{}", name, getpid());
  std::filesystem::create_directories(dir);
  codegen::write_weights(graph, program.weights, program.id, dir.string());

  CaseResult result;
  const auto inputs = options.all_inputs.empty() ? random_inputs(graph, dims, options) : options.all_inputs;
  std::vector<std::int64_t> dim_values;
  for (ir::Expr d : graph.dims) dim_values.push_back(dims.at(d.dim_name()));
  const auto ranks = static_cast<std::size_t>(graph.ranks);
  std::vector<std::vector<const void*>> in(ranks);
  std::vector<std::vector<void*>> out(ranks);
  std::vector<BraidCudaHostRank> per_rank(ranks);
  std::vector<std::vector<std::byte>> rank_weights(ranks);
  result.outputs.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const ir::Tensor& t : inputs[r]) in[r].push_back(t.bytes.data());
    for (const ir::GraphOutput& o : graph.outputs) {
      result.outputs[r].push_back(
          ir::make_tensor(graph[o.buffer].dtype, actual(graph[o.buffer].sizes, dims)));
    }
    for (ir::Tensor& t : result.outputs[r]) out[r].push_back(t.bytes.data());
    rank_weights[r] = weight_file(dir, static_cast<int>(r));
    per_rank[r] = {in[r].data(), out[r].data(), rank_weights[r].data(), rank_weights[r].size()};
  }
  const std::vector<std::byte> weights = weight_file(dir, -1);
  std::filesystem::remove_all(dir);
  BraidCudaHostRun run = {};
  run.struct_size = sizeof(run);
  run.program = program_of(options.program.empty() ? name : options.program);
  run.weights = weights.data();
  run.weights_bytes = weights.size();
  run.ranks = per_rank.data();
  run.dims = dim_values.data();
  run.steps = options.steps;
  run.on_own_stream = options.own_stream ? 1 : 0;
  run.reuses_buffers = 1 - run.on_own_stream;
  run.timeout_ms = 60000;
  char message[512];
  result.status = braid_cuda_host_run(&run, message, sizeof(message));
  result.message = message;
  if (result.status == BRAID_OK && !c.options.fault.planted && !c.faulty)
    result.expected = ir::run(schedule, inputs).outputs;
  return result;
}

std::string difference(const CaseResult& result, double tolerance) {
  if (result.status != BRAID_OK)
    return fmt::format("status {}: {}", static_cast<int>(result.status), result.message);
  if (result.outputs.size() != result.expected.size()) return "another number of ranks";
  for (std::size_t r = 0; r < result.outputs.size(); ++r) {
    if (result.outputs[r].size() != result.expected[r].size()) return "another number of outputs";
    for (std::size_t k = 0; k < result.outputs[r].size(); ++k) {
      const ir::Tensor &got = result.outputs[r][k], &want = result.expected[r][k];
      if (got.sizes != want.sizes || got.dtype != want.dtype)
        return fmt::format("output {} has another type", k);
      const std::int64_t item = ir::size_of(got.dtype);
      for (std::int64_t i = 0; i < got.numel(); ++i) {
        const ir::Literal a = ir::read_element(got.dtype, got.bytes.data() + i * item);
        const ir::Literal b = ir::read_element(want.dtype, want.bytes.data() + i * item);
        bool same = a == b;
        if (ir::is_float(got.dtype)) {
          const double x = std::get<double>(a), y = std::get<double>(b);
          same = x == y || (std::isnan(x) && std::isnan(y)) ||
                 std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
        }
        if (!same)
          return fmt::format("rank {}, output {}, element {}: got {}, expected {}", r, k, i,
                             ir::literal_text(got.dtype, a), ir::literal_text(want.dtype, b));
      }
    }
  }
  return "";
}

void expect_equal(const CaseResult& result, double tolerance) {
  ASSERT_EQ(difference(result, tolerance), "");
}

}  // namespace braid::test
