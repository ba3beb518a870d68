// Writes what a GPU bundle runs: emit_bundle OUT MODELS.txt [NAME...]
//
//   OUT/programs/*.cu                   the programs of tests/codegen_cuda, the kernels of kernels.cc, and
//                                       the models
//   OUT/kernels/*.braid                 the graphs of kernels.cc, before passes
//   OUT/cases.txt, OUT/cases.data       what they are run with and must give (bench/gpu/case_file.h)
//   OUT/runtime/...                     the sources of Braid's runtime that they need
//
// With names, only these programs of tests/codegen_cuda and kernels.cc. A line of MODELS.txt: name | file |
// ranks | bounds of dimensions | sizes that are checked | sizes that are timed
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <span>

#include "codegen/cuda/standalone.h"
#include "driver/compile.h"
#include "ir/printer.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/gpu_bundle/bundle_case.h"
#include "tests/gpu_bundle/kernels.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProgramsPerSource = 24;  // so that many compilers share the work

class Bundle {
 public:
  explicit Bundle(fs::path out)
      : out_(std::move(out)), text_(out_ / "cases.txt"), data_(out_ / "cases.data", std::ios::binary) {
    fs::create_directories(out_ / "programs");
  }

  // Puts the program into the source `library`, or one that continues it.
  void add(const std::string& library, const BundleProgram& program, const std::vector<Sizes>& checked,
           const std::vector<Sizes>& timed) {
    added_.insert(program.emitted.name);
    std::vector<std::string>& names = parts_[library];
    if (names.empty() || sources_[names.back()].size() >= kProgramsPerSource)
      names.push_back(names.empty() ? library : fmt::format("{}_{}", library, names.size() + 1));
    sources_[names.back()].push_back(program.emitted);
    const std::string text = codegen::cuda::cuda_source(std::span(&program.emitted, 1));
    const std::string source = fmt::format("{:016x}", rt::fnv1a(text));
    try {
      for (const Sizes& sizes : checked) write(program, {names.back(), source}, sizes, true);
      for (const Sizes& sizes : timed) write(program, {names.back(), source}, sizes, false);
    } catch (const std::exception& e) {
      throw std::runtime_error(program.emitted.name + ": " + e.what());
    }
  }

  void write_graph(const std::string& name, const ir::Schedule& schedule) const {
    fs::create_directories(out_ / "kernels");
    std::ofstream(out_ / "kernels" / (name + ".braid")) << ir::print(schedule);
  }

  bool has(const std::string& program) const { return added_.contains(program); }

  void finish() {
    std::vector<std::string> texts;
    for (const auto& [name, programs] : sources_) {
      texts.push_back(codegen::cuda::cuda_source(programs));
      std::ofstream(out_ / "programs" / (name + ".cu")) << texts.back();
    }
    for (const char* file : {"rank_run.h", "case_file.h", "device_api.h", "machine.cc", "peer_check.cu"}) {
      std::ifstream harness(paths::source(std::string("bench/gpu/") + file));
      texts.emplace_back(std::istreambuf_iterator<char>(harness), std::istreambuf_iterator<char>());
    }
    for (const codegen::TextFile& file : codegen::cuda::runtime_sources(texts, paths::source())) {
      fs::create_directories((out_ / file.name).parent_path());
      std::ofstream(out_ / file.name) << file.text;
    }
    text_.close();
    data_.close();
    if (!text_ || !data_) throw std::runtime_error("the bundle cannot be written");
  }

 private:
  struct Source {
    std::string library;
    std::string hash;  // of the program's own source, whatever else its library has
  };
  void write(const BundleProgram& program, const Source& source, const Sizes& sizes, bool checked) {
    gpu_bundle::Case c = bundle_case(program, sizes, checked, data_);
    c.library = source.library;
    c.source = source.hash;
    gpu_bundle::write_case(text_, c);
  }

  const fs::path out_;
  std::ofstream text_, data_;
  std::set<std::string> added_;
  std::map<std::string, std::vector<std::string>> parts_;
  std::map<std::string, std::vector<codegen::cuda::CudaProgram>> sources_;
};

// The word before the first type or number in a case's name is its subject.
std::string kind_of(const Case& c) {
  if (c.source != "cases") return c.source;
  return c.name.substr(0, c.name.find('_'));
}

std::string dtype_of(const ir::Schedule& schedule) {
  std::set<std::string> types;
  for (const ir::GraphInput& i : schedule.graph.inputs)
    types.insert(std::string(to_string(schedule.graph[i.buffer].dtype)));
  return types.size() == 1 ? *types.begin() : "mixed";
}

// Empty: all.
using Names = std::set<std::string>;
bool is_wanted(const Names& names, const std::string& name) { return names.empty() || names.contains(name); }

