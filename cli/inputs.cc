#include "cli/inputs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstring>
#include <random>

#include "cli/errors.h"
#include "cli/npy.h"
#include "frontend/tensor_file.h"
#include "ir/element.h"
#include "ir/error.h"
#include "ir/parser.h"

namespace braid::cli {
namespace {

struct FileInput {
  std::string name;
  int rank = -1;  // -1: all
  std::string path;
};

FileInput parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  FileInput input;
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    ir::user_error(kBadOption, {}, fmt::format("--input {}: malformed", text),
                   "write --input NAME=FILE.npy or --input NAME@RANK=FILE.npy");
  }
  input.name = text.substr(0, equals);
  input.path = text.substr(equals + 1);
  const std::size_t at = input.name.rfind('@');
  if (at != std::string::npos) {
    const std::string rank = input.name.substr(at + 1);
    const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), input.rank);
    if (error != std::errc{} || end != rank.data() + rank.size() || input.rank < 0) {
      ir::user_error(kBadOption, {}, fmt::format("--input {}: '{}' is not a rank", text, rank),
                     "write --input NAME@RANK=FILE.npy");
    }
    input.name.resize(at);
  }
  return input;
}

ir::Tensor read(const std::string& path) {
  return path.ends_with(".pb") ? frontend::read_tensor_file(path).tensor : read_npy(path);
}

// The same on every rank and machine: std::mt19937_64 is specified, the distributions are not, so they are
// written out.
ir::Tensor random_tensor(ir::DType dtype, std::vector<std::int64_t> sizes, std::mt19937_64& generator,
                         std::int64_t max) {
  ir::Tensor t = ir::make_tensor(dtype, std::move(sizes));
  const auto item = static_cast<std::size_t>(ir::size_of(dtype));
  for (std::size_t k = 0; k * item < t.bytes.size(); ++k) {
    const std::uint64_t bits = generator();
    ir::Literal value;
    if (ir::is_float(dtype)) {
      // The sum of four uniform numbers, scaled to variance 1.
      double sum = 0;
      for (int part = 0; part < 4; ++part)
        sum += static_cast<double>((bits >> (16 * part)) & 0xffff) / 65536.0 - 0.5;
      value = sum * 1.7320508;
    } else if (dtype == ir::DType::boolean) {
      value = static_cast<std::int64_t>(bits & 1);
    } else {
      value = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(std::max<std::int64_t>(max, 1)));
    }
    ir::write_element(dtype, t.bytes.data() + k * item, value);
  }
  return t;
}

std::int64_t index_limit(const InputSpec& spec, const std::map<std::string, std::int64_t>& dims) {
  if (spec.index_below.empty()) return ir::kUnbounded;
  ir::Graph graph;
  for (const auto& [name, size] : dims) graph.add_dim(name, {size, size});
  return ir::bounds(ir::parse_expr(spec.index_below, graph)).min;
}

}  // namespace

void InputOptions::add(CLI::App& command) {
  command.add_option("--input", files, "NAME=FILE.npy or NAME@RANK=FILE.npy (also .pb)")
      ->allow_extra_args(false);
  command.add_option("--random", random, "Seed: random values for inputs without a file");
  command
      .add_option("--random-max", random_max,
                  "Draw random integers from [0, MAX), and indices within their axis (default 100)")
      ->check(CLI::PositiveNumber);
}

std::vector<std::vector<ir::Tensor>> make_inputs(const std::vector<InputSpec>& specs, int ranks,
                                                 std::map<std::string, std::int64_t> dims,
                                                 const InputOptions& options) {
  std::vector<std::vector<std::optional<ir::Tensor>>> found(
      static_cast<std::size_t>(ranks), std::vector<std::optional<ir::Tensor>>(specs.size()));
  for (const std::string& text : options.files) {
    const FileInput file = parse(text);
    std::size_t k = 0;
    while (k < specs.size() && specs[k].name != file.name) ++k;
    if (k == specs.size() || file.rank >= ranks) {
      std::vector<std::string> names;
      for (const InputSpec& s : specs) names.push_back(s.name);
      ir::user_error(
          kMissingInput, {}, fmt::format("--input {}: the program has no such input", text),
          fmt::format("inputs are {} on {} rank{}", fmt::join(names, ", "), ranks, ranks == 1 ? "" : "s"));
    }
    const ir::Tensor tensor = read(file.path);
    for (std::size_t d = 0; d < specs[k].sizes.size() && d < tensor.sizes.size(); ++d) {
      if (!specs[k].sizes[d].dim.empty()) dims[specs[k].sizes[d].dim] = tensor.sizes[d];
    }
    for (int r = 0; r < ranks; ++r) {
      // A file for one rank takes precedence over one for all.
      if (file.rank == r || (file.rank < 0 && !found[static_cast<std::size_t>(r)][k]))
        found[static_cast<std::size_t>(r)][k] = tensor;
    }
  }
  for (std::size_t k = 0; k < specs.size(); ++k) {
    for (int r = 0; r < ranks; ++r) {
      std::optional<ir::Tensor>& slot = found[static_cast<std::size_t>(r)][k];
      if (slot) continue;
      if (!options.random) {
        ir::user_error(kMissingInput, {}, fmt::format("input '{}' of rank {} is missing", specs[k].name, r),
                       "give it with --input NAME=FILE.npy, or all inputs with --random SEED");
      }
      std::vector<std::int64_t> sizes;
      for (const InputSpec::Size& s : specs[k].sizes) {
        if (s.constant < 0 && !dims.contains(s.dim)) {
          ir::user_error(kMissingInput, {}, fmt::format("the size of input '{}' is unknown", specs[k].name),
                         "give the input with --input NAME=FILE.npy");
        }
        sizes.push_back(s.constant >= 0 ? s.constant : dims.at(s.dim));
      }
      // One random stream per input, equal on all ranks, since shared inputs must be equal.
      std::mt19937_64 generator(*options.random * 1000003 + k);
      slot = random_tensor(specs[k].dtype, std::move(sizes), generator,
                           std::min(options.random_max, index_limit(specs[k], dims)));
    }
  }
  std::vector<std::vector<ir::Tensor>> inputs(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (std::optional<ir::Tensor>& t : found[r]) inputs[r].push_back(std::move(*t));
  }
  return inputs;
}

}  // namespace braid::cli
