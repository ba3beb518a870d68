#include "analysis/costs/roofline.h"

#include <algorithm>
#include <set>

#include "ir/extern_registry.h"
#include "ir/kernel_parts.h"

namespace braid::analysis {
namespace {

using ir::Expr;
using ir::OpCode;

double bytes_of(const ir::Graph& graph, const ir::TensorRef& ref, const SizeOf& size) {
  double n = static_cast<double>(ir::size_of(graph[ref.buffer].dtype));
  for (std::size_t k = 0; k < ref.sizes.size(); ++k) {
    if (!ref.strides[k].is_constant(0)) n *= static_cast<double>(size(ref.sizes[k]));
  }
  return n;
}

double points_of(const ir::TensorRef& ref, const SizeOf& size) {
  double points = 1;
  for (const Expr& e : ref.sizes) points *= static_cast<double>(size(e));
  return points;
}

// The work of a body. Each load touches as many elements as the indices in its address have points, at most
// those of the buffer.
struct BodyWork {
  double flops = 0;  // per point
  double bytes = 0;
  bool gathers = false;
};
BodyWork body_work(const ir::Graph& graph, const ir::LoopBody& body, std::span<const Expr> extents,
                   const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  BodyWork work;
  std::vector<std::pair<ir::BufferId, double>> loaded;  // elements
  for (const ir::Instr& instr : body.instrs) {
    work.flops += ir::row_of(instr.code).flops;
    if (instr.code != OpCode::load) continue;
    double elements = 1;
    bool all = false;
    std::set<int> indices;
    ir::for_each_symbol(instr.index, [&](Expr symbol) {
      if (symbol.is_symbol(ir::SymbolKind::value)) all = work.gathers = true;
      if (symbol.is_symbol(ir::SymbolKind::index)) indices.insert(symbol.symbol_number());
    });
    for (std::size_t k = 0; k < extents.size(); ++k) {
      if (all || indices.contains(static_cast<int>(k))) elements *= static_cast<double>(size(extents[k]));
    }
    const ir::BufferId buffer = ir::unmutated(graph, instr.buffer);
    const auto found =
        std::find_if(loaded.begin(), loaded.end(), [&](const auto& l) { return l.first == buffer; });
    if (found == loaded.end())
      loaded.emplace_back(buffer, elements);
    else
      found->second += elements;
  }
  for (const auto& [buffer, elements] : loaded) {
    if (inside(buffer)) continue;
    double whole = 1;
    for (const Expr& e : graph[buffer].sizes) whole *= static_cast<double>(size(e));
    work.bytes += std::min(elements, whole) * static_cast<double>(ir::size_of(graph[buffer].dtype));
  }
  return work;
}

KernelWork of_loops(const ir::Graph& graph, const ir::Operation& op, const ir::Loops& loops,
                    const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  double points = 1, kept = 1;
  for (std::size_t k = 0; k < loops.sizes.size(); ++k) {
    points *= static_cast<double>(size(loops.sizes[k]));
    if (k < loops.kept()) kept *= static_cast<double>(size(loops.sizes[k]));
  }
  const BodyWork body = body_work(graph, loops.body, loops.sizes, size, inside);
  KernelWork work;
  work.dtype = loops.body.result_dtype();
  work.flops = points * (body.flops + (loops.is_reduction() ? 1 : 0));
  work.bytes = body.bytes;
  for (ir::BufferId out : op.outputs) {
    if (!inside(out)) work.bytes += kept * static_cast<double>(ir::size_of(graph[out].dtype));
  }
  work.kernel_class = loops.is_reduction() ? KernelClass::reduction
                      : body.gathers       ? KernelClass::gather
                      : body.flops > 0     ? KernelClass::elementwise
                                           : KernelClass::copy;
  return work;
}

// Twice the multiplications: for each element of the result, of a transposed convolution of its operand.
double flops_of(const ir::Gemm& gemm, const SizeOf& size) {
  return 2 * points_of(gemm.out, size) * static_cast<double>(size(gemm.a.sizes.back()));
}
double flops_of(const ir::Convolution& k, const SizeOf& size) {
  double per_point = static_cast<double>(size(k.b.sizes[k.b.sizes.size() - (k.transposed ? 1 : 2)]));
  for (const ir::Window& w : k.windows) per_point *= static_cast<double>(w.taps);
  return 2 * points_of(k.transposed ? k.a : k.out, size) * per_point;
}

template <class K>
KernelWork of_product(const ir::Graph& graph, const K& product, KernelClass kernel_class, const SizeOf& size,
                      const std::function<bool(ir::BufferId)>& inside) {
  KernelWork work;
  work.kernel_class = kernel_class;
  work.dtype = graph[product.a.buffer].dtype;
  work.tf32 = product.tf32;
  work.flops = flops_of(product, size);
  for (const ir::TensorRef* ref : {&product.a, &product.b, &product.out}) {
    if (!inside(ref->buffer)) work.bytes += bytes_of(graph, *ref, size);
  }
  if (product.epilogue)
    work.bytes += body_work(graph, *product.epilogue, product.out.sizes, size, inside).bytes;
  return work;
}

// Kernels without loads of their own: the bytes of their operands.
double operand_bytes(const ir::Graph& graph, const ir::Operation& op, const SizeOf& size,
                     const std::function<bool(ir::BufferId)>& inside) {
  double bytes = 0;
  ir::for_each_operand(op.kernel, [&](const ir::TensorRef& ref, bool) {
    if (!inside(ref.buffer)) bytes += bytes_of(graph, ref, size);
  });
  return bytes;
}

KernelWork of_pooling(const ir::Graph& graph, const ir::Operation& op, const ir::Pooling& k,
                      const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  double per_point = 1;
  for (const ir::Window& w : k.windows) per_point *= static_cast<double>(w.taps);
  KernelWork work;
  work.kernel_class = KernelClass::reduction;
  work.dtype = graph[k.x.buffer].dtype;
  work.flops = points_of(k.out, size) * per_point;
  work.bytes = operand_bytes(graph, op, size, inside);
  return work;
}

KernelWork of_recurrence(const ir::Graph& graph, const ir::Operation& op, const ir::Recurrence& k,
                         const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  KernelWork work;
  work.kernel_class = KernelClass::gemm;
  work.dtype = graph[k.gates.buffer].dtype;
  work.flops = 2 * points_of(k.gates, size) * static_cast<double>(size(k.weights.sizes[0]));
  work.bytes = operand_bytes(graph, op, size, inside);
  // The weights are read again at every step.
  work.bytes += (static_cast<double>(size(k.gates.sizes[0])) - 1) * bytes_of(graph, k.weights, size);
  return work;
}

// The keys that are attended to by the queries of a head together, as far as sizes tell.
double attended_pairs(const ir::Attention& k, const SizeOf& size) {
  const std::int64_t queries = size(k.query.sizes[2]), keys = size(k.key.sizes[2]);
  if (k.positions || (!k.before && !k.after)) return static_cast<double>(queries) * static_cast<double>(keys);
  const std::int64_t first = size(k.first_position);
  // Sum over i of clamp(first + i + offset, 0, keys), the number of keys before a limit that moves with the
  // query.
  const auto below = [&](std::int64_t offset) {
    const std::int64_t at = first + offset;
    const std::int64_t begin = std::clamp<std::int64_t>(-at, 0, queries);          // limits from 0 on
    const std::int64_t end = std::clamp<std::int64_t>(keys - at, begin, queries);  // limits from `keys` on
    const double n = static_cast<double>(end - begin);
    const double rising = n * static_cast<double>(at + begin) + n * (n - 1) / 2;
    return rising + static_cast<double>(queries - end) * static_cast<double>(keys);
  };
  const double to =
      k.after ? below(size(*k.after) + 1) : static_cast<double>(queries) * static_cast<double>(keys);
  const double from = k.before ? below(-size(*k.before)) : 0;
  return std::max(to - from, 0.0);
}

// Keys and values are charged once: blocks of queries read them again from a cache.
KernelWork of_attention(const ir::Graph& graph, const ir::Operation& op, const ir::Attention& k,
                        const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  KernelWork work;
  work.kernel_class = KernelClass::attention;
  work.dtype = graph[k.query.buffer].dtype;
  work.tf32 = k.tf32;
  const double heads =
      static_cast<double>(size(k.query.sizes[0])) * static_cast<double>(size(k.query.sizes[1]));
  const double per_pair = 2 * static_cast<double>(size(k.query.sizes[3]) + size(k.value.sizes[3]));
  work.flops = heads * attended_pairs(k, size) * per_pair;
  work.bytes = operand_bytes(graph, op, size, inside);
  return work;
}

KernelWork of_extern(const ir::Graph& graph, const ir::Operation& op, const ir::ExternKernel& kernel,
                     const SizeOf& size, const std::function<bool(ir::BufferId)>& inside) {
  const ir::ExternKernelSpec* spec = ir::find_extern_kernel(kernel.callee);
  KernelWork work;
  work.kernel_class = op.cost && op.cost->kernel_class ? *op.cost->kernel_class
                      : spec != nullptr                ? KernelClass(spec->kernel_class)
                                                       : KernelClass::other;
  if (!kernel.reads.empty())
    work.dtype = graph[kernel.reads.front().buffer].dtype;
  else if (!kernel.writes.empty())
    work.dtype = graph[kernel.writes.front().buffer].dtype;
  for (const auto* refs : {&kernel.reads, &kernel.writes}) {
    for (const ir::TensorRef& ref : *refs) {
      if (!inside(ref.buffer)) work.bytes += bytes_of(graph, ref, size);
    }
  }
  if (spec != nullptr && spec->flops) {
    const auto sizes = [&](const std::vector<ir::TensorRef>& refs) {
      std::vector<std::vector<std::int64_t>> out;
      for (const ir::TensorRef& ref : refs) {
        out.emplace_back();
        for (const ir::Expr& e : ref.sizes) out.back().push_back(size(e));
      }
      return out;
    };
    work.flops = spec->flops({kernel, sizes(kernel.reads), sizes(kernel.writes)});
  }
  return work;
}

void visit_buffers(const ir::Operation& op, const std::function<void(ir::BufferId)>& visit) {
  for (ir::BufferId out : op.outputs) visit(out);
  ir::for_each_operand(op.kernel, [&](const ir::TensorRef& ref, bool) { visit(ref.buffer); });
  ir::for_each_load(op.kernel, [&](const ir::Instr& load) { visit(load.buffer); });
  if (const auto* region = op.as<ir::RegionKernel>()) {
    for (ir::BufferId b : region->operands) visit(b);
    for (const ir::Region& r : region->regions) {
      for (ir::BufferId b : r.yields) visit(b);
    }
  }
}

}  // namespace

StorageUsers::StorageUsers(const ir::Graph& graph)
    : graph_(graph), kept_(graph.storages.size(), false), users_(graph.storages.size()) {
  for (ir::StorageId s : kept_.ids()) kept_[s] = graph[s].kind != ir::StorageKind::activation;
  for (const ir::GraphOutput& output : graph.outputs) kept_[ir::root_storage(graph, output.buffer)] = true;
  for (ir::OpId op : ir::first_ids<ir::OpId>(ir::count_of(graph.ops))) {
    const bool region = graph[op].as<ir::RegionKernel>() != nullptr;
    visit_buffers(graph[op], [&](ir::BufferId b) {
      const ir::StorageId storage = ir::root_storage(graph, b);
      if (!storage.valid()) return;
      std::vector<ir::OpId>& users = users_[storage];
      if (users.empty() || users.back() != op) users.push_back(op);
      if (region) kept_[storage] = true;
    });
  }
}

bool StorageUsers::only_inside(ir::StorageId root, std::span<const ir::OpId> ops) const {
  if (!root.valid() || kept_[root]) return false;
  return std::all_of(users_[root].begin(), users_[root].end(),
                     [&](ir::OpId op) { return std::binary_search(ops.begin(), ops.end(), op); });
}

KernelWork kernel_work(const ir::Graph& graph, const ir::Operation& op, const SizeOf& size,
                       const std::function<bool(ir::BufferId)>& inside) {
  if (const auto* loops = op.as<ir::Loops>()) return of_loops(graph, op, *loops, size, inside);
  if (const auto* k = op.as<ir::Gemm>()) return of_product(graph, *k, KernelClass::gemm, size, inside);
  if (const auto* k = op.as<ir::Convolution>()) return of_product(graph, *k, KernelClass::conv, size, inside);
  if (const auto* k = op.as<ir::Pooling>()) return of_pooling(graph, op, *k, size, inside);
  if (const auto* k = op.as<ir::Recurrence>()) return of_recurrence(graph, op, *k, size, inside);
  if (const auto* k = op.as<ir::Attention>()) return of_attention(graph, op, *k, size, inside);
  if (const auto* kernel = op.as<ir::ExternKernel>()) return of_extern(graph, op, *kernel, size, inside);
  return {};
}

Roofline& Roofline::operator+=(const Roofline& r) {
  compute_us += r.compute_us;
  memory_us += r.memory_us;
  return *this;
}

Roofline roofline(const Machine& machine, const KernelWork& work) {
  const ClassEfficiency& efficiency = machine[work.kernel_class];
  const bool matrix = work.kernel_class == KernelClass::gemm || work.kernel_class == KernelClass::conv ||
                      work.kernel_class == KernelClass::attention || work.kernel_class == KernelClass::other;
  const double tflops =
      matrix && work.tf32
          ? machine.tf32_tflops
          : (matrix ? machine.matrix_tflops : machine.vector_tflops)[static_cast<std::size_t>(work.dtype)];
  return {work.flops / (tflops * efficiency.compute * 1e6),
          work.bytes / (machine.memory_gb_s * efficiency.memory * 1e3)};
}

}  // namespace braid::analysis
