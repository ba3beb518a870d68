#include "frontend/collective_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "frontend/node_row.h"
#include "frontend/schemas.h"
#include "frontend/sharding/local.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using sharding::set_int;
using sharding::set_ints;
using sharding::set_string;
using Ints = std::vector<std::int64_t>;

constexpr const char* kNames[] = {kBraidDomain, kMicrosoftDomain, "DistCollective"};

enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };

// One collective, whatever its node looks like.
struct Collective {
  Kind kind = Kind::all_reduce;
  std::string reduce = "sum";
  Ints ranks;               // group after group, members in order; empty: all in one group
  std::int64_t each = 0;    // members of a group
  std::int64_t axis = 0;    // gathered or scattered
  std::int64_t split = 0;   // all_to_all: cut
  std::int64_t concat = 0;  // all_to_all: joined
  std::int64_t root = 0;    // a position in the group
};

const onnx::AttributeProto* find(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}
std::int64_t int_of(const onnx::NodeProto& node, const char* name, std::int64_t fallback) {
  const onnx::AttributeProto* a = find(node, name);
  return a == nullptr ? fallback : a->i();
}
std::string text_of(const onnx::NodeProto& node, const char* name, const char* fallback) {
  const onnx::AttributeProto* a = find(node, name);
  return a == nullptr ? fallback : a->s();
}
Ints ints_of(const onnx::NodeProto& node, const char* name) {
  const onnx::AttributeProto* a = find(node, name);
  return a == nullptr ? Ints{} : Ints(a->ints().begin(), a->ints().end());
}

class Rewriting {
 public:
  Rewriting(Model& model, const Opsets& opsets, const ElementTypes& types, int ranks, CollectiveForm form)
      : model_(model), graph_(*model.proto.mutable_graph()), types_(types), ranks_(ranks), form_(form) {
    const auto version = opsets.find("");
    version_ = version == opsets.end() ? 1 : version->second;
  }

