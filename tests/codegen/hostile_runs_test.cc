// Compiled programs at the limits that they were compiled for: sizes of 0 and 1, indices out of range,
// numbers that are not finite. Each step gives results or a numbered error. Beside its tensors there is no
// memory, so nothing else can be read or written. The cases are those of tests/frontend/reference/, with a
// name for every size that may have one; some operators in the fast tier, all in the deep one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "driver/compile.h"
#include "ir/element.h"
#include "runtime/program.h"
#include "tests/codegen/compiled.h"
#include "tests/paths.h"
#include "tests/support/limited_child.h"
#include "tests/support/onnx_cases.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

constexpr std::int64_t kSmall = 3;  // a named size may be this, or the case's

// Bytes that end at memory which may not be touched, or begin after such memory.
class GuardedBytes {
 public:
  GuardedBytes(std::size_t bytes, bool at_end) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    void* const all = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(all);
    if (inner > 0) ::mprotect(base_ + page, inner, PROT_READ | PROT_WRITE);
    data_ = base_ + page + (at_end ? inner - bytes : 0);
  }
  GuardedBytes(GuardedBytes&& other) noexcept : base_(other.base_), data_(other.data_), size_(other.size_) {
    other.base_ = nullptr;
  }
  ~GuardedBytes() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }
  std::byte* data() const { return data_; }

 private:
  std::byte *base_ = nullptr, *data_ = nullptr;
  std::size_t size_ = 0;
};

struct Case {
  std::string name;  // of the program
  fs::path folder;
  std::vector<ir::Tensor> inputs;
};

// The model with a name of its own for every size of its inputs; nullopt if it is then refused.
std::optional<ir::Schedule> with_named_sizes(const fs::path& folder, const std::string& path) {
  onnx::ModelProto model;
  if (!model.ParseFromString(read_file(folder / "model.onnx"))) return std::nullopt;
  CompileOptions options;
  options.model = path;
  for (onnx::ValueInfoProto& input : *model.mutable_graph()->mutable_input()) {
    int axis = 0;
    for (auto& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      const std::string name = fmt::format("{}_{}", input.name(), axis++);
      const std::int64_t size = dim.has_dim_value() ? dim.dim_value() : kSmall;
      dim.set_dim_param(name);
      options.import.dims[name] = {0, std::max(size, kSmall)};
    }
  }
  for (onnx::ValueInfoProto& output : *model.mutable_graph()->mutable_output())
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  try {
    ir::Schedule schedule = lower(options);
    optimise(schedule, options);
    return schedule;
  } catch (const ir::UserError&) {
    return std::nullopt;
  }
}

std::optional<ir::Schedule> as_it_is(const fs::path& folder) {
  CompileOptions options;
  options.import = import_options_of(folder, options.model);
  for (auto& [name, bounds] : options.import.dims) bounds.min = 0;
  try {
    ir::Schedule schedule = lower(options);
    optimise(schedule, options);
    return schedule;
  } catch (const ir::UserError&) {
    return std::nullopt;
  }
}

// How sizes and values differ from those of the case.
struct Variation {
  int sizes = 0;   // 0: the case's; 1: all 0; 2: all 1; 3: all 3; from 4 on: one of them 0
  int values = 0;  // of kIntegers and kFloats; 0: the case's
};
constexpr std::int64_t kIntegers[] = {0,
                                      0,
                                      1,
                                      -1,
                                      7,
                                      std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(),
                                      std::int64_t{1} << 31,
                                      std::int64_t{1} << 32};
const double kFloats[] = {0, 0, 1, -1, NAN, INFINITY, -INFINITY, 3e38, 1e-40};
constexpr int kMostNames = 8;

std::vector<Variation> variations() {
  std::vector<Variation> all;
  for (int sizes = 0; sizes < 4 + kMostNames; ++sizes) {
    for (int values = 0; values < static_cast<int>(std::size(kIntegers)); ++values)
      all.push_back({sizes, values});
  }
  return all;
}

std::int64_t varied(int k, std::int64_t size, const Variation& v) {
  if (v.sizes == 1) return 0;
  if (v.sizes == 2) return 1;
  if (v.sizes == 3) return kSmall;
  return v.sizes - 4 == k ? 0 : size;
}

