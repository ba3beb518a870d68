#include "ir/printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/collective_table.h"
#include "ir/element.h"
#include "ir/kernel_parts.h"
#include "ir/text_defaults.h"
#include "ir/text_names.h"

namespace braid::ir {
namespace {

std::string list(std::span<const Expr> exprs) {
  std::string out = "[";
  for (std::size_t i = 0; i < exprs.size(); ++i) out += (i ? ", " : "") + to_string(exprs[i]);
  return out + "]";
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options)
      : g_(graph),
        options_(options),
        used_buffers_(graph.buffers.size(), false),
        declared_(graph.buffers.size(), false),
        used_storages_(graph.storages.size(), false),
        owner_(graph.storages.size()),
        produced_(graph.buffers.size(), false),
        is_input_(graph.buffers.size(), false) {
    for (const GraphInput& i : graph.inputs) is_input_[index(i.buffer)] = true;
  }

  std::string schedule(const Schedule& s) {
    collect(s);
    header(s);
    for (const ScheduleNode& node : s.nodes) schedule_node(node);
    if (!s.nodes.empty()) out_ += "\n";
    for (const GraphOutput& o : g_.outputs) declare(o.buffer);
    for (const GraphOutput& o : g_.outputs)
      line(fmt::format("output {}{}{}", buffer(o.buffer), named(o), classes(o)));
    if (s.plan) plan(*s.plan);
    return std::move(out_);
  }

  std::string single(OpId op) {
    collect(op);
    find_owners();
    // Declarations of buffers from elsewhere are not part of the operation.
    std::fill(declared_.begin(), declared_.end(), true);
    operation(op);
    return std::move(out_);
  }

 private:
  // ---- what is used, and which storages need no line of their own

  void collect(BufferId b) {
    if (!b.valid() || used_buffers_[index(b)]) return;
    used_buffers_[index(b)] = true;
    const Buffer& buffer = g_[b];
    if (const auto* m = std::get_if<MutationOutput>(&buffer.layout)) collect(m->of);
    if (const auto* v = std::get_if<NonOwningLayout>(&buffer.layout)) collect(v->base);
    collect(buffer.storage);
  }

  void collect(StorageId s) {
    if (!s.valid() || used_storages_[index(s)]) return;
    used_storages_[index(s)] = true;
    collect(g_[s].alias_of);
  }

  void collect(const TensorRef& r) { collect(r.buffer); }
  void collect(const LoopBody& body) {
    for (const Instr& i : body.instrs) collect(i.buffer);
  }

  void collect(OpId id) {
    const Operation& op = g_[id];
    for (BufferId b : op.outputs) {
      collect(b);
      if (b.valid()) produced_[index(b)] = true;
    }
    for_each_buffer(op, [&](BufferId b) { collect(b); });
    if (const auto* k = op.as<RegionKernel>()) {
      for (const Region& r : k->regions) {
        for (OpId inner : r.ops) collect(inner);
        for (BufferId b : r.yields) collect(b);
      }
    }
  }

  void collect(const Schedule& s) {
    for (const GraphInput& i : g_.inputs) collect(i.buffer);
    for (OpId op : execution_order(s)) collect(op);
    for (const GraphOutput& o : g_.outputs) collect(o.buffer);
    find_owners();
  }

  void find_owners() {
    for (std::size_t b = 0; b < g_.buffers.size(); ++b) {
      const Buffer& buffer = g_.buffers[b];
      if (!used_buffers_[b] || !buffer.storage.valid() || !owns(buffer)) continue;
      Owner& o = owner_[index(buffer.storage)];
      if (o.count++ == 0) o.first = BufferId{static_cast<std::int32_t>(b)};
    }
  }

  template <class Fn>
  void for_each_buffer(const Operation& op, Fn&& visit) const {
    for_each_operand(op.kernel, [&](const TensorRef& r, bool) { visit(r.buffer); });
    for_each_load(op.kernel, [&](const Instr& load) { visit(load.buffer); });
    if (const auto* r = op.as<RegionKernel>()) {
      for (BufferId b : r->operands) visit(b);
    }
  }

