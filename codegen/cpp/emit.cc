#include "codegen/cpp/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "codegen/cpp/program_emitter.h"
#include "codegen/extern_call.h"
#include "codegen/interface_text.h"
#include "codegen/program_folder.h"
#include "codegen/refused_operations.h"
#include "ir/capacity.h"
#include "ir/collective_table.h"
#include "ir/coordinate.h"
#include "ir/effects.h"
#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/measured_dims.h"
#include "ir/typing.h"
#include "ir/written_inputs.h"
#include "runtime/program_abi.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// "past + seq": in terms of the user's dimensions.
std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

bool is_row_major(const Graph& graph, BufferId b) {
  const std::vector<Expr> strides = strides_of(graph, b);
  return is_contiguous(graph[b].sizes, strides);
}

// "// ---------- tables"
void write_section(Writer& w, const std::string& title) {
  w.line();
  w.line("// " + std::string(112 - title.size(), '-') + " " + title);
}

constexpr const char* kIdMark = "@COMPILATION_ID@";

}  // namespace

ProgramEmitter::ProgramEmitter(const Schedule& schedule, const EmitOptions& options) : s_(schedule) {
  internal_check(schedule.plan.has_value(), "codegen: the schedule of '{}' has no memory plan",
                 schedule.graph.name);
  plan_ = *schedule.plan;
  checked_ = options.checked;
  name_ = c_identifier(options.name.empty() ? schedule.graph.name : options.name);
  names_ = [this](Expr dim) {
    const std::string name = dim_identifier(dim);
    if (is_coordinate(dim)) coordinates_.emplace(name, dim);
    return name;
  };
  overlap_ = [this](BufferId a, BufferId b) { return overlap(a, b); };
}

void ProgramEmitter::refuse_unsupported() const {
  RefusedOperations refused;
  const auto refuse = [&](OpId id, const std::string& why) { refused.add(label(id), why); };
  for (OpId id : nested_order(s_)) {
    const Operation& op = s_.graph[id];
    if (op.as<ExternKernel>()) {
      refuse(id, extern_refusal(s_.graph, op, kTargetName));
    } else if (const auto* gemm = op.as<Gemm>()) {
      const DType a = s_.graph[gemm->a.buffer].dtype, b = s_.graph[gemm->b.buffer].dtype;
      const bool weights = has_byte_weights(s_.graph, *gemm) && is_packed_matrix(s_.graph, gemm->b) &&
                           bounds(numel(gemm->b.sizes)).min > 0 &&
                           (gemm->out.strides.back().is_constant(1) || gemm->out.sizes.back().is_constant(1));
      if (a != b && !is_byte_product(s_.graph, *gemm) && !weights)
        refuse(id, fmt::format("a product of {} by {}", to_string(a), to_string(b)));
      else if (a == DType::boolean)
        refuse(id, "a product of bool matrices");
      else if (gemm->out.sizes.size() > 8)
        refuse(id, fmt::format("a product with {} batch dimensions; at most 6", gemm->out.sizes.size() - 2));
      const DType out = s_.graph[gemm->out.buffer].dtype;
      const DType wide = accumulator_of(a);
      if (a == b && !gemm->epilogue && out != a && out != wide && !is_byte_product(s_.graph, *gemm)) {
        refuse(id, fmt::format("a product of {} matrices stored as {}", to_string(a), to_string(out)));
      }
    } else if (const auto* c = op.as<CollectiveKernel>()) {
      const bool chosen = c->algorithm != Algorithm::unasked && c->algorithm != Algorithm::automatic;
      if (chosen && !row_of(c->kind).shared_memory.contains(c->algorithm))
        refuse(id, fmt::format("the {} algorithm", to_string(c->algorithm)));
    }
  }
  refused.report(errors::kNotInCpp, "C++");
}

