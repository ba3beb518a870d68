#include "tests/frontend/sharding/proof.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend::sharding {

using ir::DType;
using ir::Tensor;

namespace {

// Elements as doubles; the types of the cases hold no larger integers.
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> result;
  const auto read = [&](auto zero) {
    for (const auto v : t.values<decltype(zero)>()) result.push_back(static_cast<double>(v));
  };
  switch (t.dtype) {
    case DType::f32:
      read(float{});
      break;
    case DType::f64:
      read(double{});
      break;
    case DType::i8:
      read(std::int8_t{});
      break;
    case DType::i16:
      read(std::int16_t{});
      break;
    case DType::i32:
      read(std::int32_t{});
      break;
    case DType::i64:
      read(std::int64_t{});
      break;
    case DType::u8:
    case DType::boolean:
      read(std::uint8_t{});
      break;
    case DType::u16:
      read(std::uint16_t{});
      break;
    case DType::u32:
      read(std::uint32_t{});
      break;
    case DType::u64:
      read(std::uint64_t{});
      break;
    default:
      throw std::runtime_error("a type that proofs do not use");
  }
  return result;
}

Tensor tensor_of(DType dtype, std::vector<std::int64_t> sizes, const std::vector<double>& values) {
  const auto make = [&](auto zero) {
    std::vector<decltype(zero)> own;
    for (const double v : values) own.push_back(static_cast<decltype(zero)>(v));
    return ir::make_tensor(dtype, std::move(sizes), own);
  };
  switch (dtype) {
    case DType::f32:
      return make(float{});
    case DType::f64:
      return make(double{});
    case DType::i8:
      return make(std::int8_t{});
    case DType::i16:
      return make(std::int16_t{});
    case DType::i32:
      return make(std::int32_t{});
    case DType::i64:
      return make(std::int64_t{});
    case DType::u8:
    case DType::boolean:
      return make(std::uint8_t{});
    case DType::u16:
      return make(std::uint16_t{});
    case DType::u32:
      return make(std::uint32_t{});
    case DType::u64:
      return make(std::uint64_t{});
    default:
      throw std::runtime_error("a type that proofs do not use");
  }
}

struct Strides {
  std::size_t outer = 1, inner = 1;
};
Strides around(const std::vector<std::int64_t>& sizes, int dim, DType dtype) {
  Strides s;
  for (int d = 0; d < dim; ++d) s.outer *= static_cast<std::size_t>(sizes[static_cast<std::size_t>(d)]);
  s.inner = static_cast<std::size_t>(ir::size_of(dtype));
  for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < sizes.size(); ++d)
    s.inner *= static_cast<std::size_t>(sizes[d]);
  return s;
}

}  // namespace

Tensor random_tensor(DType dtype, const std::vector<std::int64_t>& sizes, double low, double high,
                     bool fractions, unsigned seed) {
  std::mt19937 random(seed);
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  std::vector<double> values;
  for (std::int64_t k = 0; k < n; ++k) {
    const double u = static_cast<double>(random() % 1000) / 1000;
    double v = low + u * (high - low);
    if (!fractions || !is_float(dtype)) v = std::floor(low + u * (high - low + 1));
    if (dtype == DType::boolean) v = static_cast<double>(random() % 2);
    values.push_back(v);
  }
  return tensor_of(dtype, sizes, values);
}

