#include "frontend/sharding/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "frontend/schemas.h"

namespace braid::frontend::sharding {

LocalModel::LocalModel(const Model& plain, int ranks, int before) : ranks_(ranks), before_(before) {
  model_.path = plain.path;
  model_.coordinates = plain.coordinates;
  onnx::ModelProto& proto = model_.proto;
  proto = plain.proto;
  onnx::GraphProto& own = *proto.mutable_graph();
  const auto reserve = [&](const auto& list) {
    for (const auto& item : list) names_.insert(item.name());
  };
  reserve(own.input());
  reserve(own.output());
  for (const auto& [name, tensor] : plain.initializers) names_.insert(name);
  for (const onnx::NodeProto& node : own.node()) {
    names_.insert(node.output().begin(), node.output().end());
    node_names_.insert(node.name());
  }
  own.clear_node();
  own.clear_value_info();
  own.clear_initializer();
  // Initializers are declared again for the local model.
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  inputs.Swap(own.mutable_input());
  for (onnx::ValueInfoProto& input : inputs) {
    if (plain.initializers.count(input.name()) == 0) *own.add_input() = std::move(input);
  }
  bool has_braid = false;
  for (const onnx::OperatorSetIdProto& import : proto.opset_import()) {
    has_braid |= import.domain() == kBraidDomain;
    if (import.domain().empty() || import.domain() == "ai.onnx") version_ = import.version();
  }
  if (!has_braid) {
    onnx::OperatorSetIdProto& import = *proto.add_opset_import();
    import.set_domain(kBraidDomain);
    import.set_version(1);
  }
}

onnx::NodeProto& LocalModel::add_node(const std::string& domain, const std::string& op,
                                      const std::vector<std::string>& inputs,
                                      const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *graph().add_node();
  node.set_domain(domain);
  node.set_op_type(op);
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  std::string name = outputs.at(0);
  for (int k = 1; !node_names_.insert(name).second; ++k) name = fmt::format("{}#{}", outputs.at(0), k);
  node.set_name(name);
  return node;
}

onnx::NodeProto& LocalModel::add_node(const onnx::NodeProto& copy) {
  onnx::NodeProto& node = *graph().add_node();
  node = copy;
  return node;
}

std::string LocalModel::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int k = 1; !names_.insert(name).second; ++k) name = fmt::format("{}#{}", wanted, k);
  return name;
}

void LocalModel::add_initializer(const std::string& name, Tensor tensor, bool distinct) {
  names_.insert(name);
  // As they are in files of ranks.
  std::vector<std::span<const std::byte>>& parts = tensor.data.per_rank;
  const auto equal = [&](std::span<const std::byte> part) {
    return part.data() == parts[0].data() || part.empty() ||
           std::memcmp(part.data(), parts[0].data(), part.size()) == 0;
  };
  if (!distinct && std::ranges::all_of(parts, equal)) parts.resize(1);
  model_.initializers.emplace(name, std::move(tensor));
}

std::string LocalModel::integers(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                                 const std::vector<std::int64_t>& values) {
  std::string own = fresh(name);
  add_initializer(own, integer_tensor(dtype, std::move(sizes), values));
  return own;
}

std::string LocalModel::integers_of_rank(const std::string& name, ir::DType dtype,
                                         std::vector<std::int64_t> sizes,
                                         const std::vector<std::vector<std::int64_t>>& rows) {
  const bool same = std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row == rows[0]; });
  if (same) return integers(name, dtype, std::move(sizes), rows[0]);
  Tensor all;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const std::vector<std::int64_t>& row : rows) {
    const Tensor one = integer_tensor(dtype, sizes, row);
    all.data.per_rank.push_back(one.data.of_rank(0));
    owners->push_back(one.data.owner);
  }
  for (std::size_t r = rows.size(); r < rows.size() * before_; ++r)
    all.data.per_rank.push_back(all.data.per_rank[r - rows.size()]);
  all.dtype = dtype;
  all.sizes = std::move(sizes);
  all.data.owner = owners;
  std::string own = fresh(name);
  add_initializer(own, std::move(all));
  model_.coordinates.insert(own);
  return own;
}

