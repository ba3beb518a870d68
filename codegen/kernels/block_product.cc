// The extern kernel `block_product` (runtime/block_product.h).
#include <algorithm>
#include <cstdint>
#include <optional>

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

constexpr std::int64_t kLanes = 16;

std::optional<std::int64_t> integer(const ir::ExternKernel& kernel, const char* name) {
  const auto found = kernel.attributes.find(name);
  if (found == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(found->second))
    return std::nullopt;
  return std::get<std::int64_t>(found->second);
}

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  const std::size_t reads = kernel.reads.size();
  if (reads < 3 || reads > 4 || kernel.writes.size() != 2)
    return "takes rows, weights, scales and perhaps zero points, and makes the product and its work memory";
  constexpr DType kReads[] = {DType::f32, DType::u8, DType::f32, DType::u8};
  for (std::size_t k = 0; k < reads; ++k) {
    if (graph[kernel.reads[k].buffer].dtype != kReads[k] || kernel.reads[k].sizes.size() != 2)
      return "takes matrices: rows f32, weights u8, scales f32, zero points u8";
  }
  for (const ir::TensorRef& w : kernel.writes) {
    if (graph[w.buffer].dtype != DType::f32 || w.sizes.size() != 2) return "makes f32 matrices";
  }
  const auto bits = integer(kernel, "bits"), block = integer(kernel, "block");
  if (!bits || !block) return "needs the integers bits and block";
  if (*bits != 4 && *bits != 8) return "takes 4 or 8 bits";
  const std::int64_t group = *bits == 4 ? 2 * kLanes : kLanes;
  if (*block < group || *block % group != 0)
    return "takes blocks of a multiple of 32 (4 bits) or 16 (8 bits) numbers";
  const ir::Expr m = kernel.reads[0].sizes[0], k = kernel.reads[0].sizes[1], n = kernel.writes[0].sizes[1];
  if (!k.is_constant() || !n.is_constant() || k.constant() < 1) return "takes weights of known sizes";
  const std::int64_t blocks = (k.constant() + *block - 1) / *block;
  const auto has = [](const ir::TensorRef& r, ir::Expr rows, ir::Expr columns) {
    return ir::provably_equal(r.sizes[0], rows) && ir::provably_equal(r.sizes[1], columns);
  };
  bool right = has(kernel.reads[1], n, blocks * (*block * *bits / 8)) && has(kernel.reads[2], n, blocks) &&
               has(kernel.writes[0], m, n) && has(kernel.writes[1], m, blocks * *block);
  if (reads == 4) right = right && has(kernel.reads[3], n, blocks);
  return right ? ""
               : "takes rows [m, k], weights [n, bytes], scales and zero points [n, blocks], and makes [m, "
                 "n] and [m, blocks * block]";
}

// Written by the definition in runtime/block_product.h, without its kernels.
void interpret(ir::ExternCall& call) {
  const ir::ExternKernel& kernel = *call.op.as<ir::ExternKernel>();
  const std::int64_t bits = *integer(kernel, "bits"), block = *integer(kernel, "block");
  const std::vector<float> x = call.reads[0].values<float>(), scales = call.reads[2].values<float>();
  const std::vector<std::uint8_t> weights = call.reads[1].values<std::uint8_t>();
  const std::vector<std::uint8_t> zeros =
      call.reads.size() > 3 ? call.reads[3].values<std::uint8_t>() : std::vector<std::uint8_t>();
  const std::int64_t m = call.reads[0].sizes[0], k = call.reads[0].sizes[1], n = call.writes[0].sizes[1];
  const std::int64_t blocks = (k + block - 1) / block, per_row = blocks * block * bits / 8;
  const auto at = [](const auto& of, std::int64_t i) { return of[static_cast<std::size_t>(i)]; };
  // The volatile product keeps the compiler from contracting a * b + c.
  const auto times = [](float a, float b) {
    const volatile float product = a * b;
    return static_cast<float>(product);
  };
  std::vector<float> y(static_cast<std::size_t>(m * n));
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      float lanes[kLanes] = {};
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        for (std::int64_t b = 0; b < blocks; ++b) {
          const int zero = zeros.empty() ? 1 << (bits - 1) : at(zeros, c * blocks + b);
          const auto product = [&](std::int64_t element) {
            const std::int64_t column = b * block + element;
            const int byte = at(weights, c * per_row + column * bits / 8);
            const int q = bits == 8 ? byte : (column % 2 == 0 ? byte & 15 : byte >> 4);
            return times(column < k ? at(x, r * k + column) : 0.0f, static_cast<float>(q - zero));
          };
          float inner = 0;
          for (std::int64_t e = 0; e < block; e += bits == 4 ? 2 * kLanes : kLanes)
            inner += bits == 4 ? product(e + 2 * lane) + product(e + 2 * lane + 1) : product(e + lane);
          lanes[lane] += times(inner, at(scales, c * blocks + b));
        }
      }
      for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      }
      y[static_cast<std::size_t>(r * n + c)] = lanes[0];
    }
  }
  call.writes[0] = ir::make_tensor(DType::f32, {m, n}, y);
  call.writes[1] = ir::make_tensor(DType::f32, call.writes[1].sizes);
}

// Asked for calls that are refused, too.
double flops(const ir::ExternShapes& shapes) {
  if (shapes.reads.empty() || shapes.reads[0].size() != 2 || shapes.writes.empty() ||
      shapes.writes[0].size() != 2)
    return 0;
  return 2 * static_cast<double>(shapes.reads[0][0]) * static_cast<double>(shapes.reads[0][1]) *
         static_cast<double>(shapes.writes[0][1]);
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "block_product",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gemm,
    .flops = flops,
    .sources = runtime_sources("block_product"),
}};

}  // namespace
}  // namespace braid::codegen
