#include "ir/operation_check.h"

#include <cmath>

#include "ir/collective_table.h"
#include "ir/coordinate.h"
#include "ir/kernel_parts.h"
#include "ir/post_ops.h"

namespace braid::ir {
namespace {

using Kind = TypeError::Kind;
using Result = std::optional<TypeError>;

bool provably_different(Expr a, Expr b) {
  const Expr d = a - b;
  return provably_less(0, d) || provably_less(d, 0);
}

class OperationCheck {
 public:
  OperationCheck(const Graph& graph, OpId id) : g_(graph), id_(id), op_(graph[id]) {}

  Result run() {
    for (BufferId b : op_.outputs) {
      if (!is_buffer(g_, b)) return wrong(Kind::structure, "an output is not a buffer");
    }
    if (op_.cost && op_.cost->kernel_class && op_.as<ExternKernel>() == nullptr)
      return wrong(Kind::structure,
                   "the class '{}' in its cost is for extern kernels: others have that of their body",
                   to_string(*op_.cost->kernel_class));
    Result bad;
    for_each_operand(op_.kernel, [&](const TensorRef& ref, bool) {
      if (!bad) bad = check_ref(ref);
    });
    if (!bad) bad = std::visit([&](const auto& k) { return check(k); }, op_.kernel);
    return bad ? bad : check_coordinates();
  }

 private:
  // All ranks run one program: loops run equally often, and operands have the same sizes and strides. A rank
  // finds its peers' operands of a collective at the same offsets as its own.
  Result check_coordinates() {
    Result found;
    const auto equal_on_all_ranks = [&](Expr e, std::string_view what) {
      if (!found && depends_on_rank(e))
        found = wrong(Kind::index, "{} {} depends on the rank: it must be equal on all ranks", what,
                      to_string(e));
    };
    const auto known_axes = [&](Expr e) {
      for_each_symbol(e, [&](Expr s) {
        if (!found && is_coordinate(s) && !axis_of(g_.mesh, s))
          found = wrong(Kind::index, "{} is along no axis of the program's mesh", to_string(s));
      });
    };
    for_each_operand(op_.kernel, [&](const TensorRef& ref, bool) {
      for (const Expr& e : ref.sizes) equal_on_all_ranks(e, "size");
      for (const Expr& e : ref.strides) equal_on_all_ranks(e, "stride");
      if (op_.as<CollectiveKernel>() != nullptr && has_memory(g_, ref.buffer))
        equal_on_all_ranks(region(g_, ref).offset, "the offset in bytes of an operand of a collective,");
      known_axes(ref.offset);
    });
    for_each_body(op_.kernel, [&](const LoopBody& body, const std::vector<Expr>&) {
      for (const Instr& instr : body.instrs) known_axes(instr.index);
    });
    if (const auto* loops = op_.as<Loops>()) {
      for (const Expr& e : loops->sizes) equal_on_all_ranks(e, "size");
      known_axes(loops->store_index);
    }
    if (const auto* region = op_.as<RegionKernel>()) equal_on_all_ranks(region->trips, "number of runs");
    return found;
  }

  Result check_body(const LoopBody& body, const BodyContext& context, DType wanted) {
    if (!body.result.valid() || static_cast<std::size_t>(body.result.index) >= body.instrs.size()) {
      return wrong(Kind::structure, "the body has no result");
    }
    for (std::size_t k = 0; k < body.instrs.size(); ++k) {
      if (Result r = check_instr(g_, body, k, context)) {
        r->message = fmt::format("%{}: {}", k, r->message);
        return r;
      }
    }
    if (body.result_dtype() != wanted) {
      return wrong(Kind::type, "the result has type {}, but the output has type {}",
                   to_string(body.result_dtype()), to_string(wanted));
    }
    return std::nullopt;
  }

  Result check_ref(const TensorRef& r) {
    if (!is_buffer(g_, r.buffer)) return wrong(Kind::structure, "an operand is not a buffer");
    if (r.sizes.size() != r.strides.size())
      return wrong(Kind::shape, "an operand has {} sizes and {} strides", r.sizes.size(), r.strides.size());
    return std::nullopt;
  }

