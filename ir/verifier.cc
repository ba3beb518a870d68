#include "ir/verifier.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ir/capacity.h"
#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "ir/kernel_parts.h"
#include "ir/measured_dims.h"
#include "ir/operation_check.h"
#include "ir/verifier_impl.h"

namespace braid::ir {
namespace {

class StructureCheck {
 public:
  StructureCheck(const Schedule& schedule, Violations& out)
      : s_(schedule), g_(schedule.graph), out_(out), seen_(g_.ops.size(), false) {}

  void run() {
    groups();
    buffers();
    if (!out_.empty()) return;  // the rest dereferences ids
    for (const ScheduleNode& node : s_.nodes) schedule_node(node);
    list(execution_order(s_), "");
    group_order();
    for (const GraphOutput& o : g_.outputs) interface(o, "output");
    for (const GraphInput& i : g_.inputs) interface(i, "input");
    if (out_.empty()) output_storages();
  }

 private:
  template <class Interface>
  void interface(const Interface& i, const char* what) {
    if (!valid(i.buffer)) {
      out_.add(kStructure, i.name, "the {} is not a buffer", what);
    } else if (i.part && i.part->whole.size() != g_[i.buffer].sizes.size()) {
      out_.add(kStructure, i.name, "has {} dimensions, but is a part of a tensor of {}",
               g_[i.buffer].sizes.size(), i.part->whole.size());
    }
  }

  // The caller provides the memory of an output, so only outputs may be written there.
  void output_storages() {
    std::set<StorageId> returned;
    for (const GraphOutput& o : g_.outputs) {
      returned.insert(root_storage(g_, o.buffer));
      const StorageId own = g_[unmutated(g_, o.buffer)].storage;
      if (own.valid() && g_[own].alias_of.valid() &&
          !(region(g_, o.buffer).offset.is_constant(0) && callers_layout(o.buffer)))
        out_.add(kStructure, g_[o.buffer].name, "is returned in another storage's memory, but not row-major");
    }
    for (const GraphInput& i : g_.inputs) {
      if (!callers_layout(i.buffer))
        out_.add(kStructure, g_[i.buffer].name,
                 "is an input, but neither row-major nor in the strides of capacities");
    }
    for (const OpId op : execution_order(s_)) {
      for (const BufferId b : g_[op].outputs) {
        const StorageId storage = root_storage(g_, b);
        if (storage.valid() && g_[storage].kind == StorageKind::output && !returned.count(storage))
          out_.add(kStructure, g_[b].name, "lies in the output storage '{}', which no output returns",
                   g_[storage].name);
      }
    }
  }

  // Layouts that callers are told of (ir/capacity.h).
  bool callers_layout(BufferId b) const {
    const std::vector<Expr> strides = strides_of(g_, b);
    return is_contiguous(g_[b].sizes, strides) || has_capacity_strides(g_[b].sizes, strides);
  }

  bool valid(BufferId b) const { return b.valid() && static_cast<std::size_t>(b.index) < g_.buffers.size(); }
  bool valid(OpId o) const { return o.valid() && static_cast<std::size_t>(o.index) < g_.ops.size(); }
  bool valid(StorageId s) const {
    return s.valid() && static_cast<std::size_t>(s.index) < g_.storages.size();
  }

  void groups() {
    if (const std::string fault = mesh_fault(g_.mesh, g_.ranks); !fault.empty())
      out_.add(kStructure, g_.name, "{}", fault);
    for (const CommGroup& group : g_.groups) {
      if (const std::string fault = group.fault(g_.ranks); !fault.empty())
        out_.add(kStructure, group.name, "{}", fault);
    }
  }

  void equal_on_all_ranks(Expr e, const std::string& of, std::string_view what) {
    if (depends_on_rank(e)) out_.add(kStructure, of, "{} {} depends on the rank", what, to_string(e));
  }

