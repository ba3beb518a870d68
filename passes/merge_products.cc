#include "passes/merge_products.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"
#include "passes/compact.h"
#include "passes/fusion_graph.h"
#include "passes/joined_constants.h"
#include "passes/pack_rows.h"
#include "passes/product_epilogue.h"
#include "passes/row_slices.h"

namespace braid::passes {
namespace {

using namespace ir;

// A product that may be merged.
struct Member {
  OpId op;
  Product product;             // with the loops that it takes in
  std::vector<OpId> absorbed;  // those loops
  TensorRef weights;           // [batch..., columns, depth]
  std::int64_t columns = 0;
};

struct Group {
  std::vector<Member> members;
  std::size_t stretch = 0;        // how many starts, waits and releases stand before it
  std::vector<bool> collectives;  // of all starts, those that depend on it
  std::int64_t last = 0;          // the number of the last member among all products
};

bool mentions(Expr e, Expr symbol) {
  bool found = false;
  for_each_symbol(e, [&](Expr s) { found = found || s == symbol; });
  return found;
}

class ProductMerger {
 public:
  ProductMerger(Schedule& schedule, const MergeProducts& options)
      : schedule_(schedule),
        graph_(schedule.graph),
        options_(options),
        constants_(graph_),
        slices_(schedule) {}

  bool run() {
    find_collectives();
    find_groups();
    std::erase_if(groups_, [&](const Group& g) { return !pays(g); });
    if (groups_.empty()) return false;
    FusionGraph clusters(schedule_, true);
    bool changed = false;
    for (Group& group : groups_) changed |= merge(group, clusters);
    if (!changed) return false;
    schedule_.nodes = clusters.nodes(schedule_);
    schedule_.plan.reset();
    compact(schedule_);
    return true;
  }

 private:
  // -------------------------------------------------------------------------------------------------------
  // groups

  void find_collectives() {
    std::vector<int> starts;
    for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) {
      bool communicates = false;
      for (OpId op : ops_of(schedule_.nodes[n])) {
        for (const CommEffect& e : effects(graph_, op).comm) {
          communicates = true;
          if (e.phase == CommPhase::start) starts.push_back(static_cast<int>(n));
        }
      }
      stretches_.push_back(communicates + (n == 0 ? 0 : stretches_.back()));
    }
    if (!starts.empty()) before_starts_ = find_dependencies(schedule_).ancestors(starts);
  }

  void find_groups() {
    std::int64_t number = 0;
    for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) {
      for (OpId op : ops_of(schedule_.nodes[n])) {
        if (as_product(graph_[op].kernel) == nullptr) continue;
        ++number;
        if (schedule_.nodes[n].kind != ScheduleNode::Kind::single) continue;
        std::optional<Member> member = member_of(op);
        if (!member) continue;
        std::vector<bool> collectives;
        for (const std::vector<bool>& before : before_starts_) collectives.push_back(before[n]);
        const auto fits = [&](const Group& g) {
          return g.stretch == stretches_[n] && g.collectives == collectives &&
                 number - g.last - 1 <= options_.window && may_join(g.members[0], *member);
        };
        const auto group = std::find_if(groups_.begin(), groups_.end(), fits);
        if (group == groups_.end()) {
          groups_.push_back({{*std::move(member)}, stretches_[n], std::move(collectives), number});
        } else {
          group->members.push_back(*std::move(member));
          group->last = number;
        }
      }
    }
  }

