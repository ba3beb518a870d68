#include "ir/iterations.h"

#include <algorithm>
#include <vector>

namespace braid::ir {
namespace {

double most(const Expr& size) { return static_cast<double>(std::max<std::int64_t>(bounds(size).max, 0)); }

double most(const std::vector<Expr>& sizes) {
  double product = 1;
  for (const Expr& size : sizes) product *= most(size);
  return product;
}

double taps(const std::vector<Window>& windows) {
  double product = 1;
  for (const Window& window : windows) product *= most(window.taps);
  return product;
}

double of_kernel(const Operation& op) {
  if (const auto* loops = op.as<Loops>()) return most(loops->sizes);
  if (const auto* gemm = op.as<Gemm>()) return most(gemm->out.sizes) * most(gemm->a.sizes.back());
  if (const auto* k = op.as<Convolution>())
    return most(k->out.sizes) * taps(k->windows) * most(k->b.sizes[k->windows.size() + 1]);
  if (const auto* k = op.as<Pooling>()) return most(k->out.sizes) * taps(k->windows);
  if (const auto* k = op.as<Attention>())
    return most(k->query.sizes) * most(k->key.sizes[2]) + most(k->out.sizes) * most(k->key.sizes[2]);
  if (const auto* k = op.as<Recurrence>()) return most(k->gates.sizes) * most(k->weights.sizes[0]);
  return 0;
}

}  // namespace

double iterations_at_most(const Graph& graph) {
  double sum = 0;
  for (const Buffer& buffer : graph.buffers) sum += most(buffer.sizes);
  for (const Operation& op : graph.ops) sum += of_kernel(op);
  return sum;
}

}  // namespace braid::ir
