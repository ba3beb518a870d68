#include "harness/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "frontend/tensor_file.h"
#include "harness/npy.h"
#include "harness/npz.h"
#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser.h"
#include "runtime/program.h"

namespace braid::harness {
namespace {

// Levenshtein's distance.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// A tensor that the user gave.
struct Given {
  std::string text;  // the option's, for messages
  std::string name;
  int rank = -1;  // -1: all
  ir::Tensor tensor;
};

[[noreturn]] void malformed(const std::string& text) {
  ir::user_error(
      errors::kBadOption, {}, fmt::format("--input {}: malformed", text),
      "write --input NAME=FILE.npy, --input NAME@RANK=FILE.npy, or --input FILE.npz with all of them");
}

int parse_rank(const std::string& text, const std::string& digits) {
  int rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc{} || end != digits.data() + digits.size() || rank < 0) {
    ir::user_error(errors::kBadOption, {}, fmt::format("--input {}: '{}' is not a rank", text, digits),
                   "write --input NAME@RANK=FILE.npy");
  }
  return rank;
}

// The arrays of an archive: "x", or "rank1/x" for one rank.
void read_archive(const std::string& path, std::vector<Given>& all) {
  for (auto& [key, tensor] : read_npz(path)) {
    Given given{path, key, -1, std::move(tensor)};
    if (const std::size_t slash = key.find('/'); key.starts_with("rank") && slash != std::string::npos) {
      const std::string digits = key.substr(4, slash - 4);
      if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos) {
        given.rank = parse_rank(path, digits);
        given.name = key.substr(slash + 1);
      }
    }
    all.push_back(std::move(given));
  }
}

std::vector<Given> read_files(const std::vector<std::string>& options) {
  std::vector<Given> all;
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos && text.ends_with(".npz")) {
      read_archive(text, all);
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) malformed(text);
    Given given{text, text.substr(0, equals), -1, {}};
    if (const std::size_t at = given.name.rfind('@'); at != std::string::npos) {
      given.rank = parse_rank(text, given.name.substr(at + 1));
      given.name.resize(at);
    }
    const std::string path = text.substr(equals + 1);
    given.tensor = path.ends_with(".pb") ? frontend::read_tensor_file(path).tensor : read_npy(path);
    all.push_back(std::move(given));
  }
  return all;
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

// The k-th input; whole, if ranks have parts.
ir::Tensor draw(const InputSpec& spec, const TensorPart* part,
                const std::map<std::string, std::int64_t>& dims, const InputOptions& options, std::size_t k) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < spec.sizes.size(); ++d) {
    const InputSpec::Size& s = spec.sizes[d];
    const std::optional<std::int64_t> whole = part != nullptr ? part->whole()[d] : std::nullopt;
    if (!whole && s.constant < 0 && !dims.contains(s.dim)) {
      ir::user_error(errors::kMissingInput, {}, fmt::format("the size of input '{}' is unknown", spec.name),
                     "give the input with --input NAME=FILE.npy");
    }
    sizes.push_back(whole ? *whole : s.constant >= 0 ? s.constant : dims.at(s.dim));
  }
  std::mt19937_64 generator(*options.random * 1000003 + k);
  return random_tensor(spec.dtype, std::move(sizes), generator,
                       std::min(options.random_max, index_limit(spec, dims)));
}

// "[n, 3] with n = 1..4"
std::string sizes_text(const ProgramInterface& table, const InputSpec& spec) {
  std::vector<std::string> sizes;
  std::string bounds;
  std::set<std::string> seen;
  for (const InputSpec::Size& s : spec.sizes) {
    sizes.push_back(s.constant >= 0 ? fmt::format("{}", s.constant) : s.dim.empty() ? "?" : s.dim);
    for (const ProgramInterface::Dim& dim : table.dims) {
      if (dim.name != s.dim || !seen.insert(s.dim).second) continue;
      bounds += fmt::format("{}{} = {}{}", bounds.empty() ? " with " : ", ", dim.name, dim.min,
                            dim.min == dim.max ? "" : fmt::format("..{}", dim.max));
    }
  }
  return fmt::format("[{}]{}", fmt::join(sizes, ", "), bounds);
}

void check_given(const ProgramInterface& table, const GivenInputs& inputs) {
  for (std::size_t rank = 0; rank < inputs.ranks.size(); ++rank) {
    for (std::size_t k = 0; k < table.inputs.size(); ++k) {
      const InputSpec& spec = table.inputs[k];
      const ir::Tensor& given = inputs.ranks[rank][k];
      const std::string name =
          fmt::format("input '{}'{}", spec.name, table.ranks > 1 ? fmt::format(" of rank {}", rank) : "");
      if (given.dtype != spec.dtype) {
        ir::user_error(
            rt::kWrongInput, {},
            fmt::format("{} is {}, expected {}", name, to_string(given.dtype), to_string(spec.dtype)),
            spec.dtype == ir::DType::bf16
                ? "give an ONNX TensorProto (.pb): .npy files have no bf16"
                : fmt::format("save it with numpy.save(FILE, x.astype(numpy.{}))", numpy_name(spec.dtype)));
      }
      const bool fits = std::equal(
          spec.sizes.begin(), spec.sizes.end(), given.sizes.begin(), given.sizes.end(),
          [](const InputSpec::Size& s, std::int64_t size) { return s.constant < 0 || s.constant == size; });
      if (fits) continue;
      ir::user_error(rt::kWrongInput, {},
                     fmt::format("{} has shape [{}], expected {}", name, fmt::join(given.sizes, ", "),
                                 sizes_text(table, spec)),
                     "give an array of the model's shape; braid inspect shows it");
    }
  }
}

}  // namespace

