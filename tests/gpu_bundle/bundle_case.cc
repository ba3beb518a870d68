#include "tests/gpu_bundle/bundle_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "codegen/index_limits.h"
#include "codegen/weights.h"
#include "ir/element.h"
#include "ir/interpreter.h"
#include "passes/dead_code.h"
#include "runtime/hash.h"
#include "tests/gpu_bundle/model_flops.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;
using gpu_bundle::Case;
using gpu_bundle::Image;
using gpu_bundle::Piece;

constexpr std::int64_t kLargeConstant = 4096;    // bytes
constexpr std::int64_t kStoredElements = 4096;   // of an output
constexpr std::int64_t kMostElements = 100'000;  // of inputs and outputs of the larger sizes

std::int64_t evaluated(ir::Expr e, const Sizes& sizes) {
  return ir::evaluate(e, [&](ir::Expr d) { return sizes.at(d.dim_name()); });
}
std::vector<std::int64_t> evaluated(const std::vector<ir::Expr>& exprs, const Sizes& sizes) {
  std::vector<std::int64_t> out;
  for (ir::Expr e : exprs) out.push_back(evaluated(e, sizes));
  return out;
}

bool accepted(const ir::Graph& graph, const Sizes& sizes) {
  return std::all_of(graph.guards.begin(), graph.guards.end(), [&](const ir::Guard& g) {
    const std::int64_t lhs = evaluated(g.lhs, sizes), rhs = evaluated(g.rhs, sizes);
    return g.relation == ir::Guard::Relation::equal ? lhs == rhs : lhs <= rhs;
  });
}

std::int64_t elements(const ir::Graph& graph, const Sizes& sizes) {
  std::int64_t n = 0;
  for (const ir::GraphInput& i : graph.inputs) n += evaluated(ir::numel(graph[i.buffer].sizes), sizes);
  for (const ir::GraphOutput& o : graph.outputs) n += evaluated(ir::numel(graph[o.buffer].sizes), sizes);
  return n;
}

rt::DType runtime_type(ir::DType dtype) { return gpu_bundle::dtype_named(std::string(to_string(dtype))); }

// Statistics of a sample, taken for the whole constant.
struct Sample {
  bool finite = true, positive = true;
  double largest = 0, square = 0;
  std::size_t different = 0, count = 0;
};
Sample sample(std::span<const std::byte> bytes, ir::DType dtype) {
  Sample s;
  std::set<double> values;
  const std::int64_t item = ir::size_of(dtype), n = static_cast<std::int64_t>(bytes.size()) / item;
  const std::int64_t step = std::max<std::int64_t>(1, n / 4096);
  for (std::int64_t k = 0; k < n; k += step, ++s.count) {
    const double v = std::get<double>(ir::read_element(dtype, bytes.data() + k * item));
    s.finite = s.finite && std::isfinite(v);
    s.positive = s.positive && v > 0;
    s.largest = std::max(s.largest, std::abs(v));
    s.square += v * v;
    values.insert(v);
  }
  s.different = values.size();
  return s;
}

std::vector<std::byte> generated(const GeneratedWeight& w, std::int64_t count, int rank) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * ir::size_of(w.dtype)));
  Piece piece;
  piece.dtype = runtime_type(w.dtype);
  piece.count = static_cast<std::uint64_t>(count);
  piece.kind = w.kind;
  piece.parameter = w.parameter;
  piece.seed = w.seed + static_cast<std::uint64_t>(rank);
  gpu_bundle::generate(piece, reinterpret_cast<unsigned char*>(bytes.data()));
  return bytes;
}

// Appends the bytes to the data file.
std::uint64_t store(std::ostream& data, const void* bytes, std::size_t count) {
  const auto at = static_cast<std::uint64_t>(data.tellp());
  data.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  return at;
}