  void buffers() {
    for (const Guard& guard : g_.guards) {
      equal_on_all_ranks(guard.lhs, guard.origin, "guard of");
      equal_on_all_ranks(guard.rhs, guard.origin, "guard of");
    }
    for (const Storage& s : g_.storages) {
      equal_on_all_ranks(s.bytes, s.name, "number of bytes");
      if (s.kind == StorageKind::comm && is_measured(g_, s.bytes))
        out_.add(kStructure, s.name, "a communication buffer has a measured size");
      if (s.alias_of.valid() && !valid(s.alias_of))
        out_.add(kStructure, s.name, "aliases a storage that does not exist");
    }
    for (std::size_t i = 0; i < g_.buffers.size(); ++i) {
      const Buffer& b = g_.buffers[i];
      // A buffer refers only to earlier ones, so chains end.
      for (const Expr& e : b.sizes) equal_on_all_ranks(e, b.name, "size");
      const auto before = [&](BufferId id) {
        return id.valid() && static_cast<std::size_t>(id.index) < g_.buffers.size() &&
               id.index != static_cast<int>(i);
      };
      if (const auto* v = std::get_if<NonOwningLayout>(&b.layout)) {
        if (!before(v->base)) out_.add(kStructure, b.name, "is a view of a buffer that does not exist");
        if (v->strides.size() != b.sizes.size())
          out_.add(kStructure, b.name, "has {} strides for {} sizes", v->strides.size(), b.sizes.size());
        for (const Expr& e : v->strides) equal_on_all_ranks(e, b.name, "stride");
        for_each_symbol(v->offset, [&](Expr s) {
          if (is_coordinate(s) && !axis_of(g_.mesh, s))
            out_.add(kStructure, b.name, "{} is along no axis of the program's mesh", to_string(s));
        });
      } else if (const auto* m = std::get_if<MutationOutput>(&b.layout)) {
        if (!before(m->of)) {
          out_.add(kStructure, b.name, "mutates a buffer that does not exist");
        } else if (g_[m->of].dtype != b.dtype || g_[m->of].sizes != b.sizes) {
          out_.add(kStructure, b.name, "must have the type and sizes of the buffer that it mutates, '{}'",
                   g_[m->of].name);
        }
      } else if (!std::holds_alternative<NoneLayout>(b.layout) &&
                 !std::holds_alternative<MultiOutputLayout>(b.layout)) {
        if (!valid(b.storage)) out_.add(kStructure, b.name, "has no storage");
        const auto* f = std::get_if<FixedLayout>(&b.layout);
        const auto* c = std::get_if<CommBufferLayout>(&b.layout);
        const std::vector<Expr>& strides = f ? f->strides : c ? c->strides : b.sizes;
        if (strides.size() != b.sizes.size())
          out_.add(kStructure, b.name, "has {} strides for {} sizes", strides.size(), b.sizes.size());
        for (const Expr& e : strides) equal_on_all_ranks(e, b.name, "stride");
      }
    }
    for (const Operation& op : g_.ops) {
      for (BufferId b : op.outputs) {
        if (!valid(b)) out_.add(kStructure, op.name, "a result is not a buffer");
      }
    }
  }

  void schedule_node(const ScheduleNode& node) {
    if (node.kind == ScheduleNode::Kind::single) {
      if (!valid(node.op)) out_.add(kStructure, node.name, "the node has no operation");
      return;
    }
    if (node.members.empty())
      out_.add(kStructure, node.name, "an empty {} node",
               node.kind == ScheduleNode::Kind::fused ? "fused" : "grouped");
    for (const ScheduleNode& member : node.members) {
      schedule_node(member);
      if (!member.after.empty())
        out_.add(kStructure, member.name,
                 "'after' applies only to groups at the top level: the order of members is fixed");
    }
    if (node.kind != ScheduleNode::Kind::fused || !out_.empty()) return;
    std::string why;
    const std::vector<OpId> ops = ops_of(node);
    for (OpId op : ops) {
      if (check_operation(g_, op)) return;  // reported elsewhere
    }
    if (!ops.empty() && !analyse_fused(g_, ops, &why))
      out_.add(kStructure, node.name.empty() ? g_[ops[0]].name : node.name, "is not a legal fused node: {}",
               why);
  }