  // That the operation has one output, which the kernel names.
  Result check_output(std::string_view kernel, const TensorRef& out) {
    if (op_.outputs.size() == 1 && op_.outputs[0] == out.buffer) return std::nullopt;
    return wrong(Kind::operands, "{} must have one output", kernel);
  }

  Result check_arithmetic(std::string_view kernel, std::initializer_list<DType> types) {
    for (const DType type : types) {
      if (type == DType::boolean) return wrong(Kind::type, "{} does not support bool", kernel);
      if (is_storage(type)) return no_arithmetic(kernel, type);
    }
    return std::nullopt;
  }

  Result check(const Loops& k) {
    if (op_.outputs.size() != 1)
      return wrong(Kind::operands, "a loop must have one output, got {}", op_.outputs.size());
    if (k.reduced < 0 || static_cast<std::size_t>(k.reduced) > k.sizes.size()) {
      return wrong(Kind::structure, "the loop reduces {} of {} indices", k.reduced, k.sizes.size());
    }
    const Buffer& out = g_[op_.outputs[0]];
    if (!has_memory(g_, op_.outputs[0])) return wrong(Kind::type, "the output of a loop must have memory");
    if (k.reduced > 0 && k.reduce == ReduceKind::avg)
      return wrong(Kind::structure, "a loop cannot reduce with avg");
    if (k.reduced > 0 && out.dtype == DType::boolean && k.reduce != ReduceKind::min &&
        k.reduce != ReduceKind::max) {
      return wrong(Kind::type, "bool can only be reduced with min and max");
    }
    if (k.reduced > 0 && is_storage(out.dtype)) return no_arithmetic("a reduction", out.dtype);
    if (Result r = check_body(k.body, {k.sizes.size(), std::nullopt}, out.dtype)) return r;
    // A store whose address depends on data is allowed (scatter), but not on reduced indices.
    return check_index_expr(k.body, k.store_index, k.body.instrs.size(), {k.kept(), std::nullopt});
  }

  Result check(const Gemm& k) {
    if (Result r = check_output("a gemm", k.out)) return r;
    for (const TensorRef* r : {&k.a, &k.b, &k.out}) {
      if (r->sizes.size() < 2 || r->sizes.size() != k.out.sizes.size()) {
        return wrong(Kind::shape, "operands of a gemm must have equal ranks of at least 2");
      }
    }
    const DType a = g_[k.a.buffer].dtype, b = g_[k.b.buffer].dtype;
    if (Result r = check_arithmetic("a gemm", {a, b})) return r;
    const bool weights = a == DType::f32 && (b == DType::i8 || b == DType::u8);
    if (a != b && !(is_integer(a) && is_integer(b)) && !weights)
      return wrong(Kind::type, "a gemm does not support {} with {}", to_string(a), to_string(b));
    const std::size_t rank = k.out.sizes.size();
    for (std::size_t d = 0; d < rank; ++d) {
      const bool is_m = d == rank - 2, is_n = d == rank - 1;
      if (!is_n && provably_different(k.a.sizes[d], k.out.sizes[d]))
        return wrong(Kind::shape, "sizes of a and out differ in dimension {}", d);
      if (!is_m && provably_different(k.b.sizes[d], k.out.sizes[d]))
        return wrong(Kind::shape, "sizes of b and out differ in dimension {}", d);
    }
    if (provably_different(k.a.sizes[rank - 1], k.b.sizes[rank - 2])) {
      return wrong(Kind::shape, "a has {} columns, but b has {} rows", to_string(k.a.sizes[rank - 1]),
                   to_string(k.b.sizes[rank - 2]));
    }
    return check_epilogue(k);
  }

  Result check_tf32(const std::string& kernel, DType a, DType b) {
    if (a == DType::f32 && b == DType::f32) return std::nullopt;
    return wrong(Kind::type, "{} in tf32 must have operands of f32, got {} and {}", kernel, to_string(a),
                 to_string(b));
  }