void ProgramEmitter::index_interface() {
  const Graph& graph = s_.graph;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    const StorageId root = root_storage(graph, graph.inputs[k].buffer);
    internal_check(inputs_.emplace(root, static_cast<int>(k)).second,
                   "codegen: input '{}' shares its memory with another", graph.inputs[k].name);
  }
  written_ = written_inputs(s_);
  output_alias_.assign(graph.outputs.size(), -1);
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    const BufferId buffer = graph.outputs[k].buffer;
    const StorageId root = root_storage(graph, buffer);
    if (graph[root].kind == StorageKind::output && outputs_.emplace(root, static_cast<int>(k)).second)
      continue;
    const StorageId own = graph[unmutated(graph, buffer)].storage;
    if (graph[root].kind == StorageKind::input && own.valid() && own != root) {
      output_alias_[k] = inputs_.at(root);  // a declared alias: its memory is the input's
      continue;
    }
    // An activation that is exactly this output is computed in the caller's memory.
    const StorageId activation = graph[unmutated(graph, buffer)].storage;
    const bool whole_storage = graph[root].kind == StorageKind::activation && activation == root &&
                               is_row_major(graph, buffer) && region(graph, buffer).offset.is_constant(0) &&
                               graph[root].bytes == numel(graph[buffer].sizes) * size_of(graph[buffer].dtype);
    if (whole_storage && outputs_.emplace(root, static_cast<int>(k)).second) {
      s_.graph[root].kind = StorageKind::output;
      continue;
    }
    // Other values become an output by a copy when the step ends.
    const Buffer& b = graph[buffer];
    const BufferId target =
        s_.graph.add_owned(graph.outputs[k].name + ".result", b.dtype, b.sizes, StorageKind::output);
    outputs_.emplace(s_.graph[target].storage, static_cast<int>(k));
    final_copies_.emplace_back(buffer, target);
  }
  std::vector<StorageId> constants;
  const auto touch = [&](StorageId s) {
    if (s.valid() && graph[s].kind == StorageKind::constant) constants.push_back(s);
  };
  for (OpId id : nested_order(s_)) {
    for (const Access& a : effects(graph, id).accesses) touch(a.region.storage);
  }
  for (const auto& [from, to] : final_copies_) touch(root_storage(graph, from));
  weights_ = layout_weights(graph, constants);
}

EmittedProgram ProgramEmitter::emit() {
  refuse_unsupported();
  index_interface();
  if (checked_) {
    find_lifecycle();
    for (std::size_t k = 0; k < s_.nodes.size(); ++k) {
      step_.push_back(fmt::format("if (!before_step({})) return false;", k));
      emit_nodes({s_.nodes[k]});
      step_.push_back(fmt::format("if (!after_step({})) return false;", k));
    }
  } else {
    emit_nodes(s_.nodes);
  }
  for (const auto& [from, to] : final_copies_) emit_copy(from, to, "output", true);
  EmittedProgram program;
  program.name = name_;
  program.source = source_text();
  program.id = compilation_id(program.source, weights_);
  program.source.replace(program.source.find(kIdMark), std::string_view(kIdMark).size(),
                         fmt::format("0x{:016x}u", program.id));
  program.header = header_text();
  program.manifest = std::make_shared<const nlohmann::ordered_json>(manifest(program.id));
  program.weights = weights_;
  return program;
}

// ---------------------------------------------------------------------------------------------------------
// source

void ProgramEmitter::write_tables(Writer& w) const {
  const Graph& graph = s_.graph;
  if (!graph.dims.empty()) {
    w.open("constexpr BraidDim kDims[] = {");
    for (Expr d : graph.dims) {
      const Bounds b = bounds(d);
      w.line(fmt::format("{{{}, {}, {}{}}},", c_string(d.dim_name()), b.min, b.max,
                         measured_by(graph, d) ? ", 1" : ""));
    }
    w.close("};");
  }
  write_tensor_tables(w);
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    w.line(fmt::format("constexpr int32_t kGroup{}[] = {{{}}};", g, abi_ranks(graph.groups[g])));
  }
  if (!graph.groups.empty()) {
    w.open("constexpr BraidGroup kGroups[] = {");
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      w.line(fmt::format("{{{}, {}, {}, kGroup{}}},", c_string(graph.groups[g].name), graph.groups[g].size(),
                         graph.groups[g].parts.size(), g));
    }
    w.close("};");
  }
  write_collective_table(w);
  write_node_table(w);
  if (!sites_.empty()) {
    w.line("// Nodes whose index tensors are checked.");
    std::vector<std::string> sites;
    for (const std::string& site : sites_) sites.push_back(c_string(site));
    w.line(fmt::format("constexpr const char* kIndexSites[] = {{{}}};", fmt::join(sites, ", ")));
  }
}