GivenInputs make_inputs(const ProgramInterface& program, std::map<std::string, std::int64_t> dims,
                        const InputOptions& options) {
  const std::vector<InputSpec>& specs = program.inputs;
  const int ranks = program.ranks;
  std::vector<std::vector<std::optional<ir::Tensor>>> found(
      static_cast<std::size_t>(ranks), std::vector<std::optional<ir::Tensor>>(specs.size()));
  GivenInputs inputs;
  // For inputs of which ranks have parts: the whole tensor given to each rank, by rank.
  std::map<std::size_t, std::vector<std::optional<ir::Tensor>>> wholes;
  std::set<std::pair<std::size_t, int>> named;
  for (const Given& given : read_files(options.files)) {
    std::size_t k = 0;
    while (k < specs.size() && specs[k].name != given.name) ++k;
    if (k == specs.size() || given.rank >= ranks) {
      std::vector<std::string> names;
      for (const InputSpec& s : specs) names.push_back(s.name);
      const std::string near = k == specs.size() ? nearest(given.name, names) : "";
      ir::user_error(errors::kMissingInput, {},
                     fmt::format("--input {}: the program has no such input", given.text),
                     fmt::format("{}inputs are {} on {} rank{}",
                                 near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                 fmt::join(names, ", "), ranks, ranks == 1 ? "" : "s"));
    }
    for (std::size_t d = 0; d < specs[k].sizes.size() && d < given.tensor.sizes.size(); ++d) {
      if (!specs[k].sizes[d].dim.empty()) dims[specs[k].sizes[d].dim] = given.tensor.sizes[d];
    }
    if (!named.emplace(k, given.rank).second)
      ir::user_error(errors::kBadOption, {},
                     fmt::format("--input {}: '{}' is given twice", given.text, given.name),
                     "give each input once, or once for each rank");
    const std::optional<TensorPart>& part = specs[k].part;
    const bool whole = part && !part->is_term() && part->is_whole(given.tensor);
    for (int r = 0; r < ranks; ++r) {
      // A file for one rank takes precedence over one for all.
      std::optional<ir::Tensor>& slot = found[static_cast<std::size_t>(r)][k];
      if (given.rank != r && (given.rank >= 0 || slot)) continue;
      slot = whole ? part->given(given.tensor, r) : given.tensor;
      if (!part) continue;
      std::optional<ir::Tensor>& of_rank =
          wholes.try_emplace(k, static_cast<std::size_t>(ranks)).first->second[static_cast<std::size_t>(r)];
      of_rank = whole ? std::optional(given.tensor) : std::nullopt;
    }
  }
  for (auto& [k, of_ranks] : wholes) {
    if (of_ranks[0] && std::ranges::all_of(of_ranks, [&](const auto& own) { return own == of_ranks[0]; }))
      inputs.whole.emplace(k, std::move(*of_ranks[0]));
  }
  for (std::size_t k = 0; k < specs.size(); ++k) {
    const TensorPart* part = specs[k].part && !specs[k].part->is_term() ? &*specs[k].part : nullptr;
    std::optional<ir::Tensor> drawn;
    bool all = true;
    for (int r = 0; r < ranks; ++r) {
      std::optional<ir::Tensor>& slot = found[static_cast<std::size_t>(r)][k];
      all = all && !slot;
      if (slot) continue;
      if (!options.random) {
        ir::user_error(errors::kMissingInput, {},
                       fmt::format("input '{}' of rank {} is missing", specs[k].name, r),
                       "give it with --input NAME=FILE.npy, or all inputs with --random SEED");
      }
      // One random stream per input, equal on all ranks, since shared inputs must be equal.
      if (!drawn) drawn = draw(specs[k], part, dims, options, k);
      slot = part != nullptr ? part->given(*drawn, r) : *drawn;
    }
    if (drawn) inputs.random.push_back(specs[k].name);
    if (drawn && all && part != nullptr) inputs.whole.emplace(k, std::move(*drawn));
  }
  inputs.ranks.resize(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < inputs.ranks.size(); ++r) {
    for (std::optional<ir::Tensor>& t : found[r]) inputs.ranks[r].push_back(std::move(*t));
  }
  check_given(program, inputs);
  return inputs;
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t d = distance(word, name);
    if (d < least || (best.empty() && word.size() > 3 && name.starts_with(word))) {
      least = std::min(d, least);
      best = name;
    }
  }
  return best;
}

}  // namespace braid::harness