std::vector<Tensor> cut(const Tensor& whole, const Spec& spec, int ranks, unsigned seed) {
  const auto n = static_cast<std::size_t>(ranks);
  if (spec.is_replicated()) return std::vector<Tensor>(n, whole);
  std::vector<Tensor> parts;
  if (spec.is_split()) {
    const std::int64_t size = whole.sizes.at(static_cast<std::size_t>(spec.dim));
    const std::vector<std::int64_t> order = order_of(spec.blocks, size, ranks);
    const Strides s = around(whole.sizes, spec.dim, whole.dtype);
    const std::size_t own = order.size() / n;
    for (std::size_t r = 0; r < n; ++r) {
      std::vector<std::int64_t> sizes = whole.sizes;
      sizes[static_cast<std::size_t>(spec.dim)] = static_cast<std::int64_t>(own);
      Tensor part = ir::make_tensor(whole.dtype, sizes);
      for (std::size_t o = 0; o < s.outer; ++o) {
        for (std::size_t k = 0; k < own && s.inner > 0; ++k) {
          const std::size_t from =
              o * static_cast<std::size_t>(size) + static_cast<std::size_t>(order[r * own + k]);
          std::memcpy(part.bytes.data() + (o * own + k) * s.inner, whole.bytes.data() + from * s.inner,
                      s.inner);
          const bool padding = spec.blocks.empty() && static_cast<std::int64_t>(r * own + k) >= size;
          const int garbage = whole.dtype == DType::boolean ? 1 : seed % 2 == 0 ? 0x7f : 0xff;
          if (padding) std::memset(part.bytes.data() + (o * own + k) * s.inner, garbage, s.inner);
        }
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }
  std::mt19937 random(seed);
  const std::vector<double> values = numbers(whole);
  std::vector<std::vector<double>> own(n, std::vector<double>(values.size()));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::size_t owner = random() % n;
    double sum = 0;
    for (std::size_t r = 0; r < n; ++r) {
      const auto draw = static_cast<double>(random() % 5);
      switch (spec.reduce) {
        case ir::ReduceKind::sum:
          own[r][k] = draw - 2 + static_cast<double>(r);
          if (is_float(whole.dtype)) own[r][k] /= 4;  // no whole numbers, and still exact
          if (r != owner) sum += own[r][k];
          break;
        case ir::ReduceKind::max:
          own[r][k] = values[k] - draw;
          break;
        case ir::ReduceKind::min:
          own[r][k] = values[k] + draw;
          break;
        default:
          own[r][k] = 1;
      }
    }
    own[owner][k] = spec.reduce == ir::ReduceKind::sum ? values[k] - sum : values[k];
  }
  for (std::size_t r = 0; r < n; ++r) parts.push_back(tensor_of(whole.dtype, whole.sizes, own[r]));
  return parts;
}

Tensor joined(const std::vector<Tensor>& parts, const Spec& spec, std::int64_t size) {
  const std::size_t n = parts.size();
  if (spec.is_replicated()) {
    for (const Tensor& part : parts) {
      if (!(part == parts[0])) throw std::runtime_error("replicated results differ between ranks");
    }
    return parts[0];
  }
  if (spec.is_split()) {
    const auto own = static_cast<std::size_t>(parts[0].sizes.at(static_cast<std::size_t>(spec.dim)));
    std::vector<std::int64_t> sizes = parts[0].sizes;
    if (size < 0) size = static_cast<std::int64_t>(own * n);
    sizes[static_cast<std::size_t>(spec.dim)] = size;
    const std::vector<std::int64_t> order = order_of(spec.blocks, size, static_cast<int>(n));
    const Strides s = around(sizes, spec.dim, parts[0].dtype);
    Tensor whole = ir::make_tensor(parts[0].dtype, sizes);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t o = 0; o < s.outer; ++o) {
        for (std::size_t k = 0; k < own && s.inner > 0; ++k) {
          if (static_cast<std::int64_t>(r * own + k) >= size) continue;  // padding
          const std::size_t to =
              o * static_cast<std::size_t>(size) + static_cast<std::size_t>(order[r * own + k]);
          std::memcpy(whole.bytes.data() + to * s.inner, parts[r].bytes.data() + (o * own + k) * s.inner,
                      s.inner);
        }
      }
    }
    return whole;
  }
  std::vector<double> values = numbers(parts[0]);
  for (std::size_t r = 1; r < n; ++r) {
    const std::vector<double> other = numbers(parts[r]);
    for (std::size_t k = 0; k < values.size(); ++k) {
      double& v = values[k];
      switch (spec.reduce) {
        case ir::ReduceKind::sum:
          v += other.at(k);
          break;
        case ir::ReduceKind::prod:
          v *= other.at(k);
          break;
        case ir::ReduceKind::max:
          v = std::max(v, other.at(k));
          break;
        case ir::ReduceKind::min:
          v = std::min(v, other.at(k));
          break;
        case ir::ReduceKind::avg:
          throw std::runtime_error("no state");
      }
    }
  }
  return tensor_of(parts[0].dtype, parts[0].sizes, values);
}

std::string difference(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dtype != b.dtype) return "types differ";
  if (a.sizes != b.sizes)
    return fmt::format("sizes [{}] and [{}]", fmt::join(a.sizes, ","), fmt::join(b.sizes, ","));
  const std::vector<double> x = numbers(a), y = numbers(b);
  double largest = 1e-30;
  for (const double v : y) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  for (std::size_t k = 0; k < x.size(); ++k) {
    const bool same = x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                      std::abs(x[k] - y[k]) <= tolerance * largest;
    if (!same) return fmt::format("element {}: {} and {}", k, x[k], y[k]);
  }
  return {};
}

namespace {

std::vector<std::int64_t> constant_sizes(const GraphValue& value) {
  std::vector<std::int64_t> sizes;
  for (const ir::Expr& s : value.sizes) sizes.push_back(s.constant());
  return sizes;
}

// The parts of a plan, and the inputs and outputs of the node under test.
struct ProofSubject {
  std::vector<Strategy> all;
  std::string node;
  struct Operand {
    std::string name;
    int input;
    bool constant;
  };
  std::vector<Operand> inputs;
  std::vector<std::pair<std::string, int>> outputs;  // name, output of the node
  std::vector<std::string> graph_inputs;
  std::vector<DType> types;
  std::vector<std::vector<std::int64_t>> sizes;
};

ProofSubject subject_of(const Graph& graph, const std::string& op, int ranks) {
  ProofSubject s;
  const BlockCandidates candidates = block_candidates(graph, ranks);
  for (const GraphNode& node : graph.nodes) {
    if (node.compile_time || node.op != op) continue;
    s.all = strategies(graph, node, ranks, candidates);
    s.node = plan_name(graph, node);
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (!node.inputs[k].valid()) continue;
      const GraphValue& v = graph.values[node.inputs[k]];
      s.inputs.push_back({v.name, k, !v.graph_input});
    }
    for (int k = 0; k < count_of(node.outputs); ++k) {
      if (!node.outputs[k].valid()) continue;
      const GraphValue& v = graph.values[node.outputs[k]];
      if (!v.readers.empty()) s.outputs.emplace_back(v.name, k);
    }
  }
  for (const ValueId v : graph.inputs) {
    const GraphValue& value = graph.values[v];
    s.graph_inputs.push_back(value.name);
    s.types.push_back(value.dtype);
    s.sizes.push_back(constant_sizes(value));
  }
  return s;
}