// The program's inputs: sizes that are fixed stay, named ones vary.
std::vector<ir::Tensor> inputs_of(const ir::Graph& graph, const Case& c, const Variation& v) {
  std::map<std::string, std::int64_t> names;
  std::vector<ir::Tensor> inputs;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::Buffer& buffer = graph[graph.inputs[k].buffer];
    const ir::Tensor* given = k < c.inputs.size() ? &c.inputs[k] : nullptr;
    std::vector<std::int64_t> sizes;
    for (std::size_t d = 0; d < buffer.sizes.size(); ++d) {
      const std::int64_t own = given != nullptr && d < given->sizes.size() ? given->sizes[d] : 1;
      sizes.push_back(ir::evaluate(buffer.sizes[d], [&](ir::Expr dim) {
        const auto [found, added] = names.emplace(dim.dim_name(), 0);
        if (added) found->second = varied(static_cast<int>(names.size()) - 1, own, v);
        return found->second;
      }));
    }
    ir::Tensor tensor = ir::make_tensor(buffer.dtype, sizes);
    if (given != nullptr && given->dtype == tensor.dtype && given->sizes == tensor.sizes && v.values == 0) {
      tensor = *given;
    } else {
      const ir::Literal value = is_float(tensor.dtype)               ? ir::Literal(kFloats[v.values])
                                : tensor.dtype == ir::DType::boolean ? ir::Literal(kIntegers[v.values] & 1)
                                                                     : ir::Literal(kIntegers[v.values]);
      for (std::int64_t e = 0; e < tensor.numel(); ++e)
        ir::write_element(tensor.dtype, tensor.bytes.data() + e * ir::size_of(tensor.dtype), value);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void run_guarded(rt::Program& program, const std::vector<ir::Tensor>& inputs, bool at_end) {
  std::vector<GuardedBytes> memory;
  std::vector<rt::TensorView> in, out;
  const auto guarded = [&](rt::DType dtype, std::span<const std::int64_t> shape, std::size_t bytes) {
    memory.emplace_back(bytes, at_end);
    return rt::TensorView{memory.back().data(), dtype, shape};
  };
  for (const ir::Tensor& t : inputs) {
    in.push_back(guarded(runtime_dtype(t.dtype), t.sizes, t.bytes.size()));
    std::copy(t.bytes.begin(), t.bytes.end(), memory.back().data());
  }
  program.prepare(program.dims_of(in));
  for (int k = 0; k < program.table().output_count; ++k) {
    const auto shape = program.output_shape(static_cast<std::size_t>(k));
    const auto dtype = static_cast<rt::DType>(program.table().outputs[k].dtype);
    std::int64_t bytes = rt::size_of(dtype);
    for (const std::int64_t size : shape) bytes *= size;
    out.push_back(guarded(dtype, shape, static_cast<std::size_t>(bytes)));
  }
  program.run(in, out);
}

void expect_survives(const std::vector<fs::path>& folders) {
  Compiled compiled("-O1 -march=native");
  std::vector<Case> cases;
  const fs::path scratch = fs::temp_directory_path() / fmt::format("braid_hostile_runs_{}", ::getpid());
  fs::create_directories(scratch);
  for (const fs::path& folder : folders) {
    const auto data = read_data_set(folder / "test_data_set_0");
    std::optional<ir::Schedule> schedule = with_named_sizes(folder, (scratch / "named.onnx").string());
    if (!schedule) schedule = as_it_is(folder);
    if (!schedule || !data) continue;
    cases.push_back({fmt::format("case_{}", cases.size()), folder, data->inputs});
    compiled.add_schedule(cases.back().name, *schedule);
  }
  fs::remove_all(scratch);
  if (cases.empty()) return;
  compiled.build();
  for (const Case& c : cases) compiled.table(c.name);  // loaded before processes are forked
  const std::vector<Variation> all = variations();
  const auto per_case = static_cast<int>(all.size());
  const std::vector<CaseFailure> failures =
      run_limited(static_cast<int>(cases.size()) * per_case, [&](int k) {
        const Case& c = cases[static_cast<std::size_t>(k / per_case)];
        const Variation& v = all[static_cast<std::size_t>(k % per_case)];
        try {
          rt::Program program = compiled.open(c.name);
          run_guarded(program, inputs_of(compiled.schedule(c.name).graph, c, v), k % 2 == 0);
        } catch (const rt::ProgramError&) {
        }
      });
  for (const auto& [number, what] : failures) {
    const Case& c = cases[static_cast<std::size_t>(number / per_case)];
    const Variation& v = all[static_cast<std::size_t>(number % per_case)];
    ADD_FAILURE() << c.folder.parent_path().filename().string() << " " << c.folder.filename().string()
                  << ", sizes " << v.sizes << ", values " << v.values << ": " << what;
  }
}

TEST(HostileRuns, StepsGiveResultsOrNumberedErrors) {
  const fs::path root = paths::test_models("reference");
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  const bool deep = random_cases(100) >= 100 * 100;
  const char* only = std::getenv("BRAID_SWEEP_ONLY");  // a part of an operator's name
  std::vector<fs::path> folders;
  int number = 0;
  for (const fs::path& op : sorted_entries(root)) {
    constexpr int kSampleEvery = 4;
    if (only != nullptr ? op.filename().string().find(only) == std::string::npos
                        : !deep && number++ % kSampleEvery != static_cast<int>(first_seed() % kSampleEvery))
      continue;
    std::vector<fs::path> seeds = sorted_entries(op);
    if (!deep && only == nullptr) seeds.resize(std::min<std::size_t>(seeds.size(), 1));
    folders.insert(folders.end(), seeds.begin(), seeds.end());
  }
  constexpr std::size_t kPerLibrary = 80;
  for (std::size_t k = 0; k < folders.size(); k += kPerLibrary) {
    const auto first = folders.begin() + static_cast<std::ptrdiff_t>(k);
    expect_survives(
        {first, folders.begin() + static_cast<std::ptrdiff_t>(std::min(k + kPerLibrary, folders.size()))});
  }
}

}  // namespace
}  // namespace braid::test