  // A storage is implied by its only owner if it has the owner's name and the size that the owner needs.
  bool implied(StorageId s) const {
    const Owner& o = owner_[index(s)];
    if (o.count != 1) return false;
    const Buffer& b = g_[o.first];
    const Storage& storage = g_[s];
    // The clauses "input" and "constant" would read as the next statement.
    if (storage.kind == StorageKind::input && !is_input_[index(o.first)]) return false;
    if (storage.kind == StorageKind::constant && produced_[index(o.first)]) return false;
    if (storage.name != b.name || !(storage.bytes == default_bytes(b))) return false;
    if (const auto* comm = std::get_if<CommBufferLayout>(&b.layout)) {
      return storage.kind == StorageKind::comm && storage.comm_kind == comm->kind &&
             storage.groups == comm->groups;
    }
    return storage.kind != StorageKind::comm;
  }

  // ---- names

  static std::size_t index(BufferId b) { return static_cast<std::size_t>(b.index); }
  static std::size_t index(StorageId s) { return static_cast<std::size_t>(s.index); }
  std::string buffer(BufferId b) const { return b.valid() ? "%" + name_text(g_[b].name) : "%\"?\""; }
  std::string storage(StorageId s) const { return "$" + name_text(g_[s].name); }
  std::string group(GroupId g) const { return g.valid() ? "@" + name_text(g_[g].name) : "@\"?\""; }
  static std::string as(const std::string& name, const std::string& implied_name) {
    return name == implied_name ? "" : " as " + name_text(name);
  }
  template <class Interface>
  std::string named(const Interface& i) const {
    std::string text = as(i.name, g_[i.buffer].name);
    if (i.part) text += fmt::format(" part {} of {}", name_text(i.part->state), list(i.part->whole));
    return text;
  }

  static std::string classes(const GraphOutput& o) {
    std::string text;
    for (const std::string& name : o.classes) text += (text.empty() ? " classes (" : ", ") + in_quotes(name);
    return text.empty() ? text : text + ")";
  }

  void line(const std::string& text) { out_ += std::string(indent_ * 2, ' ') + text + "\n"; }

  // ---- header

  void header(const Schedule& s) {
    line("graph " + name_text(g_.name));
    for (const Expr& d : g_.dims) {
      const Bounds b = bounds(d);
      line(fmt::format("dim {} in [{}, {}]", to_string(d), b.min, b.max));
    }
    for (const Guard& guard : g_.guards) {
      line(fmt::format("guard {} {} {}{}", to_string(guard.lhs),
                       guard.relation == Guard::Relation::equal ? "==" : "<=", to_string(guard.rhs),
                       guard.origin.empty() ? "" : " from " + in_quotes(guard.origin)));
    }
    if (g_.ranks != 1) line(fmt::format("ranks {}", g_.ranks));
    if (s.channels != ChannelPolicy::global) line(fmt::format("channels {}", to_string(s.channels)));
    if (!g_.mesh.empty()) {
      std::string axes;
      for (const MeshAxis& axis : g_.mesh)
        axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", name_text(axis.name), axis.size);
      line(fmt::format("mesh [{}]", axes));
    }
    for (const CommGroup& group : g_.groups) {
      line(fmt::format("group @{} = {}", name_text(group.name), ranks_of(group)));
    }
    out_ += "\n";
    const std::size_t before = out_.size();
    for (std::size_t i = 0; i < g_.storages.size(); ++i) {
      const StorageId id{static_cast<std::int32_t>(i)};
      if (!used_storages_[i] || implied(id)) continue;
      const Storage& st = g_[id];
      line(fmt::format("storage {}: {} [{}]{}", storage(id), storage_kind(st.kind, st.comm_kind, st.groups),
                       to_string(st.bytes), st.alias_of.valid() ? " alias " + storage(st.alias_of) : ""));
      storage_order_.push_back(id);
    }
    for (const GraphInput& i : g_.inputs) {
      if (declared_[index(i.buffer)]) {
        line(fmt::format("input {} again{}", buffer(i.buffer), named(i)));
        continue;
      }
      line("input " + result(i.buffer, StorageKind::input) + named(i));
    }
    for (std::size_t i = 0; i < g_.buffers.size(); ++i) {
      const BufferId id{static_cast<std::int32_t>(i)};
      if (used_buffers_[i] && is_constant(id)) constant(id);
    }
    if (out_.size() != before) out_ += "\n";
  }

