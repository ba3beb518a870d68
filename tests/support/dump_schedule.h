// Every field of a schedule, by names instead of ids, with nothing left out and no defaults: what two
// schedules must agree in to be structurally equal. Written without care for reading, and independent of the
// text format.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <string>

#include "ir/element.h"
#include "ir/schedule.h"

namespace braid::test {

class Dump {
 public:
  explicit Dump(const ir::Schedule& s) : g_(s.graph) {
    line("graph", g_.name, g_.ranks, static_cast<int>(s.channels));
    for (const ir::Expr& d : g_.dims) line("dim", to_string(d), ir::bounds(d).min, ir::bounds(d).max);
    for (const ir::Guard& g : g_.guards)
      line("guard", to_string(g.lhs), static_cast<int>(g.relation), to_string(g.rhs), g.origin);
    for (const ir::MeshAxis& a : g_.mesh) line("axis", a.name, a.size);
    for (const ir::CommGroup& g : g_.groups) line("group", g.name, ir::parts_text(g.parts));
    for (const ir::GraphInput& i : g_.inputs) line("input", i.name, buffer(i.buffer), part(i.part));
    for (const ir::ScheduleNode& n : s.nodes) node(n);
    for (const ir::GraphOutput& o : g_.outputs) line("output", o.name, buffer(o.buffer), part(o.part));
    if (s.plan) {
      line("plan", s.plan->arena_bytes, s.plan->comm_bytes, s.plan->live_peak_bytes);
      std::map<std::string, ir::Placement> by_name;
      for (const auto& [id, p] : s.plan->placements) by_name[g_[id].name] = p;
      for (const auto& [name, p] : by_name)
        line(name, static_cast<int>(p.space), p.offset, p.bytes, p.first_step, p.last_step);
    }
  }
  const std::string& text() const { return out_; }

 private:
  template <class... Args>
  void line(const Args&... args) {
    ((out_ += fmt::format("{} | ", args)), ...);
    out_ += "\n";
  }
  std::string list(const std::vector<ir::Expr>& es) const {
    std::string s = "[";
    for (const ir::Expr& e : es) s += to_string(e) + ";";
    return s + "]";
  }
  std::string part(const std::optional<ir::Part>& of) const {
    return of ? of->state + " of " + list(of->whole) : "whole";
  }
  std::string groups(const std::vector<ir::GroupId>& of) const {
    std::string text;
    for (ir::GroupId g : of) text += g_[g].name + ";";
    return text;
  }
  std::string storage(ir::StorageId id) const {
    if (!id.valid()) return "-";
    const ir::Storage& s = g_[id];
    std::string text = fmt::format("${} {} {} {} {} alias {} file {} {} ", s.name, to_string(s.kind),
                                   to_string(s.bytes), to_string(s.comm_kind), groups(s.groups),
                                   storage(s.alias_of), s.data.file, s.data.file_offset);
    for (std::uint64_t h : s.data.elided) text += fmt::format("e{:x} ", h);
    for (auto bytes : s.data.per_rank)
      text += fmt::format("h{:x}/{} ", ir::fnv1a(bytes.data(), bytes.size()), bytes.size());
    return text;
  }
  std::string buffer(ir::BufferId id) const {
    if (!id.valid()) return "-";
    const ir::Buffer& b = g_[id];
    std::string text =
        fmt::format("({} {} {} layout {} ", b.name, to_string(b.dtype), list(b.sizes), b.layout.index());
    if (const auto* l = std::get_if<ir::FixedLayout>(&b.layout)) text += list(l->strides);
    if (const auto* l = std::get_if<ir::NonOwningLayout>(&b.layout))
      text += buffer(l->base) + to_string(l->offset) + list(l->strides);
    if (const auto* l = std::get_if<ir::CommBufferLayout>(&b.layout)) {
      text += list(l->strides) + std::string(to_string(l->kind)) + groups(l->groups);
    }
    if (const auto* l = std::get_if<ir::MutationOutput>(&b.layout)) text += g_[l->of].name;
    return text + " on " + storage(b.storage) + " by " + (b.producer.valid() ? g_[b.producer].name : "-") +
           ")";
  }
  std::string ref(const ir::TensorRef& r) const {
    return fmt::format("{}+{}{}{}", buffer(r.buffer), to_string(r.offset), list(r.sizes), list(r.strides));
  }
  std::string refs(const std::vector<ir::TensorRef>& rs) const {
    std::string s;
    for (const ir::TensorRef& r : rs) s += ref(r) + ", ";
    return s;
  }
  void body(const ir::LoopBody& b) {
    for (const ir::Instr& i : b.instrs) {
      std::string operands;
      for (ir::ValueId v : i.operands) operands += fmt::format("%{} ", v.index);
      const auto* d = std::get_if<double>(&i.literal);
      const std::uint64_t literal =
          d ? std::bit_cast<std::uint64_t>(*d) : static_cast<std::uint64_t>(std::get<0>(i.literal));
      line("  ", to_string(i.code), to_string(i.dtype), operands, i.literal.index(), literal,
           buffer(i.buffer), to_string(i.index));
    }
    line("  result", b.result.index);
  }
  void node(const ir::ScheduleNode& n) {
    if (n.kind == ir::ScheduleNode::Kind::single) return op(n.op);
    line("node", static_cast<int>(n.kind), n.name, n.members.size());
    for (const ir::ScheduleNode& m : n.members) node(m);
    line("end");
  }
  void op(ir::OpId id) {
    const ir::Operation& o = g_[id];
    std::string outputs;
    for (ir::BufferId b : o.outputs) outputs += buffer(b);
    line("op", o.name, outputs, fmt::format("{}", fmt::join(o.origins, "&")));
    if (o.cost) line("cost", o.cost->ns, o.cost->flops, o.cost->bytes);
    if (const auto* k = o.as<ir::Loops>()) {
      line("loops", list(k->sizes), k->reduced, k->reduced ? to_string(k->reduce) : "-",
           to_string(k->store_index));
      body(k->body);
    } else if (const auto* k = o.as<ir::Gemm>()) {
      line("gemm", ref(k->a), ref(k->b), ref(k->out));
      if (k->epilogue) body(*k->epilogue);
    } else if (const auto* k = o.as<ir::ExternKernel>()) {
      line("extern", k->callee, refs(k->reads), refs(k->writes), k->barrier);
      for (const auto& [name, v] : k->attributes) {
        std::visit([&, &name = name](const auto& value) { line(name, value); }, v);
        line(v.index());
      }
    } else if (const auto* k = o.as<ir::CollectiveKernel>()) {
      line("collective", to_string(k->kind), g_[k->group].name, to_string(k->reduce), k->root,
           refs(k->inputs), refs(k->outputs), to_string(k->algorithm), k->blocking);
    } else if (const auto* k = o.as<ir::WaitKernel>()) {
      line("wait", g_[k->start].name);
    } else if (const auto* k = o.as<ir::ReleaseKernel>()) {
      line("release", g_[k->start].name);
    } else if (const auto* k = o.as<ir::RegionKernel>()) {
      line("region", to_string(k->kind), to_string(k->trips));
      for (ir::BufferId b : k->operands) line(buffer(b));
      for (const ir::Region& r : k->regions) {
        for (ir::OpId inner : r.ops) op(inner);
        for (ir::BufferId b : r.yields) line("yield", buffer(b));
      }
    }
  }

  const ir::Graph& g_;
  std::string out_;
};

inline std::string dump(const ir::Schedule& schedule) { return Dump(schedule).text(); }

}  // namespace braid::test