  Result check_epilogue(const Product& k) {
    const DType a = g_[k.a.buffer].dtype, out = g_[k.out.buffer].dtype;
    if (k.tf32) {
      if (Result r = check_tf32(fmt::format("a {}", kind_name(op_.kernel)), a, g_[k.b.buffer].dtype))
        return r;
    }
    if (k.epilogue) {
      if (Result r = check_body(*k.epilogue, {k.out.sizes.size(), accumulator_of(a)}, out)) return r;
      if (!begins_with(g_, k, k.post_ops))
        return wrong(Kind::structure, "the steps behind 'as' are not those of the epilogue");
      return std::nullopt;
    }
    if (!k.post_ops.empty())
      return wrong(Kind::structure, "steps of an epilogue are given without the epilogue");
    if (is_float(a) != is_float(out))
      return wrong(Kind::type, "a {} of {} cannot write {}", kind_name(op_.kernel), to_string(a),
                   to_string(out));
    return std::nullopt;
  }

  // Operands of one rank, a batch dimension, one dimension per window and the channels.
  Result check_windows(const std::vector<Window>& windows, const TensorRef& x, const TensorRef& out) {
    const std::size_t rank = windows.size() + 2;
    const std::string_view name = kind_name(op_.kernel);
    if (windows.empty()) return wrong(Kind::structure, "a {} needs a window", name);
    if (x.sizes.size() != rank || out.sizes.size() != rank)
      return wrong(Kind::shape, "operands of a {} with {} windows must have rank {}", name, windows.size(),
                   rank);
    if (provably_different(x.sizes[0], out.sizes[0]))
      return wrong(Kind::shape, "the batches of operand and result differ");
    for (std::size_t d = 0; d < windows.size(); ++d) {
      const Window& w = windows[d];
      constexpr std::int64_t kMost = std::int64_t{1} << 31;
      if (w.taps < 1 || w.stride < 1 || w.dilation < 1 || w.taps > kMost || w.stride > kMost ||
          w.dilation > kMost)
        return wrong(Kind::structure, "window {} has sizes that are not positive or too large", d);
      if (!of_dimensions(w.pad))
        return wrong(Kind::index, "the pad of window {} depends on more than dimensions", d);
    }
    return std::nullopt;
  }

  Result check(const Convolution& k) {
    if (Result r = check_output("a convolution", k.out)) return r;
    if (Result r = check_windows(k.windows, k.a, k.out)) return r;
    const std::size_t spatial = k.windows.size(), channel = spatial + 1;
    const DType a = g_[k.a.buffer].dtype, b = g_[k.b.buffer].dtype;
    if (Result r = check_arithmetic("a convolution", {a, b})) return r;
    if (a != b && !(is_integer(a) && is_integer(b)))
      return wrong(Kind::type, "a convolution does not support {} with {}", to_string(a), to_string(b));
    if (k.b.sizes.size() != spatial + 3)
      return wrong(Kind::shape, "the weights of a convolution with {} windows must have rank {}", spatial,
                   spatial + 3);
    for (std::size_t d = 0; d < spatial; ++d) {
      if (!k.b.sizes[d + 1].is_constant(k.windows[d].taps))
        return wrong(Kind::shape, "window {} has {} taps, but the weights have {}", d, k.windows[d].taps,
                     to_string(k.b.sizes[d + 1]));
    }
    if (!k.b.sizes[0].is_constant() || k.b.sizes[0].is_constant(0))
      return wrong(Kind::shape, "the number of groups must be known and positive");
    if (provably_different(k.a.sizes[channel], k.b.sizes[0] * k.b.sizes[spatial + 1]))
      return wrong(Kind::shape, "a has {} channels, but the weights read {} groups of {}",
                   to_string(k.a.sizes[channel]), to_string(k.b.sizes[0]), to_string(k.b.sizes[spatial + 1]));
    if (provably_different(k.out.sizes[channel], k.b.sizes[0] * k.b.sizes[spatial + 2]))
      return wrong(Kind::shape, "the result has {} channels, but the weights write {} groups of {}",
                   to_string(k.out.sizes[channel]), to_string(k.b.sizes[0]),
                   to_string(k.b.sizes[spatial + 2]));
    return check_epilogue(k);
  }