void ProgramEmitter::write_tensor_tables(Writer& w) const {
  const Graph& graph = s_.graph;
  const auto tensor_sizes = [&](const char* what, std::size_t k, BufferId b) {
    std::vector<std::string> sizes;
    for (Expr e : graph[b].sizes) {
      const auto dim = std::find(graph.dims.begin(), graph.dims.end(), e);
      sizes.push_back(fmt::format("{{{}, {}, {}{}}}", e.is_constant() ? e.constant() : -1, bounds(e).max,
                                  dim == graph.dims.end() ? -1 : static_cast<int>(dim - graph.dims.begin()),
                                  is_measured(graph, e) ? ", 1" : ""));
    }
    if (!sizes.empty())
      w.line(fmt::format("constexpr BraidSize k{}{}Sizes[] = {{{}}};", what, k, fmt::join(sizes, ", ")));
    if (const auto room = capacities(graph, b))
      w.line(fmt::format("constexpr int64_t k{}{}Capacities[] = {{{}}};", what, k, fmt::join(*room, ", ")));
  };
  const auto tensor_row = [&](const char* what, std::size_t k, const std::string& name, BufferId b, int alias,
                              bool written) {
    const Buffer& buffer = graph[b];
    const std::string sizes = buffer.sizes.empty() ? "nullptr" : fmt::format("k{}{}Sizes", what, k);
    const std::string room = capacities(graph, b) ? fmt::format("k{}{}Capacities", what, k) : "nullptr";
    w.line(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}},", c_string(name), abi_dtype(buffer.dtype),
                       buffer.sizes.size(), sizes, max_bytes(graph, b), alias, written ? 1 : 0, room));
  };
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) tensor_sizes("Input", k, graph.inputs[k].buffer);
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) tensor_sizes("Output", k, graph.outputs[k].buffer);
  if (!graph.inputs.empty()) {
    w.open("constexpr BraidTensorInfo kInputs[] = {");
    for (std::size_t k = 0; k < graph.inputs.size(); ++k)
      tensor_row("Input", k, graph.inputs[k].name, graph.inputs[k].buffer, -1, written_[k]);
    w.close("};");
  }
  if (!graph.outputs.empty()) {
    w.open("constexpr BraidTensorInfo kOutputs[] = {");
    for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
      tensor_row("Output", k, graph.outputs[k].name, graph.outputs[k].buffer, output_alias_[k], false);
    }
    w.close("};");
  }
}

void ProgramEmitter::write_collective_table(Writer& w) const {
  if (collectives_.empty()) return;
  const Graph& graph = s_.graph;
  const auto offset = [&](const TensorRef& ref) -> std::int64_t {
    if (!ref.buffer.valid()) return -1;
    const MemoryRegion where = region(graph, ref);
    const auto place = plan_.placements.find(where.storage);
    if (place == plan_.placements.end() || place->second.space != MemorySpace::comm) return -1;
    return place->second.offset + (where.offset.is_constant() ? where.offset.constant() : 0);
  };
  w.open("constexpr BraidCollective kCollectives[] = {");
  for (const Collective& c : collectives_) {
    const TensorRef& ref = c.input.buffer.valid() ? c.input : c.output;
    const Algorithm algorithm = c.algorithm == Algorithm::unasked ? Algorithm::automatic : c.algorithm;
    w.line(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},", c_string(to_string(c.kind)),
                       c_string(c.label), c.group.index, c.detail,
                       c_string(row_of(c.kind).reduces ? to_string(c.reduce) : ""), abi_dtype(c.dtype),
                       bounds(numel(ref.sizes)).max * size_of(c.dtype), offset(c.input), offset(c.output),
                       c_string(to_string(algorithm))));
  }
  w.close("};");
}