  // Parts that lie along axes of the mesh are printed as these axes.
  std::string ranks_of(const CommGroup& group) const {
    const auto listed = [](const std::vector<int>& ranks) {
      return fmt::format("[{}]", fmt::join(ranks, ", "));
    };
    std::string text;
    if (const std::optional<std::vector<int>> axes = axes_of(g_.mesh, group.parts)) {
      for (const int axis : *axes)
        text += (text.empty() ? "axis " : ", ") + name_text(g_.mesh[static_cast<std::size_t>(axis)].name);
      return text;
    }
    if (group.parts.size() == 1) return listed(group.parts[0]);
    for (const std::vector<int>& part : group.parts) text += (text.empty() ? "" : ", ") + listed(part);
    return "[" + text + "]";
  }

  // The buffer whose declaration carries a constant's data.
  bool is_constant(BufferId b) const {
    const Buffer& buffer = g_[b];
    return buffer.storage.valid() && owns(buffer) && g_[buffer.storage].kind == StorageKind::constant &&
           owner_[index(buffer.storage)].first == b && !produced_[index(b)] && !declared_[index(b)];
  }

  std::string storage_kind(StorageKind kind, CommBufferKind comm_kind,
                           const std::vector<GroupId>& groups) const {
    if (kind != StorageKind::comm) return std::string(to_string(kind));
    std::string text = "comm(" + std::string(to_string(comm_kind));
    for (GroupId g : groups) text += ", " + group(g);
    return text + ")";
  }

  void constant(BufferId b) {
    const Storage& s = g_[g_[b].storage];
    std::string text = "constant " + result(b, StorageKind::constant);
    const ConstantData& data = s.data;
    if (!data.file.empty()) {
      text += fmt::format(" = file({}, {})", in_quotes(data.file), data.file_offset);
    } else if (!data.elided.empty()) {
      text += " = " + per_rank(data.elided.size(), [&](std::size_t i) { return elided(data.elided[i]); });
    } else if (!data.per_rank.empty()) {
      // All ranks' entries or none: data omitted from a text can be restored only as a whole.
      const bool small = std::all_of(data.per_rank.begin(), data.per_rank.end(), [&](const auto& bytes) {
        return static_cast<std::int64_t>(bytes.size()) <= options_.inline_bytes ||
               is_splat(g_[b].dtype, bytes);
      });
      text += " = " + per_rank(data.per_rank.size(), [&](std::size_t i) {
                const std::span<const std::byte> bytes = data.per_rank[i];
                return small ? values(g_[b].dtype, bytes) : elided(fnv1a(bytes.data(), bytes.size()));
              });
    }
    line(text);
  }

  template <class Fn>
  static std::string per_rank(std::size_t count, Fn&& entry) {
    if (count == 1) return entry(0);
    std::string text = "per_rank(";
    for (std::size_t i = 0; i < count; ++i) text += (i ? ", " : "") + entry(i);
    return text + ")";
  }

  static std::string elided(std::uint64_t hash) { return fmt::format("elided(0x{:016x})", hash); }

  static bool is_splat(DType dtype, std::span<const std::byte> bytes) {
    const auto item = static_cast<std::size_t>(size_of(dtype));
    if (bytes.size() <= item || bytes.size() > kMaxSplatBytes) return false;
    return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(item), bytes.end(), bytes.begin());
  }

  static std::string values(DType dtype, std::span<const std::byte> bytes) {
    const auto item = static_cast<std::size_t>(size_of(dtype));
    const std::size_t count = bytes.size() / item;
    if (is_splat(dtype, bytes)) return fmt::format("splat({})", element_text(dtype, bytes.data()));
    std::string text = "[";
    for (std::size_t i = 0; i < count; ++i)
      text += (i ? ", " : "") + element_text(dtype, bytes.data() + i * item);
    return text + "]";
  }

  // ---- buffers

