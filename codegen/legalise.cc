#include "codegen/legalise.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/window_loops.h"
#include "ir/copy_loop.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "passes/expand_attention.h"
#include "passes/name_post_ops.h"

namespace braid::codegen {
namespace {

using namespace ir;

class Legaliser {
 public:
  Legaliser(Schedule& schedule, const KernelLimits& limits)
      : graph_(schedule.graph), nodes_(schedule.nodes), limits_(limits) {}

  bool run() {
    nodes_ = rewritten(nodes_);
    for (GraphOutput& output : graph_.outputs) give_own_memory(output);
    return changed_;
  }

 private:
  std::vector<ScheduleNode> rewritten(const std::vector<ScheduleNode>& nodes) {
    std::vector<ScheduleNode> out;
    for (const ScheduleNode& node : nodes) {
      switch (node.kind) {
        case ScheduleNode::Kind::single:
          for (OpId op : rewritten(node.op)) out.push_back(ScheduleNode::single(op));
          break;
        case ScheduleNode::Kind::fused:
          if (runs_as_one(node)) {
            out.push_back(node);
          } else {
            out.insert(out.end(), node.members.begin(), node.members.end());
            changed_ = true;
          }
          break;
        case ScheduleNode::Kind::grouped:
          out.push_back(node);
          out.back().members = rewritten(node.members);
          break;
      }
    }
    return out;
  }

  // The caller's memory of an output is its own, unless it is declared to be an input's, and row-major.
  void give_own_memory(GraphOutput& output) {
    const BufferId from = output.buffer;
    Storage& root = graph_[root_storage(graph_, from)];
    const bool declared_alias = graph_[unmutated(graph_, from)].storage.valid() &&
                                graph_[graph_[unmutated(graph_, from)].storage].alias_of.valid();
    if (root.kind == StorageKind::input ? declared_alias
                                        : is_contiguous(graph_[from].sizes, strides_of(graph_, from)))
      return;
    if (root.kind == StorageKind::output) root.kind = StorageKind::activation;
    const BufferId to = graph_.add_owned(output.name + ".result", graph_[from].dtype, graph_[from].sizes,
                                         StorageKind::output);
    Operation copy = copy_loop(graph_, from, to);
    copy.outputs = {to};
    nodes_.push_back(ScheduleNode::single(graph_.add_op(std::move(copy))));
    output.buffer = to;
    changed_ = true;
  }

  bool runs_as_one(const ScheduleNode& node) const {
    const std::vector<OpId> ops = ops_of(node);
    if (!limits_.one_kernel || ops.size() < 2) return true;
    const std::optional<FusedLoops> fused = analyse_fused(graph_, ops);
    internal_check(fused.has_value(), "legalise: '{}' is not a fused node", node.name);
    return limits_.one_kernel(graph_, *fused);
  }

  // The operation between those that must come before and after it.
  std::vector<OpId> rewritten(OpId id) {
    std::vector<OpId> ops;
    PackedOperands packed;
    if (const auto* gemm = graph_[id].as<Gemm>(); gemm != nullptr && limits_.packed) {
      packed = limits_.packed(graph_, *gemm);
      if (packed.a) ops.push_back(pack(id, &Product::a));
      if (packed.b) ops.push_back(pack(id, &Product::b));
    }
    for (OpId op : rewritten(id, packed.out)) ops.push_back(op);
    return ops;
  }

  // Has the product read a copy. Batch dimensions that repeat matrices have one in the copy, too.
  OpId pack(OpId id, TensorRef Product::*operand) {
    changed_ = true;
    const TensorRef given = as_product(graph_[id].kernel)->*operand;
    TensorRef from = given;
    const auto repeats = [&](std::size_t d) {
      return d + 2 < given.sizes.size() && given.strides[d].is_constant(0);
    };
    for (std::size_t d = 0; d < given.sizes.size(); ++d) {
      if (repeats(d)) from.sizes[d] = 1;
    }
    const BufferId copy =
        graph_.add_owned(graph_[from.buffer].name + ".packed", graph_[from.buffer].dtype, from.sizes);
    TensorRef to = whole(graph_, copy);
    Operation loop = copy_loop(graph_, from, to);
    loop.outputs = {copy};
    loop.origins = graph_[id].origins;
    for (std::size_t d = 0; d < given.sizes.size(); ++d) {
      if (repeats(d)) to.strides[d] = 0;
    }
    to.sizes = given.sizes;
    as_product(graph_[id].kernel)->*operand = to;
    return graph_.add_op(std::move(loop));
  }