void ProgramEmitter::write_node_table(Writer& w) const {
  if (nodes_.empty()) return;
  w.open("constexpr BraidNode kNodes[] = {");
  for (const Node& n : nodes_) {
    const auto of = n.start.valid() ? collective_of_.find(n.start) : collective_of_.end();
    const bool some = of != collective_of_.end() && !of->second.empty();
    w.line(fmt::format("{{{}, {}, BRAID_NODE_{}, {}, {}}},", c_string(n.name), c_string(n.label), n.kind,
                       some ? static_cast<std::int64_t>(of->second.front()) : -1,
                       some ? of->second.size() : 0));
  }
  w.close("};");
}

void ProgramEmitter::write_sizes(Writer& w) const {
  const Graph& graph = s_.graph;
  w.open("void sizes([[maybe_unused]] const int64_t* dims, [[maybe_unused]] int64_t* out) {");
  for (std::size_t k = 0; k < graph.dims.size(); ++k) {
    w.line(fmt::format("[[maybe_unused]] const int64_t {} = dims[{}];", names_(graph.dims[k]), k));
  }
  std::size_t at = 0;
  for (const GraphInput& in : graph.inputs) {
    for (Expr e : graph[in.buffer].sizes) w.line(fmt::format("out[{}] = {};", at++, size(e)));
  }
  for (const GraphOutput& o : graph.outputs) {
    for (Expr e : graph[o.buffer].sizes) w.line(fmt::format("out[{}] = {};", at++, size(e)));
  }
  w.close();
}

void ProgramEmitter::write_class(Writer& w) const {
  w.open("class Program final : public Instance {");
  w.line("public:");
  w.line("explicit Program(const BraidCreateInfo& info);");
  w.line();
  w.line("private:");
  if (checked_) {
    w.line("const LifecyclePlan* lifecycle_plan() const override { return &kLifecycle; }");
    w.line();
  }
  write_packing(w);
  write_guards(w);
  write_choices(w);
  write_step(w);
  if (!packed_.empty() || !coordinates_.empty()) w.line();
  for (const auto& [name, coordinate] : coordinates_)
    w.line(fmt::format("const int64_t {} = {};", name, coordinate_text(s_.graph.mesh, coordinate, "rank_")));
  if (!packed_.empty()) w.line(fmt::format("PackedMatrix packed_[{}];", packed_.size()));
  w.close("};");
}

void ProgramEmitter::write_packing(Writer& w) const {
  const bool packs_windows =
      std::any_of(windows_.begin(), windows_.end(), [](const WindowUse& use) { return use.packs; });
  if (packed_.empty() && !packs_windows) return;
  // The largest first: while a copy is made, a matrix and its packed copy exist side by side.
  std::vector<std::size_t> order(packed_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return packed_[a].elements > packed_[b].elements; });
  w.open("void pack_weights() override {");
  for (std::size_t k : order)
    w.line(
        fmt::format("packed_[{}] = {};  // {}", k, packed_[k].call, c_comment(s_.graph[packed_[k].b].name)));
  for (const WindowUse& use : windows_) {
    if (use.packs)
      w.line(fmt::format("pack({}(nullptr), {});  // {}", shape_name(use.shape), use.weights,
                         c_comment(use.label)));
  }
  w.close();
  w.line();
}

std::string ProgramEmitter::guard_call(const Guard& guard, const char* dims) const {
  const bool equal = guard.relation == Guard::Relation::equal;
  return fmt::format("guard({} {} {}, {}, {});", size(guard.lhs), equal ? "==" : "<=", size(guard.rhs), dims,
                     c_string(guard_text(guard)));
}