void LocalModel::set_groups(onnx::NodeProto& node) const {
  if (before_ == 1) return;  // the world
  std::vector<std::int64_t> groups(ranks_ * before_);
  std::iota(groups.begin(), groups.end(), 0);
  set_ints(node, "groups", groups);
  set_int(node, "group_size", ranks_);
}

void LocalModel::widen_groups(onnx::NodeProto& node) const {
  std::vector<std::int64_t> before(before_);
  std::iota(before.begin(), before.end(), 0);
  std::int64_t size = before_;
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.name() == "groups") before.assign(a.ints().begin(), a.ints().end());
    if (a.name() == "group_size") size = a.i();
  }
  std::vector<std::int64_t> groups;
  for (std::size_t begin = 0; begin < before.size(); begin += size) {
    for (int r = 0; r < ranks_; ++r) {
      for (std::int64_t k = 0; k < size; ++k) groups.push_back(before[begin + k] * ranks_ + r);
    }
  }
  set_ints(node, "groups", groups);
  set_int(node, "group_size", size);
}

std::string LocalModel::number(const std::string& name, ir::DType dtype, double value) {
  std::string own = fresh(name);
  if (!is_float(dtype)) {
    add_initializer(own, integer_tensor(dtype, {}, {static_cast<std::int64_t>(value)}));
    return own;
  }
  // An f32, which holds all numbers that rules need, cast to the type if that is another one.
  add_initializer(own, float_tensor({}, {static_cast<float>(value)}));
  if (dtype == ir::DType::f32) return own;
  const std::string cast = fresh(own + "/cast");
  set_int(add_node("", "Cast", {own}, {cast}), "to", onnx_type_of(dtype));
  return cast;
}

std::string LocalModel::compute(const std::string& op, const std::vector<std::string>& inputs,
                                const std::string& name) {
  std::string result = fresh(name);
  add_node("", op, inputs, {result});
  return result;
}

onnx::NodeProto& LocalModel::add_collective(const std::string& op, const std::string& input,
                                            const std::string& result) {
  onnx::NodeProto& node = add_node(kBraidDomain, op, {input}, {result});
  set_groups(node);
  return node;
}

void LocalModel::slice(const std::string& value, int dim, std::int64_t begin, std::int64_t end,
                       const std::string& result) {
  constexpr int kLimitsAreInputs = 10;
  if (version_ < kLimitsAreInputs) {
    onnx::NodeProto& node = add_node("", "Slice", {value}, {result});
    set_ints(node, "starts", {begin});
    set_ints(node, "ends", {end});
    set_ints(node, "axes", {dim});
    return;
  }
  const auto limit = [&](const char* name, std::int64_t at) {
    return integers(result + name, ir::DType::i64, {1}, {at});
  };
  const std::string from = limit("/starts", begin), to = limit("/ends", end), axes = limit("/axes", dim);
  add_node("", "Slice", {value, from, to, axes}, {result});
}

void LocalModel::add_with_axes(const std::string& op, const std::string& value,
                               const std::vector<std::int64_t>& axes, const std::string& result,
                               int axes_are_an_input) {
  if (version_ < axes_are_an_input) {
    set_ints(add_node("", op, {value}, {result}), "axes", axes);
    return;
  }
  add_node("", op, {value, integers(result + "/axes", ir::DType::i64, {std::ssize(axes)}, axes)}, {result});
}

std::string LocalModel::unsqueezed(const std::string& value, const std::vector<std::int64_t>& axes,
                                   const std::string& name) {
  std::string result = fresh(name);
  add_with_axes("Unsqueeze", value, axes, result, 13);
  return result;
}

