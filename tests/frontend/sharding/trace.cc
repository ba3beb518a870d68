#include "tests/frontend/sharding/trace.h"

#include <functional>
#include <optional>
#include <unordered_map>

#include "ir/element.h"
#include "ir/scalar.h"

namespace braid::frontend::sharding {
namespace {

using ir::BufferId;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::Scalar;

std::vector<std::int64_t> numbers(const std::vector<Expr>& sizes) {
  std::vector<std::int64_t> result;
  for (const Expr& s : sizes) result.push_back(s.constant());
  return result;
}

void for_each_point(const std::vector<std::int64_t>& sizes, std::vector<std::int64_t>& at, std::size_t first,
                    const std::function<void()>& fn) {
  if (first == at.size() || first == sizes.size()) return fn();
  for (at[first] = 0; at[first] < sizes[first]; ++at[first]) for_each_point(sizes, at, first + 1, fn);
}

struct Opaque {
  std::string what;
};

class Tracer {
 public:
  explicit Tracer(const ir::Graph& graph) : graph_(graph) {}

  TraceResult run(const std::map<std::string, std::vector<Marks>>& inputs) {
    TraceResult result;
    for (const ir::GraphInput& input : graph_.inputs) {
      const auto given = inputs.find(input.name);
      const ir::Buffer& buffer = graph_[input.buffer];
      const std::vector<std::int64_t> sizes = numbers(buffer.sizes);
      const View view = view_of(ir::whole(graph_, input.buffer));
      std::vector<std::int64_t> at(sizes.size());
      std::size_t k = 0;
      for_each_point(sizes, at, 0,
                     [&] { mark(view, at, given == inputs.end() ? 0 : given->second.at(k++)); });
    }
    try {
      for (const ir::Operation& op : graph_.ops) step(op);
    } catch (const Opaque& opaque) {
      result.opaque = opaque.what;
      return result;
    }
    for (const ir::GraphOutput& output : graph_.outputs) {
      const std::vector<std::int64_t> sizes = numbers(graph_[output.buffer].sizes);
      const View view = view_of(ir::whole(graph_, output.buffer));
      std::vector<std::int64_t> at(sizes.size());
      for_each_point(sizes, at, 0, [&] { result.outputs[output.name].push_back(marks(view, at)); });
    }
    return result;
  }

 private:
  // Elements of a storage, in bytes.
  struct View {
    int storage = 0;
    std::int64_t offset = 0, size = 1;
    std::vector<std::int64_t> sizes, strides;
    DType dtype = DType::f32;
  };

  View view_of(const ir::TensorRef& ref) const {
    const ir::MemoryRegion region = ir::region(graph_, ref);
    View v{region.storage.index,
           region.offset.constant(),
           ir::size_of(graph_[ref.buffer].dtype),
           numbers(ref.sizes),
           {},
           graph_[ref.buffer].dtype};
    for (const Expr& s : ref.strides) v.strides.push_back(s.constant() * v.size);
    return v;
  }
  static std::int64_t place(const View& v, const std::vector<std::int64_t>& at) {
    std::int64_t offset = v.offset;
    for (std::size_t d = 0; d < v.strides.size(); ++d) offset += at[d] * v.strides[d];
    return offset;
  }
  Marks at_byte(int storage, std::int64_t byte) const {
    const auto of = marks_.find(storage);
    if (of == marks_.end()) return 0;
    const auto found = of->second.find(byte);
    return found == of->second.end() ? 0 : found->second;
  }
  Marks marks(const View& v, const std::vector<std::int64_t>& at) const {
    return at_byte(v.storage, place(v, at));
  }
  void mark(const View& v, const std::vector<std::int64_t>& at, Marks m) {
    marks_[v.storage][place(v, at)] = m;
  }

  struct Value {
    std::optional<Scalar> known;
    Marks marks = 0;
    std::int64_t limit = 0;  // of an index that was checked: it is less; 0: nothing is known
  };