void add_test_cases(Bundle& bundle, const Names& wanted) {
  int left_out = 0;
  for (const Case& c : cases()) {
    if (!is_wanted(wanted, c.name)) continue;
    if (c.options.fault.planted || c.faulty || !c.edits.empty() || c.name == "extern_fails") continue;
    if (c.source == "lost_peers") continue;  // its programs call a function of the test
    // Ranks outside of a group copy or mask memory that was never written, which the emulated device and
    // initcheck report. All of these have more than two ranks, so that a machine with one GPU would skip
    // them.
    if (c.name.ends_with("_some") || c.name.starts_with("random_collectives_")) continue;
    const ir::Schedule schedule = c.build();
    const std::vector<Sizes> sizes = sizes_to_check(schedule.graph);
    if (sizes.empty()) {
      std::cerr << c.name << ": no sizes found that its guards accept\n";
      ++left_out;
      continue;
    }
    const double tolerance = dtype_of(schedule) == "f64" ? 1e-12 : loosest_type(schedule.graph);
    bundle.add(c.source, {schedule, emitted(c), kind_of(c), dtype_of(schedule), tolerance, {}}, sizes, {});
  }
  if (left_out > 0) throw std::runtime_error(fmt::format("{} cases have no sizes", left_out));
}

void add_kernels(Bundle& bundle, const Names& wanted) {
  for (const TimedKernel& k : timed_kernels()) {
    if (!is_wanted(wanted, k.name)) continue;
    CompileOptions options;
    options.target = "cuda";
    ir::Schedule schedule = k.build();
    bundle.write_graph(k.name, schedule);
    optimise(schedule, options);
    bundle.add("kernels",
               {schedule,
                codegen::cuda::emit_cuda(schedule, {.name = k.name}),
                "kernels",
                dtype_of(schedule),
                loosest_type(schedule.graph),
                {},
                flops_of(k.build())},
               {k.small}, {k.large});
  }
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    const auto begin = part.find_first_not_of(' '), end = part.find_last_not_of(' ');
    out.push_back(begin == std::string::npos ? "" : part.substr(begin, end - begin + 1));
  }
  return out;
}

std::vector<Sizes> parse_sizes(const std::string& text) {
  std::vector<Sizes> out;
  for (const std::string& one : split(text, ';')) {
    Sizes sizes;
    for (const std::string& dim : split(one, ',')) {
      const auto equals = dim.find('=');
      if (equals != std::string::npos) sizes[dim.substr(0, equals)] = std::stoll(dim.substr(equals + 1));
    }
    out.push_back(sizes);
  }
  return out;
}

void add_model(Bundle& bundle, const std::string& line) {
  std::vector<std::string> fields = split(line, '|');
  fields.resize(6);
  CompileOptions options;
  options.model = fields[1];
  options.target = "cuda";
  options.name = fields[0];
  options.import.ranks = std::stoi(fields[2]);
  for (const std::string& dim : split(fields[3], ',')) {
    const auto equals = dim.find('='), dots = dim.find("..");
    if (equals == std::string::npos) continue;
    const std::int64_t low = std::stoll(dim.substr(equals + 1));
    options.import.dims[dim.substr(0, equals)] = {
        low, dots == std::string::npos ? low : std::stoll(dim.substr(dots + 2))};
  }
  ir::Schedule schedule = lower(options);
  auto flops = flops_of(schedule);
  optimise(schedule, options);
  std::map<ir::StorageId, GeneratedWeight> generated = generate_weights(schedule.graph);
  const double tolerance = 10 * loosest_type(schedule.graph);
  BundleProgram program{schedule,        codegen::cuda::emit_cuda(schedule, {.name = fields[0]}),
                        "model",         float_type(schedule.graph),
                        tolerance,       std::move(generated),
                        std::move(flops)};
  bundle.add(fields[0], program, parse_sizes(fields[4]),
             fields[5].empty() ? std::vector<Sizes>() : parse_sizes(fields[5]));
}

}  // namespace
}  // namespace braid::test

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: emit_bundle OUT MODELS.txt [NAME...]\n";
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    braid::test::Bundle bundle{argv[1]};
    const std::set<std::string> wanted(argv + 3, argv + argc);
    braid::test::add_test_cases(bundle, wanted);
    braid::test::add_kernels(bundle, wanted);
    for (const std::string& name : wanted) {
      if (!bundle.has(name)) throw std::runtime_error("there is no program '" + name + "'");
    }
    std::ifstream models(argv[2]);
    if (!models) throw std::runtime_error(std::string("cannot read ") + argv[2]);
    for (std::string line; std::getline(models, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::cerr << line << '\n';
      braid::test::add_model(bundle, line);
    }
    bundle.finish();
  } catch (const std::exception& e) {
    std::cerr << "emit_bundle: " << e.what() << '\n';
    return 1;
  }
}