  Result check(const Pooling& k) {
    if (Result r = check_output("a pool", k.out)) return r;
    if (Result r = check_windows(k.windows, k.x, k.out)) return r;
    const DType x = g_[k.x.buffer].dtype, out = g_[k.out.buffer].dtype;
    if (Result r = check_arithmetic("a pool", {x})) return r;
    const DType wanted = k.kind == PoolKind::arg_max ? DType::i64 : x;
    if (out != wanted)
      return wrong(Kind::type, "a pool '{}' of {} yields {}, not {}", to_string(k.kind), to_string(x),
                   to_string(wanted), to_string(out));
    if (provably_different(k.x.sizes.back(), k.out.sizes.back()))
      return wrong(Kind::shape, "the channels of operand and result differ");
    return std::nullopt;
  }

  Result check_sizes(const TensorRef& r, std::string_view what, std::initializer_list<Expr> sizes) {
    bool fits = r.sizes.size() == sizes.size();
    std::size_t d = 0;
    for (const Expr& size : sizes) fits = fits && !provably_different(r.sizes[d++], size);
    if (fits) return std::nullopt;
    std::vector<std::string> wanted;
    for (const Expr& size : sizes) wanted.push_back(to_string(size));
    return wrong(Kind::shape, "{} must have sizes [{}]", what, fmt::join(wanted, ", "));
  }

  Result check(const Recurrence& k) {
    const bool lstm = k.cell == CellKind::lstm;
    const std::string_view cell = to_string(k.cell);
    if (k.results.size() != (lstm ? 4u : 3u) || k.results.size() != op_.outputs.size())
      return wrong(Kind::operands, "{} has {} results", cell, op_.outputs.size());
    for (std::size_t i = 0; i < k.results.size(); ++i) {
      if (k.results[i].buffer != op_.outputs[i])
        return wrong(Kind::structure, "result {} is not the operation's", i);
    }
    if (Result bad = check_recurrence_sizes(k)) return bad;
    if ((k.initial_c || k.peepholes || k.coupled) && !lstm)
      return wrong(Kind::structure, "only lstm has a cell state, peepholes and coupled gates");
    if (k.linear_before_reset && k.cell != CellKind::gru)
      return wrong(Kind::structure, "only gru has a reset gate");
    if (Result bad = check_recurrence_types(k)) return bad;
    const DType type = g_[k.gates.buffer].dtype;
    if (!(k.clip >= 0)) return wrong(Kind::structure, "the limit of a clip must not be negative");
    const std::size_t functions = lstm ? 3 : k.cell == CellKind::gru ? 2 : 1;
    if (k.activations.size() != functions)
      return wrong(Kind::operands, "{} has {} activations, got {}", cell, functions, k.activations.size());
    for (const LoopBody& body : k.activations) {
      if (Result r = check_body(body, {0, accumulator_of(type)}, accumulator_of(type))) return r;
      for (const Instr& i : body.instrs) {
        if (i.code == OpCode::load || i.code == OpCode::index || i.code == OpCode::check_index)
          return wrong(Kind::structure, "an activation depends only on its operand");
      }
    }
    return std::nullopt;
  }

  Result check_recurrence_sizes(const Recurrence& k) {
    const bool lstm = k.cell == CellKind::lstm;
    const std::string_view cell = to_string(k.cell);
    if (k.gates.sizes.size() != 3 || k.weights.sizes.size() != 2)
      return wrong(Kind::shape, "the gates of {} must have rank 3 and its weights rank 2", cell);
    const std::int64_t count = lstm ? 4 : k.cell == CellKind::gru ? 3 : 1;
    const Expr steps = k.gates.sizes[0], batch = k.gates.sizes[1], hidden = k.weights.sizes[0];
    const Expr columns = hidden * count;
    if (Result r = check_sizes(k.gates, "the gates", {steps, batch, columns})) return r;
    if (Result r = check_sizes(k.weights, "the weights", {hidden, columns})) return r;
    if (Result r = check_sizes(k.initial_h, "the initial h", {batch, hidden})) return r;
    if (Result r = check_sizes(k.results[0], "the result", {steps, batch, hidden})) return r;
    if (Result r = check_sizes(k.results[1], "the last h", {batch, hidden})) return r;
    if (lstm) {
      if (Result r = check_sizes(k.results[2], "the last c", {batch, hidden})) return r;
    }
    if (Result r = check_sizes(k.results.back(), "the working memory", {batch, columns})) return r;
    if (k.bias) {
      if (Result r = check_sizes(*k.bias, "the bias", {columns})) return r;
    }
    if (k.initial_c) {
      if (Result r = check_sizes(*k.initial_c, "the initial c", {batch, hidden})) return r;
    }
    if (k.peepholes) {
      if (Result r = check_sizes(*k.peepholes, "the peepholes", {3, hidden})) return r;
    }
    if (k.lengths) {
      if (Result r = check_sizes(*k.lengths, "the lengths", {batch})) return r;
      if (g_[k.lengths->buffer].dtype != DType::i32) return wrong(Kind::type, "the lengths must be i32");
    }
    return std::nullopt;
  }