  // Values of the symbols of an index; those that depend on data are in `unknown`.
  std::optional<std::int64_t> index(const Expr& e, const std::vector<std::int64_t>& at,
                                    const std::vector<Value>& values,
                                    const std::map<int, std::int64_t>& guessed) const {
    bool clear = true;
    ir::for_each_symbol(e, [&](Expr symbol) {
      if (symbol.is_symbol(ir::SymbolKind::value))
        clear &= values[static_cast<std::size_t>(symbol.symbol_number())].known ||
                 guessed.count(symbol.symbol_number()) > 0;
    });
    if (!clear) return std::nullopt;
    return ir::evaluate(e, [&](Expr symbol) -> std::int64_t {
      const auto k = static_cast<std::size_t>(symbol.symbol_number());
      if (symbol.is_symbol(ir::SymbolKind::index)) return at[k];
      return values[k].known ? values[k].known->i : guessed.at(symbol.symbol_number());
    });
  }

  Value load(const ir::Instr& instr, const std::vector<std::int64_t>& at, const std::vector<Value>& values) {
    const View v = view_of(ir::whole(graph_, instr.buffer));
    std::vector<int> unknown;
    std::vector<std::int64_t> limits;
    Value result;
    ir::for_each_symbol(instr.index, [&](Expr symbol) {
      if (!symbol.is_symbol(ir::SymbolKind::value)) return;
      const Value& value = values[static_cast<std::size_t>(symbol.symbol_number())];
      result.marks |= value.marks;
      if (value.known) return;
      if (value.limit == 0) throw Opaque{"a load at an index that depends on data"};
      unknown.push_back(symbol.symbol_number());
      limits.push_back(value.limit);
    });
    std::vector<std::int64_t> guess(unknown.size());
    for_each_point(limits, guess, 0, [&] {
      std::map<int, std::int64_t> guessed;
      for (std::size_t k = 0; k < unknown.size(); ++k) guessed[unknown[k]] = guess[k];
      const std::int64_t element = *index(instr.index, at, values, guessed);
      if (element < 0) return;
      const std::int64_t byte = v.offset + element * v.size;
      result.marks |= at_byte(v.storage, byte);
      if (unknown.empty()) result.known = constant_at(v, byte);
    });
    return result;
  }

  std::optional<Scalar> constant_at(const View& v, std::int64_t byte) const {
    const ir::Storage& storage = graph_.storages[static_cast<std::size_t>(v.storage)];
    if (storage.kind != ir::StorageKind::constant || storage.data.per_rank.empty()) return std::nullopt;
    const std::span<const std::byte> bytes = storage.data.of_rank(0);
    if (byte < 0 || byte + v.size > static_cast<std::int64_t>(bytes.size())) return std::nullopt;
    return ir::to_scalar(ir::read_element(v.dtype, bytes.data() + byte));
  }

  Value body(const ir::LoopBody& b, const std::vector<std::int64_t>& at, Marks acc = 0) {
    std::vector<Value> values;
    for (const ir::Instr& instr : b.instrs) {
      std::vector<const Value*> operands;
      Marks all = 0;
      bool known = true;
      for (const ir::ValueId v : instr.operands) {
        operands.push_back(&values[static_cast<std::size_t>(v.index)]);
        all |= operands.back()->marks;
        known &= operands.back()->known.has_value();
      }
      const auto is = [&](std::size_t k, std::int64_t truth) {
        return operands[k]->known && (operands[k]->known->i != 0) == (truth != 0);
      };
      Value value{std::nullopt, all, 0};
      switch (instr.code) {
        case OpCode::constant:
          value.known = ir::to_scalar(instr.literal);
          break;
        case OpCode::acc:
          value.marks = acc;
          break;
        case OpCode::index:
          if (const auto i = index(instr.index, at, values, {})) value.known = Scalar{0, *i};
          ir::for_each_symbol(instr.index, [&](Expr symbol) {
            if (symbol.is_symbol(ir::SymbolKind::value))
              value.marks |= values[static_cast<std::size_t>(symbol.symbol_number())].marks;
          });
          if (value.known && ir::is_float(instr.dtype))
            value.known = ir::cast(DType::i64, instr.dtype, *value.known);
          break;
        case OpCode::load:
          if (!operands.empty() && is(0, 0)) {
            value.known = Scalar{};
            value.marks = 0;
          } else {
            value = load(instr, at, values);
            value.marks |= all;
          }
          break;
        case OpCode::check_index:
          value.known = operands[0]->known;
          value.limit = instr.index.is_constant() ? instr.index.constant() : 0;
          break;
        case OpCode::cast:
          value.limit = operands[0]->limit;
          if (known) value.known = ir::cast(b[instr.operands[0]].dtype, instr.dtype, *operands[0]->known);
          break;
        case OpCode::bitcast:
          break;
        case OpCode::where:
          if (operands[0]->known) value = *operands[operands[0]->known->i != 0 ? 1 : 2];
          break;
        case OpCode::logical_and:
          if (is(0, 0) || is(1, 0)) {
            value = {Scalar{}, 0, 0};
            break;
          }
          [[fallthrough]];
        default:
          if (known) {
            const auto operand = [&](std::size_t k) {
              return k < operands.size() ? *operands[k]->known : Scalar{};
            };
            value.known = ir::apply(instr.code, b.operand_dtype(instr), operand(0), operand(1), operand(2));
          }
      }
      values.push_back(value);
    }
    return values[static_cast<std::size_t>(b.result.index)];
  }