  void group_order() {
    std::map<std::string_view, int> groups;  // name -> number of groups
    for (const ScheduleNode& node : s_.nodes) {
      if (node.kind == ScheduleNode::Kind::grouped) ++groups[node.name];
    }
    std::set<std::string_view> before;
    for (const ScheduleNode& node : s_.nodes) {
      if (!node.after.empty() && node.kind != ScheduleNode::Kind::grouped)
        out_.add(kStructure, node.name, "only a group can have 'after'");
      for (const std::string& name : node.after) {
        const auto it = groups.find(name);
        if (it == groups.end() || it->second > 1) {
          out_.add(kStructure, node.name, "comes after the group '{}', of which there {}", name,
                   it == groups.end() ? "is none" : "are several");
        } else if (!before.count(name)) {
          out_.add("order", node.name, "comes before the group '{}', which must precede it", name);
        }
      }
      if (node.kind == ScheduleNode::Kind::grouped) before.insert(node.name);
    }
  }

  // The operations of the schedule, or of one region.
  // `undecided`: the kind of the region around them that values decide about; empty if there is none.
  void list(const std::vector<OpId>& ops, std::string_view undecided) {
    std::map<OpId, std::size_t> position;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (!valid(ops[k])) {
        out_.add(kStructure, "", "the operation does not exist");
        continue;
      }
      operation(ops[k], undecided);
      position.emplace(ops[k], k);
      if (depth_ == 0) measured(ops[k], position);
    }
    pairs(ops, position);
  }

  // Operations that mention a measured dimension come after its measure. Ranks may measure different
  // values, which no collective can see.
  void measured(OpId id, const std::map<OpId, std::size_t>& position) {
    for (const OpId measure : measures_before(g_, id)) {
      const std::string& dim = g_[measure].as<Measure>()->dim.dim_name();
      if (!position.contains(measure))
        out_.add(kOrder, g_[id].name, "comes before '{}' measures '{}'", g_[measure].name, dim);
      if (!effects(g_, id).comm.empty())
        out_.add(kStructure, g_[id].name,
                 "the sizes of a collective depend on '{}', which ranks measure for themselves", dim);
    }
  }

  void operation(OpId id, std::string_view undecided) {
    const Operation& op = g_[id];
    if (seen_[static_cast<std::size_t>(id.index)]) {
      out_.add(kStructure, op.name, "scheduled twice");
      return;
    }
    seen_[static_cast<std::size_t>(id.index)] = true;
    for (BufferId b : op.outputs) {
      if (!defined_.insert(b).second) out_.add(kStructure, op.name, "'{}' is defined twice", g_[b].name);
      if (g_[b].producer != id) out_.add(kStructure, op.name, "'{}' names another producer", g_[b].name);
    }
    if (const std::optional<TypeError> e = check_operation(g_, id)) {
      out_.add(kStructure, op.name, "{}", e->message);
      return;
    }
    for (BufferId b : op.outputs) writes(op, b);
    if (const auto* k = op.as<RegionKernel>()) {
      for (const Region& r : k->regions) {
        ++depth_;
        list(r.ops, depends_on_data(k->kind) ? to_string(k->kind) : undecided);
        --depth_;
        yields(op, r);
      }
      if (k->kind == RegionKind::while_true ||
          (k->kind == RegionKind::repeat && !provably_less(0, k->trips))) {
        may_run_no_times(op);
      }
      return;
    }
    if (depth_ > 0 && op.as<Measure>()) out_.add(kRegions, op.name, "a region must not measure a dimension");
    if (!undecided.empty() && op.as<CollectiveKernel>())
      out_.add(kRegions, op.name, "a {} must not contain a collective", undecided);
    if (const auto* k = op.as<ExternKernel>()) {
      for (const TensorRef& w : k->writes) {
        if (std::find(op.outputs.begin(), op.outputs.end(), w.buffer) != op.outputs.end()) continue;
        if (!k->barrier)
          out_.add(kStructure, op.name, "writes '{}', which is not among its results", g_[w.buffer].name);
        writes(op, w.buffer);
      }
    }
    for (const Access& a : effects(g_, id).accesses) bounds_of(op, a);
  }

  // Whether a copy from one to the other would change nothing.
  bool is_there(BufferId from, BufferId to) const {
    const MemoryRegion a = region(g_, from), b = region(g_, to);
    return a.storage.valid() && a.storage == b.storage && a.offset == b.offset &&
           g_[from].sizes == g_[to].sizes && strides_of(g_, from) == strides_of(g_, to);
  }