  void run() {
    for (const onnx::ValueInfoProto& input : graph_.input()) names_.insert(input.name());
    for (const auto& [name, tensor] : model_.initializers) names_.insert(name);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph_.mutable_node());
    for (const onnx::NodeProto& node : nodes) {
      names_.insert(node.output().begin(), node.output().end());
      node_names_.insert(node.name());
    }
    for (onnx::NodeProto& node : nodes) rewrite(node);
    import_domains();
  }

 private:
  [[noreturn]] void refuse(const onnx::NodeProto& node, const std::string& what) const {
    ir::user_error(errors::kCollectiveForm, location_of(model_.path, node),
                   fmt::format("{} has no form for {}", to_string(form_), what),
                   "write --collectives ai.braid, which has all, or split the model by another plan");
  }

  void rewrite(onnx::NodeProto& node) {
    if (!is_foreign(node)) {
      refuse_inside(node);
      *graph_.add_node() = std::move(node);
    } else if (node.op_type() == "OfRank") {
      take_row(node);
    } else if (node.op_type() == "WaitTensor") {
      add("Identity", node.input(0), node.output(0));
    } else {
      write(node, parse(node));
    }
  }

  // A collective in another form.
  bool is_foreign(const onnx::NodeProto& node) const {
    const std::string domain = domain_of(node), &op = node.op_type();
    if (domain == kBraidDomain) return form_ != CollectiveForm::braid;
    if (domain == kMicrosoftDomain) {
      return form_ != CollectiveForm::microsoft &&
             (op == "AllReduce" || op == "AllGather" || op == "AllToAll");
    }
    return domain.empty() && op == "DistCollective" && form_ != CollectiveForm::dist;
  }

  void refuse_inside(const onnx::NodeProto& node) const {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      for (const onnx::NodeProto& inner : attribute.g().node()) {
        if (is_foreign(inner)) refuse(inner, inner.op_type() + " inside of a branch or loop");
        refuse_inside(inner);
      }
    }
  }

  void take_row(const onnx::NodeProto& node) {
    const auto found = model_.initializers.find(node.input(0));
    if (found == model_.initializers.end()) refuse(node, "a table that is no initializer");
    const Tensor& table = found->second;
    const std::span<const std::byte> all = table.data.of_rank(0);
    const std::size_t bytes = all.size() / static_cast<std::size_t>(ranks_);
    Tensor row{table.dtype, {table.sizes.begin() + 1, table.sizes.end()}, {}};
    for (int r = 0; r < ranks_; ++r)
      row.data.per_rank.push_back(all.subspan(static_cast<std::size_t>(r) * bytes, bytes));
    row.data.owner = table.data.owner;
    model_.initializers.emplace(node.output(0), std::move(row));
  }

  // Nodes that have been imported: their attributes are legal.
  Collective parse(const onnx::NodeProto& node) const {
    Collective c;
    std::string op = node.op_type();
    if (op == "DistCollective") {
      op = text_of(node, "collective_operation", "");
      c.ranks = ints_of(node, "groups");
      if (c.ranks.empty()) c.ranks = all_ranks();
      c.each = int_of(node, "group_size", -1);
      c.reduce = text_of(node, "reduce_op", "none");
      if (c.reduce == "none") c.reduce = "sum";
      if (op == "reduce") op = "all_reduce";  // others than the root get the result as well
      const auto root = std::find(c.ranks.begin(), c.ranks.end(), int_of(node, "root", 0));
      if (root != c.ranks.end()) c.root = root - c.ranks.begin();
    } else {
      c.ranks = ints_of(node, "groups");
      if (!c.ranks.empty()) c.each = int_of(node, "group_size", -1);
      if (c.ranks.empty()) c.ranks = ints_of(node, "group");
      if (c.ranks.empty()) c.ranks = all_ranks();
      c.reduce = text_of(node, "reduce_op", "sum");
      c.axis = int_of(node, "axis", 0);
      c.split = int_of(node, "split_axis", int_of(node, "shard_dim", 0));
      c.concat = int_of(node, "concat_axis", int_of(node, "gather_dim", 0));
      c.root = int_of(node, "root", 0);
      if (!ints_of(node, "split_sizes").empty()) refuse(node, "AllToAll with 'split_sizes'");
    }
    if (c.reduce == "product") c.reduce = "prod";
    constexpr std::pair<const char*, Kind> kKinds[] = {
        {"AllReduce", Kind::all_reduce},         {"all_reduce", Kind::all_reduce},
        {"AllGather", Kind::all_gather},         {"all_gather", Kind::all_gather},
        {"ReduceScatter", Kind::reduce_scatter}, {"reduce_scatter", Kind::reduce_scatter},
        {"AllToAll", Kind::all_to_all},          {"all_to_all", Kind::all_to_all},
        {"ShardDimAllToAll", Kind::all_to_all},  {"Broadcast", Kind::broadcast},
        {"broadcast", Kind::broadcast}};
    const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                    [&](const auto& known) { return op == known.first; });
    if (kind == std::end(kKinds)) refuse(node, op);
    c.kind = kind->second;
    if (c.each < 1) c.each = static_cast<std::int64_t>(c.ranks.size());
    c.root %= c.each;
    if (c.kind == Kind::broadcast && c.each < static_cast<std::int64_t>(c.ranks.size()) &&
        form_ == CollectiveForm::dist)
      refuse(node, "a broadcast in several groups");
    if (c.each == ranks_ && c.ranks == all_ranks()) c.ranks.clear();
    return c;
  }

  Ints all_ranks() const {
    Ints all(static_cast<std::size_t>(ranks_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void write(const onnx::NodeProto& node, const Collective& c) {
    if (form_ == CollectiveForm::microsoft) check_microsoft(node, c);
    if (form_ == CollectiveForm::braid) {
      static constexpr const char* kOps[] = {"AllReduce", "AllGather", "ReduceScatter", "AllToAll",
                                             "Broadcast"};
      onnx::NodeProto& own = *graph_.add_node();
      own.set_name(node.name());
      own.set_domain(kBraidDomain);
      own.set_op_type(kOps[static_cast<int>(c.kind)]);
      *own.mutable_input() = node.input();
      *own.mutable_output() = node.output();
      const bool several = c.each < static_cast<std::int64_t>(c.ranks.size());
      if (!c.ranks.empty()) set_ints(own, several ? "groups" : "group", c.ranks);
      if (several) set_int(own, "group_size", c.each);
      if (c.kind == Kind::all_gather || c.kind == Kind::reduce_scatter) set_int(own, "axis", c.axis);
      if (c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter)
        set_string(own, "reduce_op", c.reduce);
      if (c.kind == Kind::broadcast) set_int(own, "root", c.root);
      return;
    }
    // One node per tensor: ONNX Runtime's kernels and TensorRT's layers take one.
    for (int k = 0; k < node.input_size(); ++k) {
      const std::string &x = node.input(k), &y = node.output(k);
      const bool scatters = c.kind == Kind::reduce_scatter || c.kind == Kind::all_to_all;
      const std::int64_t cut = c.kind == Kind::all_to_all ? c.split : c.axis;
      const bool gathers = c.kind == Kind::all_to_all || c.kind == Kind::all_gather;
      const std::int64_t joined = c.kind == Kind::all_to_all ? c.concat : c.axis;
      // AllGather of ONNX Runtime has an axis itself.
      const bool own_axis = form_ == CollectiveForm::microsoft && c.kind == Kind::all_gather;
      const std::string from = scatters && cut != 0 ? moved(x, cut, 0, c.each) : x;
      const bool moves = gathers && joined != 0 && !own_axis;
      const std::string to = moves ? fresh(y + "/gathered") : y;
      if (form_ == CollectiveForm::microsoft) {
        write_microsoft(c, from, to);
      } else {
        write_dist(c, from, to);
      }
      if (moves) move(to, 0, joined, c.each, y);
    }
  }

  void check_microsoft(const onnx::NodeProto& node, const Collective& c) const {
    if (!c.ranks.empty())
      refuse(node, fmt::format("a collective of the ranks {}{}", fmt::join(c.ranks, ", "),
                               c.each < static_cast<std::int64_t>(c.ranks.size()) ? " in groups" : ""));
    if (c.kind == Kind::reduce_scatter || c.kind == Kind::broadcast) refuse(node, node.op_type());
    if (c.kind == Kind::all_reduce && c.reduce != "sum")
      refuse(node, fmt::format("a reduction by {}", c.reduce));
    for (const std::string& name : node.input()) {
      const auto type = types_.find(name);
      if (type == types_.end()) continue;
      const ir::DType dtype = type->second;
      const bool taken =
          dtype == ir::DType::f32 || dtype == ir::DType::f64 || dtype == ir::DType::f16 ||
          (c.kind != Kind::all_reduce && (dtype == ir::DType::i64 || dtype == ir::DType::boolean));
      if (!taken) refuse(node, fmt::format("{} of {}", node.op_type(), onnx_type_name(onnx_type_of(dtype))));
    }
  }

  void write_microsoft(const Collective& c, const std::string& x, const std::string& y) {
    static constexpr const char* kOps[] = {"AllReduce", "AllGather", "", "AllToAll", ""};
    onnx::NodeProto& node = add(kOps[static_cast<int>(c.kind)], x, y);
    node.set_domain(kMicrosoftDomain);
    if (c.kind == Kind::all_reduce) return;
    set_int(node, "group_size", ranks_);
    // Always written: the published schema has another default than the kernel.
    if (c.kind == Kind::all_gather) set_int(node, "axis", c.axis);
  }

  void write_dist(const Collective& c, const std::string& x, const std::string& y) {
    static constexpr const char* kOps[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                           "broadcast"};
    onnx::NodeProto& node = add("DistCollective", x, y);
    set_string(node, "collective_operation", kOps[static_cast<int>(c.kind)]);
    const bool reduces = c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter;
    set_string(node, "reduce_op", reduces ? c.reduce : "none");
    const std::int64_t root = c.ranks.empty() ? c.root : c.ranks[static_cast<std::size_t>(c.root)];
    set_int(node, "root", c.kind == Kind::broadcast ? root : -1);
    set_int(node, "nb_rank", ranks_);
    set_int(node, "group_size", c.each);
    if (!c.ranks.empty()) set_ints(node, "groups", c.ranks);
  }

  // The n parts of axis `from`, one after another along axis `to`.
  std::string moved(const std::string& x, std::int64_t from, std::int64_t to, std::int64_t n) {
    const std::string y = fresh(x + "/slabs");
    move(x, from, to, n, y);
    return y;
  }
  void move(const std::string& x, std::int64_t from, std::int64_t to, std::int64_t n, const std::string& y) {
    constexpr int kCountsOutputs = 18;
    std::vector<std::string> parts;
    for (std::int64_t k = 0; k < n; ++k) parts.push_back(fresh(fmt::format("{}/part", y)));
    onnx::NodeProto& split = add("Split", x, parts[0]);
    for (std::size_t k = 1; k < parts.size(); ++k) split.add_output(parts[k]);
    set_int(split, "axis", from);
    if (version_ >= kCountsOutputs) set_int(split, "num_outputs", n);
    onnx::NodeProto& concat = add("Concat", parts[0], y);
    for (std::size_t k = 1; k < parts.size(); ++k) concat.add_input(parts[k]);
    set_int(concat, "axis", to);
  }

  onnx::NodeProto& add(const char* op, const std::string& x, const std::string& y) {
    onnx::NodeProto& node = *graph_.add_node();
    node.set_op_type(op);
    node.add_input(x);
    node.add_output(y);
    node.set_name(unused(node_names_, y));
    return node;
  }

  std::string fresh(const std::string& wanted) { return unused(names_, wanted); }
  static std::string unused(std::set<std::string>& names, const std::string& wanted) {
    std::string name = wanted;
    for (int k = 1; !names.insert(name).second; ++k) name = fmt::format("{}#{}", wanted, k);
    return name;
  }

  // Imports those of the two domains that nodes have.
  void import_domains() {
    auto& imports = *model_.proto.mutable_opset_import();
    for (const char* domain : {kBraidDomain, kMicrosoftDomain}) {
      const bool used = std::any_of(graph_.node().begin(), graph_.node().end(),
                                    [&](const onnx::NodeProto& node) { return node.domain() == domain; });
      const auto found = std::find_if(imports.begin(), imports.end(),
                                      [&](const auto& import) { return import.domain() == domain; });
      if (used && found == imports.end()) {
        onnx::OperatorSetIdProto& import = *imports.Add();
        import.set_domain(domain);
        import.set_version(1);
      } else if (!used && found != imports.end() && form_ != CollectiveForm::braid &&
                 domain == std::string_view(kBraidDomain)) {
        imports.erase(found);
      }
    }
  }

  Model& model_;
  onnx::GraphProto& graph_;
  const ElementTypes& types_;
  int ranks_;
  CollectiveForm form_;
  int version_ = 1;
  std::set<std::string> names_, node_names_;
};

}  // namespace

const char* to_string(CollectiveForm form) { return kNames[static_cast<int>(form)]; }

std::optional<CollectiveForm> collective_form_named(std::string_view name) {
  for (int k = 0; k < static_cast<int>(std::size(kNames)); ++k) {
    if (name == kNames[k]) return static_cast<CollectiveForm>(k);
  }
  return std::nullopt;
}

void rewrite_collectives(Model& model, const Opsets& opsets, const ElementTypes& types, int ranks,
                         CollectiveForm form) {
  Rewriting(model, opsets, types, ranks, form).run();
}

}  // namespace braid::frontend