  void step(const ir::Operation& op) {
    if (const auto* loops = op.as<ir::Loops>()) return step(op, *loops);
    if (const auto* gemm = op.as<ir::Gemm>()) return step(*gemm);
    if (const auto* convolution = op.as<ir::Convolution>()) return step(*convolution);
    if (const auto* pooling = op.as<ir::Pooling>()) return step(*pooling);
    if (const auto* attention = op.as<ir::Attention>()) return step(*attention);
    const auto* external = op.as<ir::ExternKernel>();
    if (external != nullptr && external->callee == "top_k") return step(*external);
    throw Opaque{external != nullptr ? external->callee : op.name};
  }

  void step(const ir::Operation& op, const ir::Loops& loops) {
    const std::vector<std::int64_t> sizes = numbers(loops.sizes);
    const View out = view_of(ir::whole(graph_, op.outputs[0]));
    std::vector<std::int64_t> at(sizes.size());
    const std::vector<std::int64_t> kept(sizes.begin(),
                                         sizes.begin() + static_cast<std::ptrdiff_t>(loops.kept()));
    std::vector<std::int64_t> outer(kept.size());
    for_each_point(kept, outer, 0, [&] {
      std::copy(outer.begin(), outer.end(), at.begin());
      Marks all = 0;
      for_each_point(sizes, at, kept.size(), [&] { all |= body(loops.body, at).marks; });
      marks_[out.storage][out.offset + *index(loops.store_index, at, {}, {}) * out.size] = all;
    });
  }

  void finish(const ir::Product& product, const View& out, const std::vector<std::int64_t>& at, Marks sum) {
    mark(out, at, product.epilogue ? body(*product.epilogue, at, sum).marks : sum);
  }

  void step(const ir::Gemm& gemm) {
    const View a = view_of(gemm.a), b = view_of(gemm.b), out = view_of(gemm.out);
    const std::size_t n = out.sizes.size() - 1;
    std::vector<std::int64_t> at(out.sizes.size());
    for_each_point(out.sizes, at, 0, [&] {
      Marks sum = 0;
      for (std::int64_t k = 0; k < a.sizes[n]; ++k) {
        std::vector<std::int64_t> of_a = at, of_b = at;
        of_a[n] = of_b[n - 1] = k;
        sum |= marks(a, of_a) | marks(b, of_b);
      }
      finish(gemm, out, at, sum);
    });
  }