  Result check_recurrence_types(const Recurrence& k) {
    const std::string_view cell = to_string(k.cell);
    const DType type = g_[k.gates.buffer].dtype;
    if (!is_float(type)) return wrong(Kind::type, "{} does not support {}", cell, to_string(type));
    Result bad;
    for_each_operand(op_.kernel, [&](const TensorRef& r, bool written) {
      if (bad || (k.lengths && r.buffer == k.lengths->buffer)) return;
      const bool work = written && r.buffer == k.results.back().buffer;
      const DType wanted = work ? accumulator_of(type) : type;
      if (g_[r.buffer].dtype != wanted)
        bad = wrong(Kind::type, "'{}' is {}, expected {}", g_[r.buffer].name, to_string(g_[r.buffer].dtype),
                    to_string(wanted));
    });
    if (bad) return bad;
    for_each_operand(op_.kernel, [&](const TensorRef& r, bool) {
      if (!bad && &r != &k.weights && !is_contiguous(r.sizes, r.strides))
        bad = wrong(Kind::shape, "operands of {} other than the weights must be row-major", cell);
    });
    return bad;
  }

  Result check(const Attention& k) {
    if (Result r = check_output("an attention", k.out)) return r;
    for (const TensorRef* r : {&k.query, &k.key, &k.value, &k.out}) {
      if (r->sizes.size() != 4)
        return wrong(Kind::shape, "query, key, value and result of an attention must have rank 4");
    }
    const std::vector<Expr>&q = k.query.sizes, &key = k.key.sizes;
    if (Result r = check_sizes(k.key, "the key", {q[0], key[1], key[2], q[3]})) return r;
    if (Result r = check_sizes(k.value, "the value", {q[0], key[1], key[2], k.value.sizes[3]})) return r;
    if (Result r = check_sizes(k.out, "the result", {q[0], q[1], q[2], k.value.sizes[3]})) return r;
    const bool known = q[1].is_constant() && key[1].is_constant();
    if (!(q[1] == key[1]) && (!known || key[1].constant() == 0 || q[1].constant() == 0 ||
                              q[1].constant() % key[1].constant() != 0)) {
      return wrong(Kind::shape, "{} heads of the key do not divide {} of the query", to_string(key[1]),
                   to_string(q[1]));
    }
    const DType type = g_[k.query.buffer].dtype;
    if (!is_float(type)) return wrong(Kind::type, "an attention does not support {}", to_string(type));
    if (k.tf32) {
      if (Result r = check_tf32("an attention", type, type)) return r;
    }
    for (const TensorRef* r : {&k.key, &k.value, &k.out}) {
      if (g_[r->buffer].dtype != type)
        return wrong(Kind::type, "'{}' is {}, expected {}", g_[r->buffer].name,
                     to_string(g_[r->buffer].dtype), to_string(type));
    }
    if (k.mask) {
      if (Result r = check_sizes(*k.mask, "the mask", {q[0], q[1], q[2], key[2]})) return r;
      const DType mask = g_[k.mask->buffer].dtype;
      if (mask != DType::boolean && !is_float(mask))
        return wrong(Kind::type, "a mask must be bool or of a floating-point type, not {}", to_string(mask));
    }
    for (const auto& [row, what] :
         {std::pair{&k.valid_keys, "the numbers of valid keys"}, std::pair{&k.positions, "the positions"}}) {
      if (!*row) continue;
      if (Result r = check_sizes(**row, what, {q[0]})) return r;
      const DType of = g_[(*row)->buffer].dtype;
      if (of != DType::i32 && of != DType::i64)
        return wrong(Kind::type, "{} must be i32 or i64, not {}", what, to_string(of));
    }
    if (!std::isfinite(k.scale)) return wrong(Kind::structure, "the scale of an attention must be finite");
    if (!std::isfinite(k.softcap) || k.softcap < 0)
      return wrong(Kind::structure, "the softcap of an attention must be finite and not negative");
    if (std::isnan(k.fill)) return wrong(Kind::structure, "the fill of an attention must be a number");
    const bool boolean_mask = k.mask && g_[k.mask->buffer].dtype == DType::boolean;
    if ((k.adds_fill || k.fill != Attention().fill) && !boolean_mask)
      return wrong(Kind::structure, "only an attention with a bool mask has a fill");
    if (!k.before && !k.after && (k.positions || !k.first_position.is_constant(0)))
      return wrong(Kind::structure, "an attention has positions, but no limits before or after them");
    for (const Expr& e : {k.first_position, k.before.value_or(0), k.after.value_or(0)})
      if (!of_dimensions(e))
        return wrong(Kind::index, "a position of an attention depends on more than dimensions");
    return std::nullopt;
  }

