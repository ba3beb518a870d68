#include "passes/drop_roundings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "ir/id_vector.h"
#include "ir/kernel_parts.h"

namespace braid::passes {
namespace {

using namespace ir;

bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }

// Whether the instruction may give a number that its half type does not have, before it is rounded to it.
bool rounds(const LoopBody& body, const Instr& instr) {
  if (!is_half(instr.dtype)) return false;
  switch (instr.code) {
    case OpCode::load:
    case OpCode::constant:
    case OpCode::where:
    case OpCode::min:
    case OpCode::max:
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::sign:
    case OpCode::floor:
    case OpCode::ceil:
    case OpCode::round:
    case OpCode::bitcast:
      return false;
    case OpCode::cast:
      return body.operand_dtype(instr) != DType::boolean;
    default:
      return true;
  }
}

std::size_t roundings(const LoopBody& body) {
  return static_cast<std::size_t>(
      std::count_if(body.instrs.begin(), body.instrs.end(), [&](const Instr& i) { return rounds(body, i); }));
}

// Marks the instructions whose value decides something, directly or through wider floats: it is compared, or
// converted to an integer or to bits.
std::vector<bool> deciding(const LoopBody& body) {
  std::vector<bool> decides(body.instrs.size(), false);
  for (std::size_t k = body.instrs.size(); k-- > 0;) {
    const Instr& user = body.instrs[k];
    const bool passes_on = is_float(user.dtype) && user.code != OpCode::bitcast && user.code != OpCode::load;
    if (passes_on && (is_half(user.dtype) || !decides[k])) continue;
    for (const ValueId v : user.operands) {
      if (is_float(body[v].dtype)) decides[static_cast<std::size_t>(v.index)] = true;
    }
  }
  return decides;
}

// The body with every value of a half type in f32 as well, and whichever of the two its users need.
class Widened {
 public:
  Widened(const LoopBody& body, ExprPool& pool)
      : body_(body),
        builder_(pool),
        pool_(pool),
        decides_(deciding(body)),
        same_(body.instrs.size()),
        wide_(body.instrs.size()) {}

  // The result in its own type, or, of a half type, in f32.
  LoopBody made(bool keep_wide) {
    for (std::size_t k = 0; k < body_.instrs.size(); ++k) add(k);
    const bool half = is_half(body_.result_dtype());
    return builder_.finish(half && keep_wide ? wide(body_.result) : same(body_.result));
  }

 private:
  ValueId same(ValueId v) {
    std::optional<ValueId>& known = same_[static_cast<std::size_t>(v.index)];
    if (!known) known = builder_.cast(*wide_[static_cast<std::size_t>(v.index)], body_[v].dtype);
    return *known;
  }
  ValueId wide(ValueId v) {
    std::optional<ValueId>& known = wide_[static_cast<std::size_t>(v.index)];
    if (!known) known = builder_.cast(*same_[static_cast<std::size_t>(v.index)], DType::f32);
    return *known;
  }

  void add(std::size_t k) {
    const Instr& instr = body_.instrs[k];
    if (instr.code == OpCode::cast && is_float(instr.dtype) && !is_half(instr.dtype) &&
        is_half(body_.operand_dtype(instr))) {
      const ValueId from = instr.operands[0];
      same_[k] = builder_.cast(decides_[k] ? same(from) : wide(from), instr.dtype);
      return;
    }
    if (is_half(instr.dtype) && computes_in_wide(k)) return;
    same_[k] = builder_.add(in_terms_of(instr, pool_, [&](ValueId v) { return same(v); }));
  }

  // Computes an instruction of a half type in f32 if it is a constant, a cast from f32 or a half type, or
  // arithmetic on half values. Returns whether it did.
  bool computes_in_wide(std::size_t k) {
    const Instr& instr = body_.instrs[k];
    if (instr.code == OpCode::cast) {
      const DType from = body_.operand_dtype(instr);
      if (from == DType::f32) {
        wide_[k] = same(instr.operands[0]);
        return true;
      }
      if (!is_half(from)) return false;
      wide_[k] = wide(instr.operands[0]);
      return true;
    }
    if (instr.code == OpCode::constant) {
      same_[k] = builder_.add(instr);
      wide_[k] = builder_.constant(DType::f32, instr.literal);
      return true;
    }
    const bool chooses = instr.code == OpCode::where;
    const bool arithmetic = !instr.operands.empty() && instr.code != OpCode::load &&
                            instr.code != OpCode::bitcast && instr.code != OpCode::check_index;
    if (!arithmetic) return false;
    Instr copy = instr;
    copy.dtype = DType::f32;
    for (std::size_t o = 0; o < copy.operands.size(); ++o) {
      ValueId& v = copy.operands[o];
      if (!(chooses && o == 0) && !is_half(body_[v].dtype)) return false;
      v = chooses && o == 0 ? same(v) : wide(v);
    }
    wide_[k] = builder_.add(std::move(copy));
    return true;
  }

  const LoopBody& body_;
  BodyBuilder builder_;
  ExprPool& pool_;
  const std::vector<bool> decides_;
  std::vector<std::optional<ValueId>> same_, wide_;
};

class Dropping {
 public:
  explicit Dropping(Schedule& schedule) : schedule_(schedule), graph_(schedule.graph) { find_uses(); }

  std::size_t run() {
    for (const ScheduleNode& node : schedule_.nodes) visit(node);
    return dropped_;
  }

 private:
  void visit(const ScheduleNode& node) {
    if (node.kind == ScheduleNode::Kind::fused) widen_rows(node);
    for (const ScheduleNode& member : node.members) visit(member);
    if (node.kind == ScheduleNode::Kind::single) narrow_bodies(node.op);
  }