  // Results are copies of the yielded values, made one after another: a yielded value must not overlap an
  // earlier result or its own result.
  void yields(const Operation& op, const Region& region) {
    for (std::size_t k = 0; k < region.yields.size() && k < op.outputs.size(); ++k) {
      const TensorRef yielded = whole(g_, region.yields[k]);
      for (std::size_t j = 0; j <= k; ++j) {
        if (is_there(region.yields[j], op.outputs[j])) continue;
        if (!may_overlap(g_, yielded, whole(g_, op.outputs[j]))) continue;
        out_.add(kRegions, op.name, "yields '{}', which the result '{}' overwrites; yield a copy of it",
                 g_[yielded.buffer].name, g_[op.outputs[j]].name);
      }
    }
  }

  void may_run_no_times(const Operation& op) {
    for (BufferId b : op.outputs) {
      if (std::holds_alternative<MutationOutput>(g_[b].layout)) continue;
      out_.add(kRegions, op.name,
               "may run zero times, and then '{}' has no value; let it mutate an existing value", g_[b].name);
    }
  }

  // Constants are the same in every step, in every instance and, mapped from one file, in every process.
  void writes(const Operation& op, BufferId b) {
    const StorageId s = root_storage(g_, b);
    if (s.valid() && g_[s].kind == StorageKind::constant) {
      out_.add(kStructure, op.name, "'{}' writes the constant '{}'; write a copy of it", g_[b].name,
               g_[s].name);
    }
  }

  // Whether a < b is certain on some rank: where each coordinate is the least or the greatest.
  static bool less_on_a_rank(Expr a, Expr b) {
    if (provably_less(a, b)) return true;
    std::vector<Expr> coordinates;
    for (const Expr& e : {a, b}) {
      for_each_symbol(e, [&](Expr s) {
        if (is_coordinate(s) && std::find(coordinates.begin(), coordinates.end(), s) == coordinates.end())
          coordinates.push_back(s);
      });
    }
    if (coordinates.empty()) return false;
    for (std::uint64_t greatest = 0; greatest < std::uint64_t{1} << coordinates.size(); ++greatest) {
      const auto on_rank = [&](Expr s) -> std::optional<Expr> {
        const auto k = std::find(coordinates.begin(), coordinates.end(), s) - coordinates.begin();
        if (k == std::ssize(coordinates)) return std::nullopt;
        return Expr((greatest >> k & 1) != 0 ? bounds(s).max : 0);
      };
      if (provably_less(substitute(a, on_rank), substitute(b, on_rank))) return true;
    }
    return false;
  }

  // Reports only what is certainly out of bounds, on some rank.
  void bounds_of(const Operation& op, const Access& a) {
    const Expr bytes = g_[a.region.storage].bytes;
    // A part without elements is nowhere.
    const bool empty =
        std::ranges::any_of(g_[a.buffer].sizes, [](const Expr& size) { return size.is_constant(0); });
    if (!empty && (less_on_a_rank(a.region.begin, 0) || less_on_a_rank(bytes, a.region.end))) {
      out_.add(kStructure, op.name, "'{}' reaches beyond its storage of {} bytes", g_[a.buffer].name,
               to_string(bytes));
    }
    if (!a.dep) return;
    for (const Expr& size : a.dep->sizes) {
      if (!provably_less(0, size)) return;  // there may be no iteration
    }
    // Masked loads do not read everywhere: they are left out by looking for an unmasked one of this index.
    if (!a.writes() && !reads_everywhere(op, a)) return;
    const Expr item = size_of(g_[a.buffer].dtype);
    if (const std::optional<Expr> last = extreme(*a.dep, true);
        last && less_on_a_rank(a.region.end, a.region.offset + (*last + 1) * item)) {
      out_.add(kStructure, op.name, "index {} of '{}' reaches {}", to_string(a.dep->index), g_[a.buffer].name,
               to_string(*last));
    }
    if (const std::optional<Expr> first = extreme(*a.dep, false);
        first && less_on_a_rank(a.region.offset + *first * item, a.region.begin)) {
      out_.add(kStructure, op.name, "index {} of '{}' reaches {}", to_string(a.dep->index), g_[a.buffer].name,
               to_string(*first));
    }
  }