// The weight file of a rank (-1: of all), whose generated parts are not stored.
void add_weights(Case& c, const BundleProgram& program, int rank, const fs::path& file, std::ostream& data) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return;
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Image image{"weights", rank < 0 ? 0 : 1, rank, bytes.size(), rt::checksum(bytes.data(), bytes.size()), {}};
  std::map<std::int64_t, Piece> pieces;  // by offset
  for (const auto& [storage, weight] : program.weights) {
    const auto place = program.emitted.weights.places.find(storage);
    if (place == program.emitted.weights.places.end() || place->second.per_rank != (rank >= 0)) continue;
    Piece p;
    p.offset = static_cast<std::uint64_t>(place->second.offset);
    p.dtype = runtime_type(weight.dtype);
    p.count = static_cast<std::uint64_t>(place->second.bytes / ir::size_of(weight.dtype));
    p.kind = weight.kind;
    p.parameter = weight.parameter;
    p.seed = weight.seed + static_cast<std::uint64_t>(std::max(rank, 0));
    pieces[place->second.offset] = p;
  }
  std::size_t at = 0;
  const auto store_until = [&](std::size_t end) {
    if (end > at) {
      Piece p;
      p.offset = at;
      p.bytes = end - at;
      p.data_offset = store(data, bytes.data() + at, p.bytes);
      image.pieces.push_back(p);
    }
  };
  for (const auto& [offset, p] : pieces) {
    store_until(static_cast<std::size_t>(offset));
    image.pieces.push_back(p);
    at = static_cast<std::size_t>(offset) + p.count * rt::size_of(p.dtype);
  }
  store_until(bytes.size());
  c.images.push_back(std::move(image));
}

// Describes the inputs of all ranks. Makes them only if outputs are computed from them (`checked`): those of
// timings are large.
std::vector<std::vector<ir::Tensor>> make_inputs(Case& c, const BundleProgram& program, const Sizes& sizes,
                                                 bool checked) {
  const ir::Graph& graph = program.schedule.graph;
  const std::vector<std::optional<ir::Expr>> limits = codegen::index_limits(program.schedule);
  std::vector<std::vector<ir::Tensor>> inputs(static_cast<std::size_t>(graph.ranks));
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::Buffer& buffer = graph[graph.inputs[k].buffer];
    for (int r = 0; r < graph.ranks; ++r) {
      Piece p;
      p.dtype = runtime_type(buffer.dtype);
      p.count = static_cast<std::uint64_t>(evaluated(ir::numel(buffer.sizes), sizes));
      // Ranks of a model get the same inputs, as in a real run.
      const int own = program.kind == "model" ? 0 : r;
      p.seed = rt::fnv1a(fmt::format("{}/{}/{}", program.emitted.name, graph.inputs[k].name, own));
      p.kind = "integers";
      if (limits[k]) {
        p.kind = "below";
        p.parameter = std::max<std::int64_t>(1, evaluated(*limits[k], sizes));
      } else if (program.kind == "model" && ir::is_float(buffer.dtype)) {
        p.kind = "scaled";
      } else if (program.kind == "model") {  // a mask
        p.kind = "below";
        p.parameter = 2;
      }
      Image image{"input",
                  static_cast<int>(k),
                  graph.ranks == 1 ? -1 : r,
                  p.count * rt::size_of(p.dtype),
                  gpu_bundle::kNotChecked,
                  {}};
      if (checked) {
        ir::Tensor t = ir::make_tensor(buffer.dtype, evaluated(buffer.sizes, sizes));
        gpu_bundle::generate(p, reinterpret_cast<unsigned char*>(t.bytes.data()));
        image.checksum = rt::checksum(t.bytes.data(), t.bytes.size());
        inputs[static_cast<std::size_t>(r)].push_back(std::move(t));
      }
      if (p.count > 0) image.pieces.push_back(p);
      c.images.push_back(std::move(image));
    }
  }
  return inputs;
}

