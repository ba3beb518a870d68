// The parts of a kernel, whatever its kind, so that code that treats all kernels alike is written once. A new kind
// of kernel is added here, and everything that walks over operands or bodies handles it.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "ir/graph.h"

namespace braid::ir {

// Calls operand(TensorRef&, bool written) for every strided view that the kernel names, first for those that it
// reads. Buffers that a kernel defines without naming a view of them (Loops, RegionKernel) are in
// Operation::outputs.
template <class AnyKernel, class Fn>
void for_each_operand(AnyKernel& kernel, const Fn& operand) {
  const auto all = [&](auto& refs, bool written) {
    for (auto& ref : refs) operand(ref, written);
  };
  std::visit(
      [&](auto& k) {
        using K = std::remove_cvref_t<decltype(k)>;
        if constexpr (std::is_base_of_v<Product, K>) {
          operand(k.a, false), operand(k.b, false), operand(k.out, true);
        } else if constexpr (std::is_same_v<K, Pooling>) {
          operand(k.x, false), operand(k.out, true);
        } else if constexpr (std::is_same_v<K, Recurrence>) {
          operand(k.gates, false), operand(k.weights, false), operand(k.initial_h, false);
          for (auto* ref : {&k.bias, &k.initial_c, &k.peepholes, &k.lengths}) {
            if (*ref) operand(**ref, false);
          }
          all(k.results, true);
        } else if constexpr (std::is_same_v<K, Attention>) {
          operand(k.query, false), operand(k.key, false), operand(k.value, false);
          for (auto* ref : {&k.mask, &k.valid_keys, &k.positions}) {
            if (*ref) operand(**ref, false);
          }
          operand(k.out, true);
        } else if constexpr (std::is_same_v<K, ExternKernel>) {
          all(k.reads, false), all(k.writes, true);
        } else if constexpr (std::is_same_v<K, CollectiveKernel>) {
          all(k.inputs, false), all(k.outputs, true);
        }
      },
      kernel);
}

// The matrix product or convolution that the kernel is, or null.
inline const Product* as_product(const Kernel& kernel) {
  if (const auto* gemm = std::get_if<Gemm>(&kernel)) return gemm;
  return std::get_if<Convolution>(&kernel);
}
inline Product* as_product(Kernel& kernel) { return const_cast<Product*>(as_product(std::as_const(kernel))); }

// Calls body(LoopBody&, sizes) for every loop body; `sizes` bound its indices.
template <class AnyKernel, class Fn>
void for_each_body(AnyKernel& kernel, const Fn& body) {
  if (auto* loops = std::get_if<Loops>(&kernel)) {
    body(loops->body, std::as_const(loops->sizes));
  } else if (auto* product = as_product(kernel); product != nullptr && product->epilogue) {
    body(*product->epilogue, std::as_const(product->out.sizes));
  } else if (auto* recurrence = std::get_if<Recurrence>(&kernel)) {
    const std::vector<Expr> none;
    for (auto& activation : recurrence->activations) body(activation, none);
  }
}

// Calls load(Instr&) for every load of every body.
template <class AnyKernel, class Fn>
void for_each_load(AnyKernel& kernel, const Fn& load) {
  for_each_body(kernel, [&](auto& body, const auto&) {
    for (auto& instr : body.instrs) {
      if (instr.code == OpCode::load) load(instr);
    }
  });
}

// "pointwise", "reduction", "gemm", "convolution", "pool", "recurrence", "attention", "extern", "all_reduce", "wait", "release",
// "region".
std::string_view kind_name(const Kernel& kernel);

}  // namespace braid::ir