  static bool reads_everywhere(const Operation& op, const Access& a) {
    bool found = false;
    for_each_load(op.kernel, [&](const Instr& load) {
      found |= load.buffer == a.buffer && load.index == a.dep->index && load.operands.empty();
    });
    return found;
  }

  // The largest or smallest value of an index that is linear in the loop's indices; some point attains it.
  static std::optional<Expr> extreme(const MemoryDep& dep, bool largest) {
    Expr e = dep.index;
    std::vector<Expr> symbols;
    for_each_symbol(e, [&](Expr s) { symbols.push_back(s); });
    for (const Expr& s : symbols) {
      if (s.is_symbol(SymbolKind::value)) return std::nullopt;
      if (!s.is_symbol(SymbolKind::index)) continue;
      const std::optional<Expr> stride = stride_of(e, s);
      if (!stride) return std::nullopt;
      const bool up = provably_non_negative(*stride), down = provably_non_negative(-*stride);
      if (!up && !down) return std::nullopt;
      const Expr at = up == largest ? dep.sizes[static_cast<std::size_t>(s.symbol_number())] - 1 : Expr(0);
      e = substitute(e, [&](Expr t) { return t == s ? std::optional(at) : std::nullopt; });
    }
    return e;
  }

  // Start, wait and release must belong to one list, in this order.
  void pairs(const std::vector<OpId>& ops, const std::map<OpId, std::size_t>& position) {
    std::map<OpId, std::size_t> waits, releases;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (!valid(ops[k])) continue;
      const Operation& op = g_[ops[k]];
      const auto* w = op.as<WaitKernel>();
      const auto* r = op.as<ReleaseKernel>();
      if (!w && !r) continue;
      const OpId start = w ? w->start : r->start;
      const auto at = position.find(start);
      if (at == position.end() || at->second > k) {
        out_.add(kFlight, op.name, "comes before its start, or its start is not in the same region");
      } else if (!(w ? waits : releases).emplace(start, k).second) {
        out_.add(kFlight, op.name, "a second {} of '{}'", w ? "wait" : "release", g_[start].name);
      }
    }
    for (OpId id : ops) {
      if (!valid(id)) continue;
      const auto* k = g_[id].as<CollectiveKernel>();
      if (!k || k->blocking) continue;
      if (!waits.count(id)) {
        out_.add(kFlight, g_[id].name, "the collective has no wait");
        continue;
      }
      const auto release = releases.find(id);
      if (release != releases.end() && release->second < waits[id])
        out_.add(kFlight, g_[ops[release->second]].name, "the release comes before the wait");
      const bool read_by_peers = std::any_of(k->inputs.begin(), k->inputs.end(), [&](const TensorRef& r) {
        const StorageId s = root_storage(g_, r.buffer);
        return s.valid() && g_[s].kind == StorageKind::comm && g_[s].comm_kind == CommBufferKind::symmetric;
      });
      if (read_by_peers && release == releases.end())
        out_.add(kFlight, g_[id].name, "peers read its input directly, but it has no release");
    }
  }

  const Schedule& s_;
  const Graph& g_;
  Violations& out_;
  std::vector<bool> seen_;
  int depth_ = 0;  // of regions
  std::set<BufferId> defined_;
};

}  // namespace

std::vector<Violation> verify(const Schedule& schedule) {
  Violations out;
  StructureCheck(schedule, out).run();
  if (!out.empty()) return out.take();
  verify_order(schedule, out);
  verify_memory(schedule, out);
  return out.take();
}

void check(const Schedule& schedule, std::string_view after_pass) {
  const std::vector<Violation> found = verify(schedule);
  if (found.empty()) return;
  std::string text =
      fmt::format("after pass '{}' the schedule of '{}' is not legal:", after_pass, schedule.graph.name);
  for (std::size_t i = 0; i < found.size() && i < 5; ++i) {
    text += fmt::format("\n  {}: '{}': {}", found[i].rule, found[i].node, found[i].message);
  }
  if (found.size() > 5) text += fmt::format("\n  and {} more", found.size() - 5);
  throw InternalError(text);
}

}  // namespace braid::ir