  // Calls fn(taps, place in x) for each tap that reads inside.
  static void taps(
      const std::vector<ir::Window>& windows, bool transposed, const View& x,
      const std::vector<std::int64_t>& position,
      const std::function<void(const std::vector<std::int64_t>&, const std::vector<std::int64_t>&)>& fn) {
    std::vector<std::int64_t> sizes, tap(windows.size());
    for (const ir::Window& w : windows) sizes.push_back(w.taps);
    for_each_point(sizes, tap, 0, [&] {
      std::vector<std::int64_t> place(x.sizes.size());
      place[0] = position[0];
      for (std::size_t d = 0; d < windows.size(); ++d) {
        const ir::Window& w = windows[d];
        const std::int64_t pad = w.pad.constant();
        std::int64_t at = transposed ? position[d + 1] + pad - tap[d] * w.dilation
                                     : position[d + 1] * w.stride + tap[d] * w.dilation - pad;
        if (transposed && (at < 0 || at % w.stride != 0)) return;
        if (transposed) at /= w.stride;
        if (at < 0 || at >= x.sizes[d + 1]) return;
        place[d + 1] = at;
      }
      fn(tap, place);
    });
  }

  void step(const ir::Convolution& k) {
    const View a = view_of(k.a), b = view_of(k.b), out = view_of(k.out);
    const std::size_t spatial = k.windows.size(), channel = spatial + 1;
    const std::int64_t channels = b.sizes[spatial + 1], per_group = b.sizes[spatial + 2];
    std::vector<std::int64_t> at(out.sizes.size());
    for_each_point(out.sizes, at, 0, [&] {
      Marks sum = 0;
      const std::int64_t group = at[channel] / per_group;
      taps(k.windows, k.transposed, a, at,
           [&](const std::vector<std::int64_t>& tap, std::vector<std::int64_t> place) {
             std::vector<std::int64_t> weight = {group};
             weight.insert(weight.end(), tap.begin(), tap.end());
             weight.insert(weight.end(), {0, at[channel] % per_group});
             for (std::int64_t c = 0; c < channels; ++c) {
               place[channel] = group * channels + c;
               weight[spatial + 1] = c;
               sum |= marks(a, place) | marks(b, weight);
             }
           });
      finish(k, out, at, sum);
    });
  }

  void step(const ir::Pooling& k) {
    const View x = view_of(k.x), out = view_of(k.out);
    std::vector<std::int64_t> at(out.sizes.size());
    for_each_point(out.sizes, at, 0, [&] {
      Marks all = 0;
      taps(k.windows, false, x, at, [&](const std::vector<std::int64_t>&, std::vector<std::int64_t> place) {
        place.back() = at.back();
        all |= marks(x, place);
      });
      mark(out, at, all);
    });
  }

  void step(const ir::Attention& k) {
    const View query = view_of(k.query), key = view_of(k.key), value = view_of(k.value), out = view_of(k.out);
    std::vector<std::int64_t> at(4);
    for_each_point(out.sizes, at, 0, [&] {
      const std::int64_t head = at[1] * key.sizes[1] / query.sizes[1];
      Marks all = 0;
      for (std::int64_t i = 0; i < query.sizes[3]; ++i) all |= marks(query, {at[0], at[1], at[2], i});
      for (std::int64_t j = 0; j < key.sizes[2]; ++j) {
        for (std::int64_t i = 0; i < key.sizes[3]; ++i) all |= marks(key, {at[0], head, j, i});
        all |= marks(value, {at[0], head, j, at[3]});
        if (k.mask) all |= marks(view_of(*k.mask), {at[0], at[1], at[2], j});
      }
      for (const auto& one : {k.valid_keys, k.positions}) {
        if (one) all |= marks(view_of(*one), {at[0]});
      }
      mark(out, at, all);
    });
  }

  // Rows.
  void step(const ir::ExternKernel& top) {
    const View x = view_of(top.reads[0]);
    for (std::int64_t row = 0; row < x.sizes[0]; ++row) {
      Marks all = 0;
      for (std::int64_t j = 0; j < x.sizes[1]; ++j) all |= marks(x, {row, j});
      for (const ir::TensorRef& write : top.writes) {
        const View out = view_of(write);
        for (std::int64_t j = 0; j < out.sizes[1]; ++j) mark(out, {row, j}, all);
      }
    }
  }

  const ir::Graph& graph_;
  std::map<int, std::unordered_map<std::int64_t, Marks>> marks_;  // by storage and byte
};

}  // namespace

TraceResult trace(const ir::Graph& graph, const std::map<std::string, std::vector<Marks>>& inputs) {
  return Tracer(graph).run(inputs);
}

}  // namespace braid::frontend::sharding
