#include "tests/support/random_tensors.h"

#include <random>

#include "ir/element.h"

namespace braid::test {

ir::Tensor random_tensor(ir::DType dtype, std::vector<std::int64_t> sizes, std::uint64_t seed, bool whole) {
  std::mt19937_64 random(seed);
  ir::Tensor t = ir::make_tensor(dtype, std::move(sizes));
  const std::int64_t bytes = ir::size_of(dtype);
  for (std::int64_t k = 0; k < t.numel(); ++k) {
    ir::Literal value;
    const auto small = static_cast<std::int64_t>(random() % 7);
    if (ir::is_float(dtype)) {
      value = whole ? static_cast<double>(small - 3) : std::uniform_real_distribution<double>(-2, 2)(random);
    } else {
      const bool is_signed = ir::is_signed_integer(dtype);
      value = dtype == ir::DType::boolean ? static_cast<std::int64_t>(random() & 1)
              : is_signed                 ? small - 3
                                          : small;
    }
    ir::write_element(dtype, t.bytes.data() + k * bytes, value);
  }
  return t;
}

std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const std::map<std::string, std::int64_t>& dims,
                                      std::uint64_t seed, bool whole) {
  std::vector<ir::Tensor> inputs;
  for (const ir::GraphInput& in : graph.inputs) {
    std::vector<std::int64_t> sizes;
    for (ir::Expr e : graph[in.buffer].sizes) {
      sizes.push_back(ir::evaluate(e, [&](ir::Expr s) { return dims.at(s.dim_name()); }));
    }
    inputs.push_back(random_tensor(graph[in.buffer].dtype, sizes, seed++ * 7919, whole));
  }
  return inputs;
}

}  // namespace braid::test