std::string text_of(const Strategy& s) {
  std::string text;
  for (const Spec& spec : s.inputs) text += to_string(spec) + " ";
  text += "->";
  for (const Spec& spec : s.outputs) text += " " + to_string(spec);
  return text;
}

}  // namespace

Proof prove(const ProofCase& c, int ranks, unsigned seed) {
  Proof proof;
  const onnx::ModelProto proto = parse_model(c.graph, c.opset);
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", proto);
  ProofSubject subject;
  ImportOptions options;
  options.ranks = ranks;
  auto ask = std::make_shared<SplitRequest>();
  ask->choose = [&](const Graph& graph, const Mesh& mesh) {
    subject = subject_of(graph, c.op, mesh.ranks());
    return MeshPlan(mesh);
  };
  options.split = ask;
  import_model(path, options);
  if (subject.all.empty()) {
    proof.wrong.push_back("no node of " + c.op);
    return proof;
  }
  std::map<std::string, Tensor> whole;
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < subject.graph_inputs.size(); ++k) {
    const std::string& name = subject.graph_inputs[k];
    const auto range = c.ranges.find(name);
    const auto [low, high] = range == c.ranges.end() ? std::pair(c.low, c.high) : range->second;
    inputs.push_back(random_tensor(subject.types[k], subject.sizes[k], low, high, c.fractions,
                                   seed + static_cast<unsigned>(k)));
    whole[name] = inputs.back();
  }
  const std::vector<std::vector<Tensor>> one_rank{inputs};
  const std::vector<Tensor> expected = ir::run(import_model(path, {}), one_rank).outputs[0];
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& output : proto.graph().output()) names.push_back(output.name());

  for (const Strategy& s : subject.all) {
    const std::string what = fmt::format("{} on {} ranks: {}", c.graph, ranks, text_of(s));
    try {
      Plan plan;
      plan.ranks = ranks;
      std::map<std::string, Spec> states;
      bool twice = false;
      for (const ProofSubject::Operand& operand : subject.inputs) {
        const Spec& spec = s.inputs[static_cast<std::size_t>(operand.input)];
        if (operand.constant) {
          if (!spec.is_replicated()) plan.readers[{operand.name, {subject.node, operand.input}}] = spec;
          continue;
        }
        const auto [at, added] = states.emplace(operand.name, spec);
        twice |= !added && !(at->second == spec);
        if (!spec.is_replicated()) plan.values[operand.name] = spec;
      }
      if (twice) continue;
      std::map<std::string, Spec> results;
      for (const auto& [name, k] : subject.outputs) {
        const Spec& spec = s.outputs[static_cast<std::size_t>(k)];
        results[name] = spec;
        if (spec.is_replicated()) continue;
        plan.values[name] = spec;
        plan.readers[{name, {"", -1}}] = spec;
      }
      auto request = std::make_shared<SplitRequest>();
      request->plan = to_string(plan);
      request->plan_file = "plan";
      options.split = request;
      const ir::Schedule schedule = import_model(path, options);
      std::vector<std::vector<Tensor>> per_rank(static_cast<std::size_t>(ranks));
      for (const std::string& name : subject.graph_inputs) {
        const std::vector<Tensor> parts =
            cut(whole.at(name), states.count(name) > 0 ? states.at(name) : Spec(), ranks, seed + 77);
        for (std::size_t r = 0; r < per_rank.size(); ++r) per_rank[r].push_back(parts[r]);
      }
      const auto outputs = ir::run(schedule, per_rank).outputs;
      proof.combinations += text_of(s) == text_of(subject.all[0]) ? 0 : 1;
      for (std::size_t k = 0; k < names.size(); ++k) {
        std::vector<Tensor> parts;
        for (const auto& of_rank : outputs) parts.push_back(of_rank[k]);
        const Spec spec = results.count(names[k]) > 0 ? results.at(names[k]) : Spec();
        const std::int64_t size =
            spec.is_split() ? expected[k].sizes.at(static_cast<std::size_t>(spec.dim)) : -1;
        const std::string d = difference(joined(parts, spec, size), expected[k], c.tolerance);
        if (!d.empty()) proof.wrong.push_back(fmt::format("{}: output {}, {}", what, names[k], d));
      }
    } catch (const std::exception& error) {
      proof.wrong.push_back(fmt::format("{}: {}", what, error.what()));
    }
  }
  return proof;
}

}  // namespace braid::frontend::sharding