  void narrow_bodies(OpId id) {
    Operation& op = graph_[id];
    if (const auto* region = op.as<RegionKernel>()) {
      for (const Region& r : region->regions) {
        for (const OpId inner : r.ops) narrow_bodies(inner);
      }
      return;
    }
    if (op.as<Loops>() == nullptr && as_product(op.kernel) == nullptr) return;
    for_each_body(op.kernel, [&](LoopBody& body, const auto&) {
      const std::size_t before = roundings(body);
      if (before == 0) return;
      LoopBody wide = Widened(body, *graph_.pool).made(false);
      const std::size_t after = roundings(wide);
      if (after >= before) return;
      body = std::move(wide);
      dropped_ += before - after;
      if (Product* product = as_product(op.kernel)) product->post_ops.clear();
    });
  }

  // Tensors of a half type that only pointwise members of the node touch.
  void widen_rows(const ScheduleNode& node) {
    const std::vector<OpId> members = ops_of(node);
    for (const OpId writer : members) {
      const Loops* loops = graph_[writer].as<Loops>();
      const BufferId out = graph_[writer].outputs[0];
      if (loops == nullptr || loops->is_reduction() || !is_half(graph_[out].dtype) || !is_local(out, members))
        continue;
      widen(writer, out, members);
    }
  }

  bool is_local(BufferId buffer, const std::vector<OpId>& members) const {
    const Buffer& b = graph_[buffer];
    const auto at = static_cast<std::size_t>(buffer.index);
    if (!b.storage.valid() || graph_[b.storage].kind != StorageKind::activation ||
        graph_[b.storage].alias_of.valid() || !std::holds_alternative<FixedLayout>(b.layout) ||
        used_otherwise_[at] || readers_[at].empty())
      return false;
    return std::all_of(readers_[at].begin(), readers_[at].end(), [&](OpId reader) {
      return std::find(members.begin(), members.end(), reader) != members.end();
    });
  }

  // Finds the readers of each buffer in loop bodies, and the buffers that share memory or are operands of
  // kernels.
  void find_uses() {
    readers_.resize(graph_.buffers.size());
    used_otherwise_.resize(graph_.buffers.size());
    const auto otherwise = [&](BufferId b) { used_otherwise_[static_cast<std::size_t>(b.index)] = true; };
    std::map<StorageId, BufferId> first;
    for (std::size_t k = 0; k < graph_.buffers.size(); ++k) {
      const Buffer& b = graph_.buffers[k];
      const BufferId id{static_cast<std::int32_t>(k)};
      if (const auto* view = std::get_if<NonOwningLayout>(&b.layout)) otherwise(view->base), otherwise(id);
      if (const auto* later = std::get_if<MutationOutput>(&b.layout)) otherwise(later->of), otherwise(id);
      if (!b.storage.valid()) continue;
      if (const auto [it, fresh] = first.emplace(b.storage, id); !fresh) otherwise(it->second), otherwise(id);
    }
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const Operation& op = graph_.ops[k];
      for_each_operand(op.kernel, [&](const TensorRef& ref, bool) { otherwise(ref.buffer); });
      for_each_load(op.kernel, [&](const Instr& load) {
        readers_[static_cast<std::size_t>(load.buffer.index)].push_back({static_cast<std::int32_t>(k)});
      });
      const auto* region = op.as<RegionKernel>();
      if (region == nullptr) continue;
      for (const BufferId b : region->operands) otherwise(b);
      for (const Region& r : region->regions) {
        for (const BufferId b : r.yields) otherwise(b);
      }
    }
  }

  void widen(OpId writer, BufferId buffer, const std::vector<OpId>& members) {
    Loops& loops = *graph_[writer].as<Loops>();
    const std::size_t before = roundings(loops.body);
    const DType type = graph_[buffer].dtype;
    LoopBody wide = Widened(loops.body, *graph_.pool).made(true);
    const std::size_t after = roundings(wide);
    if (after >= before) return;
    dropped_ += before - after;
    loops.body = std::move(wide);
    Buffer& b = graph_[buffer];
    b.dtype = DType::f32;
    Storage& storage = graph_[b.storage];
    storage.bytes = storage.bytes * (size_of(DType::f32) / size_of(type));
    for (const OpId member : members) {
      Loops* reader = graph_[member].as<Loops>();
      if (reader != nullptr) reader->body = reading_wide(reader->body, buffer, type);
    }
  }

  // Returns the body with loads of the buffer in f32, each rounded right after the load.
  LoopBody reading_wide(const LoopBody& body, BufferId buffer, DType type) const {
    BodyBuilder builder(*graph_.pool);
    std::vector<ValueId> map;
    for (const Instr& instr : body.instrs) {
      Instr copy = in_terms_of(instr, *graph_.pool, [&](ValueId v) { return ir::at(map, v); });
      const bool widened = instr.code == OpCode::load && instr.buffer == buffer;
      if (widened) copy.dtype = DType::f32;
      const ValueId made = builder.add(std::move(copy));
      map.push_back(widened ? builder.cast(made, type) : made);
    }
    return builder.finish(map[static_cast<std::size_t>(body.result.index)]);
  }

  Schedule& schedule_;
  Graph& graph_;
  std::vector<std::vector<OpId>> readers_;  // of each buffer
  std::vector<bool> used_otherwise_;
  std::size_t dropped_ = 0;
};

}  // namespace

bool DropRoundings::run(Schedule& schedule, PassContext& context) {
  const bool any = std::any_of(schedule.graph.buffers.begin(), schedule.graph.buffers.end(),
                               [](const Buffer& b) { return is_half(b.dtype); });
  if (!any) return false;
  const std::size_t dropped = Dropping(schedule).run();
  context.dropped_roundings += dropped;
  return dropped > 0;
}

}  // namespace braid::passes