void LocalModel::squeeze(const std::string& value, const std::vector<std::int64_t>& axes,
                         const std::string& result) {
  add_with_axes("Squeeze", value, axes, result, 13);
}

void LocalModel::reduce(const std::string& op, const std::string& value,
                        const std::vector<std::int64_t>& axes, const std::string& result) {
  add_with_axes(op, value, axes, result, op == "ReduceSum" ? 13 : 18);
}

namespace {

onnx::AttributeProto& attribute(onnx::NodeProto& node, const char* name) {
  drop_attribute(node, name);
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  return a;
}

}  // namespace

void drop_attribute(onnx::NodeProto& node, const char* name) {
  for (int k = node.attribute_size(); k-- > 0;) {
    if (node.attribute(k).name() == name) node.mutable_attribute()->DeleteSubrange(k, 1);
  }
}

void set_int(onnx::NodeProto& node, const char* name, std::int64_t value) {
  onnx::AttributeProto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}

void set_string(onnx::NodeProto& node, const char* name, const std::string& value) {
  onnx::AttributeProto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
}

void set_ints(onnx::NodeProto& node, const char* name, const std::vector<std::int64_t>& values) {
  onnx::AttributeProto& a = attribute(node, name);
  a.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t v : values) a.add_ints(v);
}

onnx::NodeProto& LocalNode::emit() {
  onnx::NodeProto& node = model.add_node(view.proto());
  node.clear_input();
  node.clear_output();
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  return node;
}

std::string LocalNode::name(const std::string& suffix) const {
  for (const std::string& output : outputs) {
    if (!output.empty()) return output + "/" + suffix;
  }
  return suffix;
}

const Occurrence* LocalNode::at(bool output, int index, int dim) const {
  if (letter == nullptr) return nullptr;
  for (const Occurrence& o : letter->at) {
    if (o.output == output && o.index == index && o.dim == dim) return &o;
  }
  return nullptr;
}

void LocalNode::hide_padding(int k, double value) {
  const Spec& spec = strategy.inputs[k];
  if (!spec.is_split() || view.input(k).constant) return;  // of constants it is zero
  const std::int64_t size = view.size(k, spec.dim).constant(), part = part_of(size, ranks());
  if (size % ranks() == 0) return;
  std::vector<std::vector<std::int64_t>> rows;
  for (int r = 0; r < ranks(); ++r) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (std::int64_t j = 0; j < part; ++j) row.push_back(r * part + j);
  }
  std::vector<std::int64_t> sizes(view.rank(k) - spec.dim, 1);
  sizes[0] = part;
  const std::string positions = model.integers_of_rank(name("positions"), ir::DType::i64, sizes, rows);
  const std::string end = model.integers(name("size"), ir::DType::i64, {}, {size});
  const std::string mask = model.compute("Less", {positions, end}, name("no_padding"));
  const std::string other = model.number(name("hidden"), view.input(k).dtype, value);
  std::string& own = inputs[k];
  own = model.compute("Where", {mask, own, other}, name("without_padding"));
}

void LocalNode::add_to_input(int k, const std::vector<std::int64_t>& added) {
  if (std::all_of(added.begin(), added.end(), [](std::int64_t a) { return a == 0; })) return;
  const GraphValue& value = view.input(k);
  std::string& own = inputs[k];
  const std::vector<std::int64_t> sizes =
      value.rank() == 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{std::ssize(added)};
  if (const auto known = view.known_ints(k)) {
    std::vector<std::int64_t> sum = *known;
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += added[j];
    own = model.integers(name("local"), value.dtype, sizes, sum);
    return;
  }
  const std::string delta = model.integers(name("delta"), value.dtype, sizes, added);
  own = model.compute("Add", {own, delta}, name("local"));
}

ir::Expr local_size(const Spec& spec, int dim, const ir::Expr& size, int ranks) {
  if (!spec.is_split() || spec.dim != dim) return size;
  return part_of(size.constant(), ranks);
}

}  // namespace braid::frontend::sharding