bool has_nan(const ir::Tensor& t) {
  if (!ir::is_float(t.dtype)) return false;
  for (std::int64_t k = 0; k < t.numel(); ++k) {
    if (std::isnan(std::get<double>(ir::read_element(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype)))))
      return true;
  }
  return false;
}

void add_expected(Case& c, const ir::Schedule& schedule, const std::vector<std::vector<ir::Tensor>>& inputs,
                  std::ostream& data) {
  const ir::InterpreterResult result = ir::run(schedule, inputs);
  for (std::size_t r = 0; r < result.outputs.size(); ++r) {
    for (std::size_t k = 0; k < result.outputs[r].size(); ++k) {
      const ir::Tensor& t = result.outputs[r][k];
      // One NaN in a model soon is all there is, and says nothing.
      if (c.kind == "model" && has_nan(t))
        throw std::runtime_error("output '" + schedule.graph.outputs[k].name + "' has a NaN");
      gpu_bundle::Expected e;
      e.index = static_cast<int>(k);
      e.rank = static_cast<int>(r);
      e.dtype = runtime_type(t.dtype);
      e.elements = static_cast<std::uint64_t>(t.numel());
      // Odd, so that all columns of a matrix of a usual width have their turn.
      e.stride =
          t.numel() <= kStoredElements ? 1 : static_cast<std::uint64_t>(t.numel() / kStoredElements) | 1;
      const std::size_t item = rt::size_of(e.dtype);
      std::string bytes;
      for (std::uint64_t i = 0; i < e.elements; i += e.stride)
        bytes.append(reinterpret_cast<const char*>(t.bytes.data()) + i * item, item);
      e.data_offset = store(data, bytes.data(), bytes.size());
      c.expected.push_back(e);
    }
  }
}

}  // namespace

std::map<ir::StorageId, GeneratedWeight> generate_weights(ir::Graph& graph) {
  std::map<ir::StorageId, ir::DType> types;
  for (const ir::Buffer& b : graph.buffers) {
    if (b.storage.valid() && graph[b.storage].kind == ir::StorageKind::constant) types[b.storage] = b.dtype;
  }
  std::map<ir::StorageId, GeneratedWeight> out;
  for (const auto& [id, dtype] : types) {
    ir::Storage& storage = graph[id];
    if (!ir::is_float(dtype) || storage.data.per_rank.empty()) continue;
    const auto first = storage.data.of_rank(0);
    if (static_cast<std::int64_t>(first.size()) < kLargeConstant) continue;
    const Sample s = sample(first, dtype);
    if (!s.finite || s.different * 4 < s.count || s.largest == 0) continue;
    GeneratedWeight w{dtype, s.positive ? "positive" : "scaled", 0,
                      1000 * static_cast<std::uint64_t>(out.size() + 1)};
    // A uniform number within +-b has the square root of the mean square b / sqrt(3).
    const double bound = s.positive ? s.largest : std::sqrt(3 * s.square / static_cast<double>(s.count));
    w.parameter = std::clamp(static_cast<std::int64_t>(std::lround(std::log2(bound))), std::int64_t{-12},
                             std::int64_t{8});
    auto owner = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (std::size_t r = 0; r < storage.data.per_rank.size(); ++r)
      owner->push_back(
          generated(w, static_cast<std::int64_t>(first.size()) / ir::size_of(dtype), static_cast<int>(r)));
    ir::ConstantData data;
    for (const std::vector<std::byte>& bytes : *owner) data.per_rank.emplace_back(bytes);
    data.owner = owner;
    storage.data = std::move(data);
    out[id] = w;
  }
  return out;
}