  Result check(const ExternKernel&) { return std::nullopt; }

  Result check(const Measure& k) {
    if (!k.dim.is_symbol(SymbolKind::dim) || is_coordinate(k.dim))
      return wrong(Kind::structure, "measures '{}', which is no dimension", to_string(k.dim));
    if (!op_.outputs.empty()) return wrong(Kind::operands, "a measure has no results");
    if (g_[k.value.buffer].dtype != DType::i64 || !k.value.sizes.empty())
      return wrong(Kind::type, "the value of a measured dimension must be an i64 scalar");
    for (const GraphInput& input : g_.inputs) {
      for (const Expr& size : g_[input.buffer].sizes) {
        if (size == k.dim || (!size.is_constant() && contains(size, k.dim)))
          return wrong(Kind::structure, "measures '{}', which is a size of the input '{}'", to_string(k.dim),
                       input.name);
      }
    }
    for (const OpId other : g_.measures) {
      if (&g_[other] != &op_ && g_[other].as<Measure>()->dim == k.dim)
        return wrong(Kind::structure, "measures '{}' a second time", to_string(k.dim));
    }
    return std::nullopt;
  }

  // Checks the numbers of input and output elements of a collective.
  Result check(const CollectiveKernel& k) {
    if (!k.group.valid() || static_cast<std::size_t>(k.group.index) >= g_.groups.size()) {
      return wrong(Kind::structure, "the collective has no group");
    }
    const auto members = static_cast<std::int64_t>(g_[k.group].size());
    const std::string_view name = to_string(k.kind);
    const CollectiveRow& r = row_of(k.kind);
    if ((r.out == Blocks::none) != k.outputs.empty())
      return wrong(Kind::operands, "{} has {} outputs", name, k.outputs.size());
    if ((r.in == Blocks::none) != k.inputs.empty())
      return wrong(Kind::operands, "{} has {} inputs", name, k.inputs.size());
    if (!r.point_to_point && k.inputs.size() != k.outputs.size()) {
      return wrong(Kind::operands, "{} has {} inputs and {} outputs", name, k.inputs.size(),
                   k.outputs.size());
    }
    if (r.rooted && (k.root < 0 || k.root >= members))
      return wrong(Kind::structure, "{} names rank {} in a group of {}", name, k.root, members);
    if (!has_algorithm(k.kind, k.algorithm))
      return wrong(Kind::structure, "{} has no algorithm '{}'", name, to_string(k.algorithm));
    for (std::size_t i = 0; i < k.outputs.size() && i < k.inputs.size(); ++i) {
      const DType in = g_[k.inputs[i].buffer].dtype, out = g_[k.outputs[i].buffer].dtype;
      if (in != out)
        return wrong(Kind::type, "{} cannot convert {} to {}", name, to_string(in), to_string(out));
      if (r.reduces && is_storage(in)) return no_arithmetic(name, in);
      Expr from = numel(k.inputs[i].sizes), to = numel(k.outputs[i].sizes);
      if (r.out > r.in) from = from * members;
      if (r.in > r.out) to = to * members;
      if (provably_different(from, to)) {
        return wrong(Kind::shape, "{} of {} elements cannot give {} elements over {} ranks", name,
                     to_string(numel(k.inputs[i].sizes)), to_string(numel(k.outputs[i].sizes)), members);
      }
    }
    for (const std::vector<TensorRef>* refs : {&k.inputs, &k.outputs}) {
      for (const TensorRef& r : *refs) {
        if (!is_contiguous(r.sizes, r.strides))
          return wrong(Kind::shape, "operands of a collective must be contiguous");
      }
    }
    return std::nullopt;
  }