void ProgramEmitter::write_guards(Writer& w) const {
  const Graph& graph = s_.graph;
  const std::vector<std::size_t> guards = guards_of_inputs(graph);
  if (guards.empty()) return;
  w.open("void check_guards(const int64_t* d) const override {");
  for (std::size_t k = 0; k < graph.dims.size(); ++k)
    w.line(fmt::format("[[maybe_unused]] const int64_t {} = d[{}];", names_(graph.dims[k]), k));
  for (const std::size_t k : guards) w.line(guard_call(graph.guards[k], "d"));
  w.close();
  w.line();
}

// The kernels that fit the sizes, in the order in which the step uses them.
void ProgramEmitter::write_choices(Writer& w) const {
  const auto choice = [&](const char* function, const char* kernel, const auto& uses, const auto& row) {
    if (uses.empty()) return;
    w.open(fmt::format("void {}([[maybe_unused]] const int64_t* d, KernelList<{}>& kernels) override {{",
                       function, kernel));
    w.open("kernels = {");
    for (const auto& use : uses)
      w.line(fmt::format("{},  // {}", row(use, shape_name(use.shape)), c_comment(use.label)));
    w.close("};");
    w.close();
    w.line();
  };
  choice("choose_gemms", "GemmKernel", gemms_, [](const GemmUse& use, const std::string& shape) {
    return fmt::format("gemms_.kernel({}(d), {})", shape,
                       use.packed ? fmt::format("&packed_[{}]", *use.packed) : "nullptr");
  });
  choice("choose_windows", "WindowKernel", windows_, [](const WindowUse& use, const std::string& shape) {
    return fmt::format("windows_.kernel({}(d){})", shape, use.weights.empty() ? "" : ", " + use.weights);
  });
  choice("choose_attentions", "AttentionKernel", attentions_,
         [](const AttentionUse&, const std::string& shape) {
           return fmt::format("attentions_.kernel({}(d))", shape);
         });
}

void ProgramEmitter::write_step(Writer& w) const {
  const Graph& graph = s_.graph;
  w.open(
      "bool step([[maybe_unused]] const void* const* inputs, [[maybe_unused]] void* const* outputs) override "
      "{");
  for (std::size_t k = 0; k < graph.dims.size(); ++k) {
    if (!measured_by(graph, graph.dims[k]))
      w.line(fmt::format("[[maybe_unused]] const int64_t {} = dims()[{}];", names_(graph.dims[k]), k));
  }
  for (const auto& [k, used] : used_inputs_) {
    const std::string name = c_comment(graph.inputs[static_cast<std::size_t>(k)].name);
    w.line(
        written_[static_cast<std::size_t>(k)]
            ? fmt::format("std::byte* const in{} = static_cast<std::byte*>(const_cast<void*>(inputs[{}]));"
                          "  // {}, written",
                          k, k, name)
            : fmt::format("const std::byte* const in{} = static_cast<const std::byte*>(inputs[{}]);  // {}",
                          k, k, name));
  }
  for (const auto& [k, used] : used_outputs_) {
    w.line(fmt::format("std::byte* const out{} = static_cast<std::byte*>(outputs[{}]);  // {}", k, k,
                       c_comment(graph.outputs[static_cast<std::size_t>(k)].name)));
  }
  for (const std::string& line : step_) w.wrapped(line);
  w.line("return true;");
  w.close();
}