  // `packs`: the kernel stores its result only in rows without gaps.
  std::vector<OpId> rewritten(OpId id, bool packs) {
    if (graph_[id].as<RegionKernel>() != nullptr) {
      for (std::size_t r = 0; r < graph_[id].as<RegionKernel>()->regions.size(); ++r) {
        const std::vector<OpId> inside = graph_[id].as<RegionKernel>()->regions[r].ops;
        std::vector<OpId> ops;
        for (OpId inner : inside) {
          for (OpId op : rewritten(inner)) ops.push_back(op);
        }
        graph_[id].as<RegionKernel>()->regions[r].ops = std::move(ops);
      }
    } else if (is_window_kernel(graph_[id].kernel) &&
               !(limits_.window_kernel && limits_.window_kernel(graph_, graph_[id]))) {
      return as_loops(id);
    } else if (const Product* product = as_product(graph_[id].kernel); product != nullptr && packs) {
      return {id, split_epilogue(id, {.packs = true})};
    } else if (product != nullptr && product->epilogue) {
      const std::size_t steps = limits_.post_ops(graph_, *product);
      const bool all =
          steps == kAnyEpilogue || (steps == product->post_ops.size() && named_to_the_end(*product));
      if (!all || reads_result(*product)) return {id, split_epilogue(id, {.steps = steps})};
    }
    return {id};
  }

  std::vector<OpId> as_loops(OpId id) {
    changed_ = true;
    std::optional<OpId> rest;
    if (const Product* product = as_product(graph_[id].kernel)) {
      const DType sums = accumulator_of(graph_[product->a.buffer].dtype);
      if (product->epilogue || graph_[product->out.buffer].dtype != sums)
        rest = split_epilogue(id, {.rounds = false});
    }
    std::vector<OpId> ops = window_loops(graph_, id);
    if (rest) ops.push_back(*rest);
    return ops;
  }

  // A plan gives a product's result no bytes that its step reads, but both may name the same memory.
  bool reads_result(const Product& product) const {
    const MemoryRegion written = region(graph_, product.out.buffer);
    return std::any_of(product.epilogue->instrs.begin(), product.epilogue->instrs.end(),
                       [&](const Instr& instr) {
                         if (instr.code != OpCode::load) return false;
                         const MemoryRegion read = region(graph_, instr.buffer);
                         return read.storage == written.storage && may_overlap(read, written);
                       });
  }

  LoopBody converted_sum(const Product& product) {
    BodyBuilder body(*graph_.pool);
    const ValueId sum = body.acc(accumulator_of(graph_[product.a.buffer].dtype));
    return body.finish(body.cast(sum, graph_[product.out.buffer].dtype));
  }

  static bool is_acc(const LoopBody& body, ValueId v) { return body[v].code == OpCode::acc; }

  // Whether the epilogue only casts its sums to the operands' type, f16 or bf16: then the product may store
  // them in it.
  static bool only_cast_to(DType type, const LoopBody& body) {
    if (type != DType::f16 && type != DType::bf16) return false;
    bool any = false;
    for (const Instr& instr : body.instrs) {
      for (ValueId v : instr.operands) {
        if (!is_acc(body, v)) continue;
        if (instr.code != OpCode::cast || instr.dtype != type) return false;
        any = true;
      }
    }
    return any && !is_acc(body, body.result);
  }

  struct Split {
    std::size_t steps = 0;
    bool packs = false;  // in memory of its own
    bool rounds = true;  // sums may be stored in the type of the operands
  };

  // Storage of the arena that holds nothing but the buffer; invalid: it has none.
  StorageId own_activation(BufferId id) const {
    const StorageId s = graph_[id].storage;
    if (!s.valid() || graph_[s].kind != StorageKind::activation || graph_[s].alias_of.valid()) return {};
    return s;
  }