  Result check_start(OpId start) {
    if (!start.valid() || static_cast<std::size_t>(start.index) >= g_.ops.size() ||
        !g_[start].as<CollectiveKernel>()) {
      return wrong(Kind::structure, "does not belong to a collective");
    }
    return std::nullopt;
  }

  Result check(const WaitKernel& k) {
    if (Result r = check_start(k.start)) return r;
    const auto& start = *g_[k.start].as<CollectiveKernel>();
    if (start.blocking) return wrong(Kind::structure, "a blocking collective has no wait");
    if (op_.outputs.size() != start.outputs.size()) {
      return wrong(Kind::operands, "a wait has {} results, but its collective has {}", op_.outputs.size(),
                   start.outputs.size());
    }
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const auto* m = std::get_if<MutationOutput>(&g_[op_.outputs[i]].layout);
      if (!m || m->of != start.outputs[i].buffer) {
        return wrong(Kind::structure, "result {} of a wait must be a mutation of '{}'", i,
                     g_[start.outputs[i].buffer].name);
      }
    }
    return std::nullopt;
  }

  Result check(const ReleaseKernel& k) {
    if (Result r = check_start(k.start)) return r;
    if (!op_.outputs.empty()) return wrong(Kind::operands, "a release has no results");
    if (g_[k.start].as<CollectiveKernel>()->blocking)
      return wrong(Kind::structure, "a blocking collective has no release");
    return std::nullopt;
  }

  Result check(const RegionKernel& k) {
    for (BufferId b : k.operands) {
      if (!is_buffer(g_, b)) return wrong(Kind::structure, "an operand is not a buffer");
    }
    const std::size_t regions = k.kind == RegionKind::branch ? 2 : 1;
    if (k.regions.size() != regions)
      return wrong(Kind::operands, "{} has {} regions", to_string(k.kind), k.regions.size());
    if (depends_on_data(k.kind)) {
      if (k.operands.empty() || g_[k.operands[0]].dtype != DType::boolean ||
          !g_[k.operands[0]].sizes.empty()) {
        return wrong(Kind::type, "the first operand of a {} must be a bool scalar", to_string(k.kind));
      }
    }
    if (k.kind == RegionKind::while_true) {
      const auto* first =
          op_.outputs.empty() ? nullptr : std::get_if<MutationOutput>(&g_[op_.outputs[0]].layout);
      if (first == nullptr || first->of != k.operands[0])
        return wrong(Kind::structure,
                     "the first result of a while must mutate its first operand, the condition");
    }
    for (const Region& r : k.regions) {
      if (r.yields.size() != op_.outputs.size()) {
        return wrong(Kind::operands, "a region yields {} values for {} results", r.yields.size(),
                     op_.outputs.size());
      }
      for (std::size_t i = 0; i < r.yields.size(); ++i) {
        if (!is_buffer(g_, r.yields[i]))
          return wrong(Kind::structure, "a region yields something that is not a buffer");
        const Buffer &from = g_[r.yields[i]], &to = g_[op_.outputs[i]];
        if (from.dtype != to.dtype)
          return wrong(Kind::type, "a region yields {} for {}", to_string(from.dtype), to_string(to.dtype));
        if (from.sizes.size() != to.sizes.size())
          return wrong(Kind::shape, "a region yields a tensor whose rank differs from the result's");
        for (std::size_t d = 0; d < from.sizes.size(); ++d) {
          if (provably_different(from.sizes[d], to.sizes[d]))
            return wrong(Kind::shape, "a region yields a tensor whose sizes differ from the result's");
        }
      }
    }
    return std::nullopt;
  }

  const Graph& g_;
  OpId id_;
  const Operation& op_;
};

}  // namespace

std::optional<TypeError> check_operation(const Graph& graph, OpId op) {
  return OperationCheck(graph, op).run();
}

}  // namespace braid::ir