  // The declaration of a buffer: "%x: f32[2, 3] ..." ; `context` is the storage kind that is left out.
  std::string result(BufferId id, StorageKind context) {
    const Buffer& b = g_[id];
    declared_[index(id)] = true;
    std::string text = buffer(id);
    const auto* mutation = std::get_if<MutationOutput>(&b.layout);
    const bool same_type = mutation && g_[mutation->of].dtype == b.dtype && g_[mutation->of].sizes == b.sizes;
    if (!same_type) text += fmt::format(": {}{}", to_string(b.dtype), list(b.sizes));
    const auto strides = [&](const std::vector<Expr>& s) {
      return s == contiguous_strides(b.sizes) ? std::string() : " strides " + list(s);
    };
    if (std::holds_alternative<FlexibleLayout>(b.layout)) {
      text += " flexible";
    } else if (const auto* f = std::get_if<FixedLayout>(&b.layout)) {
      text += strides(f->strides);
    } else if (const auto* v = std::get_if<NonOwningLayout>(&b.layout)) {
      text += " in " + buffer(v->base);
      if (!v->offset.is_constant(0)) text += " at " + to_string(v->offset);
      text += strides(v->strides);
    } else if (std::holds_alternative<NoneLayout>(b.layout)) {
      text += " no_memory";
    } else if (std::holds_alternative<MultiOutputLayout>(b.layout)) {
      text += " multi_output";
    } else if (const auto* c = std::get_if<CommBufferLayout>(&b.layout)) {
      text += " " + storage_kind(StorageKind::comm, c->kind, c->groups) + strides(c->strides);
    } else if (mutation) {
      text += " mutates " + buffer(mutation->of);
    }
    if (b.storage.valid()) {
      if (owns(b) && implied(b.storage)) {
        const Storage& s = g_[b.storage];
        if (s.kind != context && s.kind != StorageKind::comm) text += fmt::format(" {}", to_string(s.kind));
        if (s.alias_of.valid()) text += " alias " + storage(s.alias_of);
        storage_order_.push_back(b.storage);
      } else {
        text += " on " + storage(b.storage);
      }
    } else if (owns(b)) {
      text += " no_storage";
    }
    return text;
  }

  // Buffers that no operation produces and that are not declared yet: views, and memory filled in pieces.
  void declare(BufferId id) {
    if (!id.valid() || declared_[index(id)] || produced_[index(id)]) return;
    declare_bases(id);
    line("buffer " + result(id, StorageKind::activation));
  }

  void declare_bases(BufferId id) {
    if (const auto* m = std::get_if<MutationOutput>(&g_[id].layout)) declare(m->of);
    if (const auto* v = std::get_if<NonOwningLayout>(&g_[id].layout)) declare(v->base);
  }

  std::string ref(const TensorRef& r) const {
    if (!r.buffer.valid()) return buffer(r.buffer);
    const TensorRef all = whole(g_, r.buffer);
    if (r == all) return buffer(r.buffer);
    if (std::optional<TensorRef> t = transposed(all); t && *t == r)
      return fmt::format("transpose({})", buffer(r.buffer));
    std::string text = buffer(r.buffer);
    if (!r.offset.is_constant(0)) text += " at " + to_string(r.offset);
    const bool same_sizes = r.sizes == all.sizes;
    if (!same_sizes) text += " " + list(r.sizes);
    if (r.strides != (same_sizes ? all.strides : contiguous_strides(r.sizes)))
      text += " strides " + list(r.strides);
    return text;
  }

  std::string refs(const std::vector<TensorRef>& rs) const {
    std::string text = "(";
    for (std::size_t i = 0; i < rs.size(); ++i) text += (i ? ", " : "") + ref(rs[i]);
    return text + ")";
  }

  bool wholes(std::span<const TensorRef> rs, const std::vector<BufferId>& buffers) const {
    return std::equal(rs.begin(), rs.end(), buffers.begin(), buffers.end(),
                      [&](const TensorRef& r, BufferId b) { return r == whole(g_, b); });
  }

  // ---- operations

  void schedule_node(const ScheduleNode& node) {
    if (node.kind == ScheduleNode::Kind::single) return operation(node.op);
    // A node may be named like the word that follows its name.
    std::string head = node.kind == ScheduleNode::Kind::fused ? "fused" : "grouped";
    if (!node.name.empty())
      head += " " + (node.name == "after" ? in_quotes(node.name) : name_text(node.name));
    for (std::size_t k = 0; k < node.after.size(); ++k)
      head += (k == 0 ? " after " : ", ") + name_text(node.after[k]);
    line(head + " {");
    ++indent_;
    for (const ScheduleNode& member : node.members) schedule_node(member);
    --indent_;
    line("}");
  }