std::vector<Sizes> sizes_to_check(const ir::Graph& graph) {
  const auto sizes_of = [&](const auto& wanted) {
    Sizes sizes;
    for (std::size_t d = 0; d < graph.dims.size(); ++d) {
      const ir::Bounds b = ir::bounds(graph.dims[d]);
      sizes[graph.dims[d].dim_name()] = std::clamp(wanted(d), b.min, b.max);
    }
    return sizes;
  };
  std::vector<Sizes> out;
  Sizes small = sizes_of([](std::size_t) { return std::int64_t{5}; });
  for (std::int64_t n = 0; !accepted(graph, small); ++n) {
    if (n == 4096) return out;
    small = sizes_of([n](std::size_t d) { return std::int64_t{1} + ((n >> (3 * d)) & 7); });
  }
  out.push_back(small);
  std::size_t widest = 0;
  for (std::size_t d = 0; d < graph.dims.size(); ++d) {
    if (ir::bounds(graph.dims[d]).max > ir::bounds(graph.dims[widest]).max) widest = d;
  }
  Sizes large = small;
  if (!graph.dims.empty())
    large[graph.dims[widest].dim_name()] = std::min<std::int64_t>(ir::bounds(graph.dims[widest]).max, 1025);
  if (large != small && accepted(graph, large) && elements(graph, large) <= kMostElements)
    out.push_back(large);
  return out;
}

double loosest_type(const ir::Graph& graph) {
  double tolerance = 0;
  for (const ir::Buffer& b : graph.buffers) {
    tolerance = std::max(tolerance, b.dtype == ir::DType::bf16  ? 2e-2
                                    : b.dtype == ir::DType::f16 ? 4e-3
                                    : b.dtype == ir::DType::f32 ? 1e-4
                                    : b.dtype == ir::DType::f64 ? 1e-12
                                                                : 0);
  }
  return tolerance;
}

std::string float_type(const ir::Graph& graph) {
  for (const ir::GraphOutput& o : graph.outputs) {
    if (ir::is_float(graph[o.buffer].dtype)) return std::string(to_string(graph[o.buffer].dtype));
  }
  return "mixed";
}

std::function<double(const Sizes&)> flops_of(const ir::Schedule& model) {
  ir::Schedule used = model;
  passes::DeadCode().run(used);
  for (ir::Storage& storage : used.graph.storages) storage.data = {};
  return [graph = std::move(used.graph)](const Sizes& sizes) {
    return model_flops(graph, [&](const ir::Expr& e) { return evaluated(e, sizes); });
  };
}

Case bundle_case(const BundleProgram& program, const Sizes& sizes, bool checked, std::ostream& data) {
  const ir::Graph& graph = program.schedule.graph;
  Case c;
  c.program = program.emitted.name;
  std::vector<std::string> dims;
  for (ir::Expr d : graph.dims) {
    c.dims.push_back(sizes.at(d.dim_name()));
    dims.push_back(fmt::format("{}={}", d.dim_name(), c.dims.back()));
  }
  c.id = dims.empty() ? c.program : fmt::format("{}@{}", c.program, fmt::join(dims, ","));
  c.kind = checked ? program.kind : "timing";
  c.dtype = program.dtype;
  c.ranks = graph.ranks;
  c.tolerance = program.tolerance;

  const fs::path dir = fs::temp_directory_path() / fmt::format("braid_bundle.{}", ::getpid());
  fs::create_directories(dir);
  codegen::write_weights(graph, program.emitted.weights, program.emitted.id, dir.string());
  for (int r = -1; r < graph.ranks; ++r)
    add_weights(c, program, r, dir / (r < 0 ? "weights.bin" : fmt::format("weights.rank{}.bin", r)), data);
  fs::remove_all(dir);

  const auto inputs = make_inputs(c, program, sizes, checked);
  for (const Image& i : c.images) c.bytes += i.bytes;
  for (const ir::GraphOutput& o : graph.outputs)
    c.bytes += static_cast<std::uint64_t>(evaluated(ir::numel(graph[o.buffer].sizes), sizes) *
                                          ir::size_of(graph[o.buffer].dtype));
  if (program.flops) c.flops = static_cast<std::uint64_t>(program.flops(sizes));
  if (checked) add_expected(c, program.schedule, inputs, data);
  return c;
}

}  // namespace braid::test
