#include "tests/codegen/compiled.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "codegen/cpp/build_library.h"
#include "codegen/cpp/target.h"
#include "driver/compile.h"
#include "ir/element.h"
#include "ir/parser.h"
#include "passes/plan_memory.h"
#include "tests/paths.h"

namespace braid::test {

namespace fs = std::filesystem;

ir::Schedule schedule_of(const std::string& text, const std::string& passes) {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  CompileOptions options;
  if (passes != "default") options.passes = passes;
  optimise(schedule, options);
  return schedule;
}

Compiled::Compiled(std::string flags) : flags_(std::move(flags)) {
  // Generated programs are watched by the sanitizers that watch this one.
  if (const std::string sanitizers = BRAID_SANITIZE; !sanitizers.empty())
    flags_ += " -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=" + sanitizers;
  dir_ = (fs::temp_directory_path() / ("braid_codegen_" + std::to_string(::getpid()) + "_" +
                                       std::to_string(reinterpret_cast<std::uintptr_t>(this))))
             .string();
  fs::create_directories(dir_);
}
Compiled::~Compiled() {
  std::error_code ignored;
  if (!std::getenv("BRAID_KEEP_GENERATED")) fs::remove_all(dir_, ignored);
}

void fill_constants(ir::Graph& graph, std::uint64_t seed) {
  std::map<ir::StorageId, ir::DType> dtypes;
  for (const ir::Buffer& b : graph.buffers) {
    if (b.storage.valid() && graph[b.storage].kind == ir::StorageKind::constant)
      dtypes.emplace(b.storage, b.dtype);
  }
  for (const auto& [id, dtype] : dtypes) {
    ir::Storage& storage = graph[id];
    const std::int64_t elements = storage.bytes.constant() / ir::size_of(dtype);
    if (elements < 16) continue;
    std::vector<std::span<const std::byte>> per_rank;
    auto owner = std::make_shared<std::vector<ir::Tensor>>();
    for (std::size_t r = 0; r < storage.data.per_rank.size(); ++r)
      owner->push_back(random_tensor(dtype, {elements}, seed++));
    for (const ir::Tensor& t : *owner) per_rank.emplace_back(t.bytes);
    storage.data.per_rank = std::move(per_rank);
    storage.data.owner = owner;
  }
}

void Compiled::add(const std::string& name, const std::string& text, const std::string& passes) {
  ir::Schedule schedule = schedule_of(text, passes);
  fill_constants(schedule.graph, 17);
  add_schedule(name, std::move(schedule));
}

void Compiled::add_schedule(const std::string& name, ir::Schedule schedule, bool checked) {
  if (codegen::legalise(schedule, codegen::cpp::kernel_limits())) passes::PlanMemory().run(schedule);
  Entry entry;
  entry.schedule = std::move(schedule);
  codegen::cpp::EmitOptions options;
  options.name = name;
  options.checked = checked;
  entry.program = codegen::cpp::emit_cpp(entry.schedule, options);
  entry.dir = dir_ + "/" + name;
  codegen::ProgramFolder folder(entry.dir);
  codegen::cpp::write_program(entry.program, entry.schedule.graph, folder);
  folder.publish();
  entries_.emplace(name, std::move(entry));
}

namespace {

void mix(std::uint64_t& hash, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  hash = hash * 31 + ir::fnv1a(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// ctest runs each test in a process of its own: what one of them has built from the same sources, headers,
// flags and runtime library serves the others.
std::string build_once(const std::string& dir, const codegen::cpp::BuildOptions& options) {
  std::uint64_t hash =
      ir::fnv1a(reinterpret_cast<const std::byte*>(options.flags.data()), options.flags.size());
  mix(hash, fs::path(dir) / "all.cc");
  std::vector<fs::path> headers;
  for (const auto& entry : fs::recursive_directory_iterator(paths::source("runtime"))) {
    if (entry.path().extension() == ".h" || entry.path().extension() == ".inc")
      headers.push_back(entry.path());
  }
  std::sort(headers.begin(), headers.end());
  for (const fs::path& header : headers) mix(hash, header);
  mix(hash, paths::binary("lib/libbraid_runtime.a"));
  const fs::path cache = paths::binary("tests/codegen_programs");
  const fs::path cached = cache / (std::to_string(hash) + ".so");
  if (!fs::exists(cached)) {
    const std::string built = codegen::cpp::build_library(dir, "all", options);
    fs::create_directories(cache);
    const fs::path partial = cache / (std::to_string(hash) + "." + std::to_string(::getpid()));
    fs::copy_file(built, partial, fs::copy_options::overwrite_existing);
    // A full disk may cut a copy without an error.
    if (fs::file_size(partial) != fs::file_size(built)) throw std::runtime_error("cannot copy " + built);
    fs::rename(partial, cached);
  }
  return cached.string();
}

}  // namespace

void Compiled::build() {
  if (built_) return;
  built_ = true;
  std::ofstream all(dir_ + "/all.cc");
  for (const auto& [name, entry] : entries_) all << entry.program.source << "\n";
  all.close();
  codegen::cpp::BuildOptions options;
  if (!std::getenv("BRAID_CXXFLAGS")) options.flags = flags_;
  const std::string library = build_once(dir_, options);
  library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library_, nullptr) << ::dlerror();
}

const BraidProgram* Compiled::table(const std::string& name) {
  build();
  const auto function =
      reinterpret_cast<BraidProgramFunction>(::dlsym(library_, ("braid_program_" + name).c_str()));
  return function ? function() : nullptr;
}

rt::Program Compiled::open(const std::string& name, rt::World* world) {
  rt::ProgramOptions options;
  options.weights_dir = entries_.at(name).dir;
  options.world = world;
  return rt::Program::open(table(name), options);
}

rt::DType runtime_dtype(ir::DType dtype) {
  for (int k = 0; k < rt::kDTypeCount; ++k) {
    if (ir::to_string(dtype) == rt::to_string(static_cast<rt::DType>(k))) return static_cast<rt::DType>(k);
  }
  return rt::DType::f32;
}

rt::TensorView view(ir::Tensor& tensor) {
  return {tensor.bytes.data(), runtime_dtype(tensor.dtype), tensor.sizes};
}

std::vector<ir::Tensor> Compiled::run(rt::Program& program, const std::vector<ir::Tensor>& inputs) {
  std::vector<ir::Tensor> in = inputs, out;
  std::vector<rt::TensorView> in_views, out_views;
  for (ir::Tensor& t : in) in_views.push_back(view(t));
  program.prepare(program.dims_of(in_views));
  for (int k = 0; k < program.table().output_count; ++k) {
    const auto shape = program.output_shape(static_cast<std::size_t>(k));
    const auto name = std::string(rt::to_string(static_cast<rt::DType>(program.table().outputs[k].dtype)));
    out.push_back(ir::make_tensor(*ir::dtype_from_string(name), {shape.begin(), shape.end()}));
  }
  for (ir::Tensor& t : out) out_views.push_back(view(t));
  program.run(in_views, out_views);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto shape = program.result_shape(k);
    out[k].sizes.assign(shape.begin(), shape.end());
    out[k].bytes.resize(static_cast<std::size_t>(out[k].numel() * size_of(out[k].dtype)));
  }
  return out;
}

void Compiled::expect_like_interpreter_on(const std::string& name, const std::vector<ir::Tensor>& inputs,
                                          double tolerance, const std::string& what) {
  build();
  const std::vector<std::vector<ir::Tensor>> per_rank{inputs};
  const auto want = ir::run(schedule(name), per_rank).outputs[0];
  rt::Program program = open(name);
  const auto got = run(program, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size(); ++k)
    expect_close(got[k], want[k], tolerance, name + " output " + std::to_string(k) + " " + what);
}

void Compiled::expect_like_interpreter(const std::string& name,
                                       const std::map<std::string, std::int64_t>& dims, double tolerance,
                                       std::uint64_t seed) {
  const auto inputs = random_inputs(schedule(name).graph, dims, seed, tolerance == 0);
  expect_like_interpreter_on(name, inputs, tolerance, "seed " + std::to_string(seed));
}

}  // namespace braid::test