std::string ProgramEmitter::source_text() const {
  Writer w;
  w.line(
      fmt::format("// {}: generated by Braid. {} kernels, {} matrix products, {} collectives; {} bytes of "
                  "arena, {} of weights.",
                  c_comment(name_), kernels_.size(), gemms_.size(), collectives_.size(), plan_.arena_bytes,
                  weights_.shared_bytes + weights_.rank_bytes));
  w.line(
      "// To be compiled with -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=fast, and -O3 "
      "-march=native or the like.");
  const std::vector<std::string> externs = extern_sources(s_, kTargetName);
  if (!externs.empty()) w.line("#include \"runtime/extern_kernel.h\"");
  w.line("#include \"runtime/instance.h\"");
  w.line("#include \"runtime/kernel_support.h\"");
  for (const std::string& header : headers_) w.line(fmt::format("#include \"{}\"", header));
  if (checked_) w.line("#include \"runtime/lifecycle.h\"");
  if (!externs.empty()) write_section(w, "extern kernels");
  for (const std::string& source : externs) {
    w.line();
    w.raw(source);
  }
  w.line();
  w.line(fmt::format("namespace generated_{} {{", name_));
  w.line("namespace {");
  w.line();
  w.line("using namespace braid::rt;");
  write_section(w, "tables");
  w.line();
  write_tables(w);
  if (checked_) write_lifecycle(w);
  if (const std::string slots = slots_.declarations(); !slots.empty()) {
    w.line();
    w.raw(slots);
  }
  w.line();
  write_sizes(w);
  write_section(w, "kernels");
  write_kernels(w);
  write_shapes(w);
  write_section(w, "step");
  w.line();
  write_class(w);
  w.line();
  write_program_table(w);
  w.line();
  w.line("}  // namespace");
  w.line(fmt::format("}}  // namespace generated_{}", name_));
  w.line();
  w.line(fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) const BraidProgram* braid_program_{}(void) {{",
      name_));
  w.line(fmt::format("  return &generated_{}::kProgram;", name_));
  w.line("}");
  return w.text();
}

void ProgramEmitter::write_kernels(Writer& w) const {
  for (std::size_t k = 0; k < functors_.size(); ++k) {
    w.line();
    w.line(fmt::format("struct Activation{} {{", k));
    w.raw(functors_[k]);
    w.line("};");
  }
  for (std::size_t k = 0; k < finishes_.size(); ++k) {
    w.line();
    const std::size_t first = finishes_[k].find('\n') + 1;
    w.wrapped(fmt::format("void finish_{}{}", k, finishes_[k].substr(0, first - 1)));
    w.raw(finishes_[k].substr(first));
  }
  for (const KernelFunction& k : kernels_) {
    w.line();
    std::vector<std::string> users;
    for (const std::string& u : k.users) {
      if (std::find(users.begin(), users.end(), u) == users.end() && users.size() < 6)
        users.push_back(c_comment(u));
    }
    for (const std::string& u : users) w.line("// " + u);
    if (k.users.size() > users.size()) w.line(fmt::format("// {} operations in all", k.users.size()));
    const std::size_t first = k.text.body.find('\n') + 1;  // "{"
    w.wrapped(fmt::format("void {}{} {}", k.name, k.text.parameters, k.text.body.substr(0, first - 1)));
    w.raw(k.text.body.substr(first));
  }
}

void ProgramEmitter::write_shapes(Writer& w) const {
  const Graph& graph = s_.graph;
  for (std::size_t k = 0; k < shapes_.size(); ++k) {
    w.line();
    const auto& [type, body] = shapes_[k];
    w.open(fmt::format("{} {}([[maybe_unused]] const int64_t* d) {{", type, shape_name(k)));
    for (std::size_t i = 0; i < graph.dims.size(); ++i) {
      if (body.find(names_(graph.dims[i])) != std::string::npos) {
        w.line(fmt::format("[[maybe_unused]] const int64_t {} = d[{}];", names_(graph.dims[i]), i));
      }
    }
    w.line(type + " s;");
    for (std::size_t from = 0; from < body.size();) {
      const std::size_t to = body.find('\n', from);
      w.line(body.substr(from, to - from));
      from = to + 1;
    }
    w.line("return s;");
    w.close();
  }
}