  // The sums of a product, with the layout of its result and in its memory, if the plan lets both share it.
  TensorRef sums_beside(TensorRef stored) {
    const BufferId result = stored.buffer;
    Buffer sums = graph_[result];
    sums.name += ".sum";
    if (const StorageId own = own_activation(result); own.valid()) {
      // The plan lets both share memory. In a fused node that alone reads the result, it needs none.
      Storage copy = graph_[own];
      copy.name = sums.name;
      sums.storage = graph_.add_storage(std::move(copy));
      stored.buffer = graph_.add_buffer(std::move(sums));
    } else {
      stored.buffer = graph_.add_buffer(std::move(sums));
      graph_[result].layout = MutationOutput{stored.buffer};
      graph_[result].storage = {};
    }
    return stored;
  }

  // Makes the product store its value after `split.steps` steps; the returned operation computes the result
  // from it.
  OpId split_epilogue(OpId id, const Split& split) {
    changed_ = true;
    std::size_t steps = split.steps;
    Product& product = *as_product(graph_[id].kernel);
    const Product given = product;
    // Without an epilogue the sums are only converted.
    const LoopBody epilogue = product.epilogue ? *product.epilogue : converted_sum(product);
    const BufferId result = product.out.buffer;
    const bool separate = split.packs || (product.epilogue && reads_result(product));
    if (separate) steps = 0;
    // The epilogue may stop only where its value has the result's type, so that nothing is rounded in
    // between.
    while (steps > 0 && epilogue[given.post_ops[steps - 1].result].dtype != graph_[result].dtype) --steps;
    const DType in = graph_[given.a.buffer].dtype;
    const bool rounded = steps == 0 && split.rounds && only_cast_to(in, epilogue);
    const DType type = steps > 0 ? graph_[result].dtype : rounded ? in : accumulator_of(in);

    const bool own_memory = separate || type != graph_[result].dtype;
    const TensorRef stored =
        own_memory ? whole(graph_, graph_.add_owned(graph_[result].name + ".sum", type, given.out.sizes))
                   : sums_beside(product.out);
    const BufferId sums = stored.buffer;
    product.out = stored;
    product.epilogue.reset();
    product.post_ops.clear();
    if (steps > 0) {
      product.epilogue = without_dead_code({epilogue.instrs, given.post_ops[steps - 1].result}, *graph_.pool);
      product.post_ops = find_post_ops(graph_, product);
    }
    Loops loops;
    loops.sizes = given.out.sizes;
    loops.store_index = element_of(graph_, given.out);
    loops.body = epilogue;
    for (std::size_t k = 0; k < loops.body.instrs.size(); ++k) {
      Instr& instr = loops.body.instrs[k];
      const bool from_memory = steps > 0
                                   ? ValueId{static_cast<std::int32_t>(k)} == given.post_ops[steps - 1].result
                               : rounded ? instr.code == OpCode::cast && is_acc(epilogue, instr.operands[0])
                                         : instr.code == OpCode::acc;
      if (!from_memory) continue;
      instr = {.code = OpCode::load, .dtype = type, .buffer = sums, .index = element_of(graph_, stored)};
    }
    loops.body = without_dead_code(loops.body, *graph_.pool);

    Operation finish{graph_[id].name + ".epilogue", std::move(loops), graph_[id].outputs, graph_[id].origins,
                     std::nullopt};
    Operation& op = graph_[id];
    op.outputs = {sums};
    op.cost.reset();
    graph_[sums].producer = id;
    return graph_.add_op(std::move(finish));
  }

  Graph& graph_;
  std::vector<ScheduleNode>& nodes_;
  const KernelLimits& limits_;
  bool changed_ = false;
};

}  // namespace

bool legalise(Schedule& schedule, const KernelLimits& limits) {
  bool changed = !limits.attention && passes::ExpandAttention().run(schedule);
  changed |= passes::NamePostOps().run(schedule);
  if (!Legaliser(schedule, limits).run()) return changed;
  schedule.plan.reset();
  return true;
}

}  // namespace braid::codegen