  std::string clauses(const Operation& op) const {
    std::string text = as(op.name, default_op_name(g_, op));
    if (options_.origins && !op.origins.empty()) {
      text += " from ";
      for (std::size_t i = 0; i < op.origins.size(); ++i) text += (i ? ", " : "") + in_quotes(op.origins[i]);
    }
    if (op.cost) {
      std::string items;
      if (op.cost->kernel_class) items = to_string(*op.cost->kernel_class);
      const auto item = [&](const char* name, double value) {
        if (value != -1) items += fmt::format("{}{} {}", items.empty() ? "" : ", ", name, value);
      };
      item("ns", op.cost->ns);
      item("flops", op.cost->flops);
      item("bytes", op.cost->bytes);
      text += " cost(" + items + ")";
    }
    return text;
  }

  void operation(OpId id) {
    const Operation& op = g_[id];
    for_each_buffer(op, [&](BufferId b) { declare(b); });
    for (BufferId b : op.outputs) declare_bases(b);
    std::string head;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      head += (i ? ", " : "") + result(op.outputs[i], StorageKind::activation);
    }
    if (!op.outputs.empty()) head += " = ";
    std::visit([&](const auto& kernel) { kernel_text(head, op, kernel); }, op.kernel);
  }

  void kernel_text(const std::string& head, const Operation& op, const Loops& k) {
    const std::vector<Expr> kept(k.sizes.begin(), k.sizes.begin() + static_cast<std::ptrdiff_t>(k.kept()));
    std::string text =
        head + (k.is_reduction() ? fmt::format("reduction {}", to_string(k.reduce)) : "pointwise");
    if (op.outputs.empty() || kept != g_[op.outputs[0]].sizes) text += " " + list(kept);
    if (k.is_reduction()) text += " over " + list(std::span(k.sizes).subspan(k.kept()));
    line(text + clauses(op) + " {");
    ++indent_;
    instrs(k.body, k.sizes);
    std::string store = fmt::format("store %{}", k.body.result.index);
    if (op.outputs.empty() || !(k.store_index == default_index(g_, op.outputs[0], kept)))
      store += " at " + to_string(k.store_index);
    line(store);
    --indent_;
    line("}");
  }

  void instrs(const LoopBody& body, std::span<const Expr> sizes) {
    for (std::size_t i = 0; i < body.instrs.size(); ++i)
      line(fmt::format("%{} = {}", i, instr(body, i, sizes)));
  }

  std::string instr(const LoopBody& body, std::size_t k, std::span<const Expr> sizes) const {
    const Instr& i = body.instrs[k];
    const std::string name(to_string(i.code));
    switch (i.code) {
      case OpCode::load: {
        std::string text = "load " + buffer(i.buffer);
        if (!i.buffer.valid() || !(i.index == default_index(g_, i.buffer, sizes)))
          text += "[" + to_string(i.index) + "]";
        if (!i.operands.empty()) text += fmt::format(" if %{}", i.operands[0].index);
        return text;
      }
      case OpCode::constant:
        return fmt::format("constant {} {}", to_string(i.dtype), literal_text(i.dtype, i.literal));
      case OpCode::index:
        return fmt::format("index {} {}", to_string(i.dtype), to_string(i.index));
      case OpCode::acc:
        return fmt::format("acc {}", to_string(i.dtype));
      case OpCode::cast:
      case OpCode::bitcast:
        return fmt::format("{} {} %{}", name, to_string(i.dtype),
                           i.operands.empty() ? -1 : i.operands[0].index);
      default: {
        std::string text = name;
        for (std::size_t n = 0; n < i.operands.size(); ++n)
          text += fmt::format("{} %{}", n ? "," : "", i.operands[n].index);
        if (i.code == OpCode::check_index) text += ", " + to_string(i.index);
        return text;
      }
    }
  }

  // A kernel with a list of fields. Where a body ends a line, `text` goes on behind it.
  template <class K>
  requires requires { K::kFields; }
  void kernel_text(const std::string& head, const Operation& op, const K& k) {
    std::string text = head + std::string(kind_name(op.kernel));
    bool after_operand = false;
    for_each_field(k, [&](auto f, const auto& member) {
      if constexpr (f.kRole != Role::body) text += field(op, k, f, member, after_operand);
    });
    text += clauses(op);
    for_each_field(k, [&](auto f, const auto& member) {
      if constexpr (f.kRole == Role::body) body(text, k, member);
    });
    line(text);
  }

  template <class K, Role role, class F, class M>
  std::string field(const Operation& op, const K& k, Field<role, F, M> f, const M& member,
                    bool& after_operand) const {
    if constexpr (role == Role::attribute) {
      if (f.word.empty()) return attribute(k, member);
      if (member == K().*f.member) return "";
      std::string_view word = f.word;
      if constexpr (std::is_same_v<K, CollectiveKernel>) {
        if (word == "root" && !row_of(k.kind).from_root()) word = "peer";
      }
      return fmt::format(" {}{}", word, attribute(k, member));
    } else if constexpr (role == Role::operand && std::is_same_v<M, TensorRef>) {
      return (std::exchange(after_operand, true) ? ", " : " ") + ref(member);
    } else if constexpr (std::is_same_v<M, std::optional<TensorRef>>) {
      return member ? fmt::format(" {} {}", f.word, ref(*member)) : "";
    } else if constexpr (std::is_same_v<M, TensorRef>) {
      return wholes({&member, 1}, op.outputs) ? "" : fmt::format(" {} {}", f.word, ref(member));
    } else {
      const bool usual = role == Role::result ? wholes(member, op.outputs) : member.empty();
      return usual ? "" : fmt::format(" {}{}{}", f.word, f.word == "into" ? " " : "", refs(member));
    }
  }

  template <class K>
  std::string field(const Operation&, const K& k, Either<K> f, double member, bool&) const {
    if (!(k.*f.flag) && member == K().*f.member) return "";
    return fmt::format(" {}{}", k.*f.flag ? f.flag_word : f.word, attribute(k, member));
  }

  // The text behind the word of an attribute.
  template <class K, class M>
  std::string attribute(const K& k, const M& value) const {
    if constexpr (std::is_same_v<M, bool> || std::is_same_v<M, CollectiveKind>) {
      return "";  // the word says it, or the kernel's name
    } else if constexpr (std::is_same_v<M, double>) {
      return " " + literal_text(DType::f64, value);
    } else if constexpr (std::is_same_v<M, int>) {
      return fmt::format(" {}", value);
    } else if constexpr (std::is_same_v<M, std::optional<Expr>>) {
      return " " + to_string(*value);
    } else if constexpr (std::is_same_v<M, std::string>) {
      return value.empty() ? "" : " " + in_quotes(value);
    } else if constexpr (std::is_same_v<M, ExternAttributes>) {
      return attributes(value);
    } else if constexpr (std::is_same_v<M, std::vector<Window>>) {
      return windows(value, std::is_same_v<K, Pooling>);
    } else if constexpr (std::is_same_v<M, ReduceKind>) {
      return row_of(k.kind).reduces || value != ReduceKind::sum ? fmt::format(" {}", to_string(value)) : "";
    } else if constexpr (std::is_same_v<M, GroupId>) {
      return " " + group(value);
    } else if constexpr (std::is_same_v<M, OpId>) {
      return " " + op_name(value);
    } else {
      return fmt::format(" {}", to_string(value));
    }
  }

  static std::string attributes(const ExternAttributes& attributes) {
    std::string items;
    for (const auto& [name, value] : attributes) {
      items += (items.empty() ? "" : ", ") + name_text(name) + " = ";
      if (const auto* i = std::get_if<std::int64_t>(&value)) items += fmt::format("{}", *i);
      if (const auto* d = std::get_if<double>(&value)) items += literal_text(DType::f64, *d);
      if (const auto* s = std::get_if<std::string>(&value)) items += in_quotes(*s);
    }
    return "(" + items + ")";
  }

  std::string op_name(OpId id) const { return id.valid() ? name_text(g_[id].name) : "\"?\""; }

  static std::string windows(const std::vector<Window>& windows, bool taps) {
    std::string text;
    const auto add = [&](const char* word, auto Window::*number, bool always) {
      std::string numbers;
      bool plain = true;
      for (const Window& w : windows) {
        const Expr n = w.*number;
        plain &= n.is_constant(std::string_view(word) == "pad" ? 0 : 1);
        numbers += (numbers.empty() ? "" : ", ") + to_string(n);
      }
      if (always || !plain) text += fmt::format(" {} [{}]", word, numbers);
    };
    if (taps) add("window", &Window::taps, true);
    add("stride", &Window::stride, false);
    add("dilation", &Window::dilation, false);
    add("pad", &Window::pad, false);
    return text;
  }

  void body(std::string& text, const std::string& word, const LoopBody& body, std::span<const Expr> sizes) {
    line(text + " " + word + " {");
    ++indent_;
    instrs(body, sizes);
    line(fmt::format("return %{}", body.result.index));
    --indent_;
    text = "}";
  }

  void body(std::string& text, const Product& k, const std::optional<LoopBody>& epilogue) {
    if (epilogue) body(text, "epilogue", *epilogue, k.out.sizes);
  }

  void body(std::string& text, const Product& k, const std::vector<PostOp>& steps) {
    if (!k.epilogue) return;
    const char* before = " as";
    for (const PostOp& step : steps) {
      text += fmt::format("{} %{} = {}", std::exchange(before, ","), step.result.index, to_string(step.kind));
      if (step.kind == PostOp::Kind::scale) text += fmt::format(" {}", literal_text(DType::f64, step.factor));
      if (step.operand.valid()) text += fmt::format(" %{}", step.operand.index);
    }
  }

  void body(std::string& text, const Recurrence&, const std::vector<LoopBody>& activations) {
    for (const LoopBody& activation : activations) body(text, "activation", activation, {});
  }

  void kernel_text(const std::string& head, const Operation& op, const RegionKernel& k) {
    std::string text = head + std::string(to_string(k.kind));
    if (k.kind == RegionKind::repeat) text += " " + to_string(k.trips);
    text += " (";
    for (std::size_t i = 0; i < k.operands.size(); ++i) text += (i ? ", " : "") + buffer(k.operands[i]);
    text += ")" + clauses(op) + " {";
    for (std::size_t i = 0; i < k.regions.size(); ++i) {
      line(i ? "} else {" : text);
      ++indent_;
      for (OpId inner : k.regions[i].ops) operation(inner);
      for (BufferId b : k.regions[i].yields) declare(b);
      std::string yields;
      for (BufferId b : k.regions[i].yields) yields += (yields.empty() ? "yield " : ", ") + buffer(b);
      if (!yields.empty()) line(yields);
      --indent_;
    }
    if (k.regions.empty()) line(text);
    line("}");
  }

  // ---- memory plan

  void plan(const MemoryPlan& p) {
    out_ += "\n";
    line(
        fmt::format("plan arena {} comm {} live_peak {} {{", p.arena_bytes, p.comm_bytes, p.live_peak_bytes));
    ++indent_;
    for (StorageId s : storage_order_) {
      const auto it = p.placements.find(s);
      if (it == p.placements.end()) continue;
      const Placement& at = it->second;
      line(fmt::format("{}: {} {} bytes {} steps {}..{}", storage(s),
                       at.space == MemorySpace::arena ? "arena" : "comm", at.offset, at.bytes, at.first_step,
                       at.last_step));
    }
    --indent_;
    line("}");
  }

  struct Owner {
    int count = 0;
    BufferId first;
  };

  const Graph& g_;
  const PrintOptions& options_;
  std::vector<bool> used_buffers_, declared_, used_storages_;
  std::vector<Owner> owner_;
  std::vector<bool> produced_;
  std::vector<bool> is_input_;  // named in Graph::inputs
  std::vector<StorageId> storage_order_;
  std::string out_;
  std::size_t indent_ = 0;
};

}  // namespace

std::string print(const Schedule& schedule, const PrintOptions& options) {
  return Printer(schedule.graph, options).schedule(schedule);
}

std::string print(const Graph& graph, OpId op) { return Printer(graph, {}).single(op); }

}  // namespace braid::ir