  std::optional<Member> member_of(OpId op) const {
    const auto* gemm = graph_[op].as<Gemm>();
    if (gemm == nullptr || gemm->out.sizes.size() < 2 || graph_[op].outputs.size() != 1) return std::nullopt;
    const DType type = graph_[gemm->b.buffer].dtype;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) return std::nullopt;
    Member member{op, *gemm, {}, transposed_matrices(gemm->b)};
    if (!constants_.is_known(member.weights) || graph_[gemm->a.buffer].dtype != type) return std::nullopt;
    member.columns = gemm->out.sizes.back().constant();
    if (member.columns == 0 || (gemm->epilogue && !loads_only_constants(*gemm))) return std::nullopt;
    while (absorb_reader(member)) {
    }
    const OpId writer = member.absorbed.empty() ? op : member.absorbed.back();
    if (!slices_.may_be_slice(member.product.out, member.columns, writer)) return std::nullopt;
    return member;
  }

  // Fuses the loop that alone reads the result, if the kernel then applies more steps.
  bool absorb_reader(Member& member) const {
    const OpId writer = member.absorbed.empty() ? member.op : member.absorbed.back();
    const std::optional<OpId> reader = slices_.only_reader(member.product.out.buffer, writer);
    if (!reader) return false;
    const auto* loops = graph_[*reader].as<Loops>();
    if (loops == nullptr || loops->is_reduction() || graph_[*reader].outputs.size() != 1) return false;
    std::optional<WithEpilogue> fused =
        with_epilogue(graph_, member.product, *loops, graph_[*reader].outputs[0]);
    if (!fused) return false;
    Product next = member.product;
    next.out = std::move(fused->out);
    next.epilogue = std::move(fused->epilogue);
    if (!loads_only_constants(next) || steps(next) <= steps(member.product)) return false;
    member.product = std::move(next);
    member.absorbed.push_back(*reader);
    return true;
  }

  std::size_t steps(Product product) const {
    if (!product.epilogue) return 0;
    product.post_ops = find_post_ops(graph_, product);
    const std::size_t named = product.post_ops.size();
    return options_.steps_taken && named > 0 ? std::min(named, options_.steps_taken(graph_, product)) : named;
  }

  Expr column_of(const Product& product) const {
    return graph_.pool->index(static_cast<int>(product.out.sizes.size()) - 1);
  }

  // Returns the row that a load reads, one element per column. Returns nullopt if it reads no row, or if its
  // buffer is no constant whose bytes are known.
  std::optional<TensorRef> row_of(const Product& product, const Instr& load) const {
    const Expr from = load.index - column_of(product), columns = product.out.sizes.back();
    if (load.code != OpCode::load || !load.operands.empty() || !from.is_constant()) return std::nullopt;
    TensorRef row{load.buffer, from, {1, columns}, {columns, 1}};
    return constants_.is_known(row) ? std::optional(row) : std::nullopt;
  }

  // Whether the epilogue loads only constants, checks no index, and uses the column only to load rows.
  bool loads_only_constants(const Product& product) const {
    const std::vector<Instr>& instrs = product.epilogue->instrs;
    return std::all_of(instrs.begin(), instrs.end(), [&](const Instr& instr) {
      if (row_of(product, instr)) return true;
      if (mentions(instr.index, column_of(product)) || instr.code == OpCode::check_index) return false;
      if (instr.code != OpCode::load) return true;
      const StorageId memory = root_storage(graph_, instr.buffer);
      return memory.valid() && graph_[memory].kind == StorageKind::constant;
    });
  }

  bool may_join(const Member& a, const Member& b) const {
    const auto rows = [](const Product& p) { return std::span(p.out.sizes).first(p.out.sizes.size() - 1); };
    const auto outer = [](const Member& m) {
      std::vector<Expr> sizes = m.weights.sizes;
      sizes.erase(sizes.end() - 2);
      return sizes;
    };
    return a.product.a == b.product.a && a.product.tf32 == b.product.tf32 &&
           std::ranges::equal(rows(a.product), rows(b.product)) && outer(a) == outer(b) &&
           graph_[a.weights.buffer].dtype == graph_[b.weights.buffer].dtype &&
           graph_[a.product.out.buffer].dtype == graph_[b.product.out.buffer].dtype && same_steps(a, b);
  }

  bool same_steps(const Member& a, const Member& b) const {
    if (!a.product.epilogue || !b.product.epilogue)
      return a.product.epilogue.has_value() == b.product.epilogue.has_value();
    const LoopBody &first = *a.product.epilogue, &second = *b.product.epilogue;
    if (first.instrs.size() != second.instrs.size() || first.result != second.result) return false;
    for (std::size_t k = 0; k < first.instrs.size(); ++k) {
      const bool row = row_of(a.product, first.instrs[k]).has_value();
      if (row != row_of(b.product, second.instrs[k]).has_value()) return false;
      const bool equal =
          row ? first.instrs[k].dtype == second.instrs[k].dtype : first.instrs[k] == second.instrs[k];
      if (!equal) return false;
    }
    return true;
  }

  // A group pays if it merges products. A single product is only padded: if its type is f16 or bf16, its rows
  // would not begin at multiples of kRowUnit, and the gap is small.
  bool pays(const Group& group) const {
    if (group.members.size() > 1) return true;
    const Member& member = group.members[0];
    const std::int64_t item = size_of(graph_[member.product.out.buffer].dtype);
    const std::int64_t gap = (kRowUnit - member.columns * item % kRowUnit) % kRowUnit;
    return item == 2 && gap > 0 && gap * 8 <= member.columns * item;
  }

  // -------------------------------------------------------------------------------------------------------
  // merging

  bool merge(Group& group, FusionGraph& clusters) {
    const OpId op = group.members[0].op;
    const int cluster = clusters.cluster_of(op);
    // All members move up to the first one.
    const auto stays = [&](OpId other) {
      const std::optional<double> at = clusters.joint_position(cluster, clusters.cluster_of(other));
      return at && *at == clusters.position(cluster);
    };
    std::erase_if(group.members, [&](const Member& m) { return m.op != op && !stays(m.op); });
    if (!pays(group)) return false;
    const auto take_in = [&](OpId other) {
      clusters.merge(cluster, clusters.cluster_of(other), clusters.position(cluster), std::vector<OpId>{op});
      Operation& gone = graph_[other];
      gone.outputs.clear();
      for (std::string& origin : gone.origins) {
        std::vector<std::string>& all = graph_[op].origins;
        if (std::find(all.begin(), all.end(), origin) == all.end()) all.push_back(origin);
      }
    };
    const BufferId merged = make_product(group, op);
    for (const Member& m : group.members) {
      if (m.op != op) take_in(m.op);
      for (OpId loop : m.absorbed) take_in(loop);
    }
    graph_[op].outputs = {merged};
    graph_[merged].producer = op;
    graph_[op].cost.reset();
    return true;
  }

  // Returns the result of the merged product; readers read their slices.
  BufferId make_product(const Group& group, OpId op) {
    const Product& first = group.members[0].product;
    const DType type = graph_[first.out.buffer].dtype;
    const std::int64_t unit = kRowUnit / size_of(type);
    std::vector<JoinedConstants::Part> weights;
    std::vector<std::int64_t> columns;
    std::int64_t total = 0;
    for (const Member& m : group.members) {
      columns.push_back(total);
      const std::int64_t padded = (m.columns + unit - 1) / unit * unit;
      weights.push_back({m.weights, padded});
      total += padded;
    }
    Gemm product;
    product.tf32 = first.tf32;
    product.a = graph_[op].as<Gemm>()->a;  // perhaps a slice by now
    product.b = as_operand(constants_.rows(weights), group.members[0], total);
    product.epilogue = joined_epilogue(group, weights);
    std::vector<Expr> sizes = first.out.sizes;
    sizes.back() = total;
    const BufferId merged = graph_.add_owned(graph_[first.out.buffer].name + ".merged", type, sizes);
    product.out = whole(graph_, merged);
    for (std::size_t k = 0; k < group.members.size(); ++k) {
      const Member& m = group.members[k];
      slices_.replace(m.product.out.buffer, m.columns, merged, columns[k], total);
    }
    graph_[op].kernel = std::move(product);
    return merged;
  }

  // Rows [batch..., columns, depth] as [batch..., depth, columns], repeated where the given one is.
  TensorRef as_operand(TensorRef rows, const Member& member, std::int64_t columns) const {
    const TensorRef& given = graph_[member.op].as<Gemm>()->b;
    const std::size_t n = given.sizes.size();
    std::swap(rows.strides[n - 2], rows.strides[n - 1]);
    rows.sizes = given.sizes;
    rows.sizes.back() = columns;
    for (std::size_t d = 0; d + 2 < n; ++d) {
      if (given.strides[d].is_constant(0)) rows.strides[d] = 0;
    }
    return rows;
  }

  std::optional<LoopBody> joined_epilogue(const Group& group,
                                          const std::vector<JoinedConstants::Part>& weights) {
    std::optional<LoopBody> epilogue = group.members[0].product.epilogue;
    if (!epilogue) return std::nullopt;
    for (std::size_t k = 0; k < epilogue->instrs.size(); ++k) {
      Instr& load = epilogue->instrs[k];
      if (!row_of(group.members[0].product, load)) continue;
      std::vector<JoinedConstants::Part> rows;
      for (std::size_t m = 0; m < group.members.size(); ++m) {
        const Product& product = group.members[m].product;
        rows.push_back({*row_of(product, product.epilogue->instrs[k]), weights[m].rows});
      }
      load.buffer = constants_.row(rows);
      load.index = column_of(group.members[0].product);
    }
    return epilogue;
  }

  Schedule& schedule_;
  Graph& graph_;
  const MergeProducts& options_;
  JoinedConstants constants_;
  RowSlices slices_;
  std::vector<std::size_t> stretches_;            // by node
  std::vector<std::vector<bool>> before_starts_;  // by start and node
  std::vector<Group> groups_;
};

}  // namespace

bool MergeProducts::run(Schedule& schedule) const { return ProductMerger(schedule, *this).run(); }

}  // namespace braid::passes