void ProgramEmitter::write_program_table(Writer& w) const {
  const Graph& graph = s_.graph;
  w.open("constexpr BraidProgram table() {");
  w.line("BraidProgram p = {};");
  const auto field = [&](const char* f, const std::string& v) { w.line(fmt::format("p.{} = {};", f, v)); };
  const auto array = [&](const char* f, const char* constant, std::size_t n) {
    w.line(fmt::format("p.{}_count = {};", f, n));
    if (n > 0) w.line(fmt::format("p.{}s = {};", f, constant));
  };
  field("name", c_string(name_));
  field("compilation_id", kIdMark);
  field("ranks", fmt::format("{}", graph.ranks));
  array("dim", "kDims", graph.dims.size());
  array("input", "kInputs", graph.inputs.size());
  array("output", "kOutputs", graph.outputs.size());
  field("arena_bytes", fmt::format("{}", plan_.arena_bytes));
  field("comm_bytes", fmt::format("{}", plan_.comm_bytes));
  field("weights_bytes", fmt::format("{}", weights_.shared_bytes));
  field("rank_weights_bytes", fmt::format("{}", weights_.rank_bytes));
  array("group", "kGroups", graph.groups.size());
  array("collective", "kCollectives", collectives_.size());
  array("node", "kNodes", nodes_.size());
  field("sizes", "sizes");
  w.line("return make_program<Program>(p);");
  w.close();
  w.line("constinit const BraidProgram kProgram = table();");
  w.line();
  w.line(fmt::format("Program::Program(const BraidCreateInfo& info) : Instance(kProgram, info, {}) {{}}",
                     scratch_bytes_));
}

std::string ProgramEmitter::header_text() const {
  const std::string guard = "BRAID_PROGRAM_" + upper(name_) + "_H_";
  Writer w;
  w.line(fmt::format("/* {}: generated by Braid.", c_comment(name_)));
  for (const std::string& text : interface_lines(s_)) w.line(" * " + text);
  w.line(" */");
  w.line(fmt::format("#ifndef {}", guard));
  w.line(fmt::format("#define {}", guard));
  w.line();
  w.line("#include \"runtime/program_abi.h\"");
  w.line();
  w.line("#ifdef __cplusplus");
  w.line("extern \"C\"");
  w.line("#endif");
  w.line(fmt::format("const BraidProgram* braid_program_{}(void);", name_));
  w.line();
  w.line("#endif");
  return w.text();
}

nlohmann::ordered_json ProgramEmitter::manifest(std::uint64_t id) const {
  const Graph& graph = s_.graph;
  ProgramFacts facts = {name_, kTargetName,       BRAID_ABI_VERSION, "braid_program_" + name_,
                        id,    plan_.arena_bytes, weights_,          {}};
  for (std::size_t k = 0; k < output_alias_.size(); ++k) {
    if (output_alias_[k] >= 0) facts.aliased_outputs[static_cast<int>(k)] = output_alias_[k];
  }
  nlohmann::ordered_json m = common_manifest(facts, s_);
  m["comm_segment"] = nlohmann::ordered_json::array();
  for (const auto& [storage, place] : plan_.placements) {
    if (place.space != MemorySpace::comm) continue;
    m["comm_segment"].push_back({{"name", graph[storage].name},
                                 {"offset", place.offset},
                                 {"bytes", place.bytes},
                                 {"kind", std::string(to_string(graph[storage].comm_kind))}});
  }
  m["collectives"] = nlohmann::ordered_json::array();
  for (const Collective& c : collectives_) {
    const TensorRef& ref = c.input.buffer.valid() ? c.input : c.output;
    m["collectives"].push_back({{"node", c.label},
                                {"kind", std::string(to_string(c.kind))},
                                {"group", graph[c.group].name},
                                {"dtype", std::string(to_string(c.dtype))},
                                {"max_bytes", bounds(numel(ref.sizes)).max * size_of(c.dtype)}});
  }
  m["kernels"] = nlohmann::ordered_json::array();
  for (const KernelFunction& k : kernels_)
    m["kernels"].push_back({{"name", k.name}, {"uses", k.users.size()}, {"first", k.users.front()}});
  m["gemms"] = gemms_.size();
  return m;
}

EmittedProgram emit_cpp(const Schedule& schedule, const EmitOptions& options) {
  return ProgramEmitter(schedule, options).emit();
}

void write_program(const EmittedProgram& program, const Graph& graph, ProgramFolder& folder) {
  folder.write({{program.name + ".cc", program.source}, {program.name + ".h", program.header}}, graph,
               program.weights, program.id, *program.manifest);
}

}  // namespace braid::codegen::cpp
