// The parts of a kernel of any kind, so that code that treats all kernels the same is written once. Operands
// are the fields of a kernel that are read or written (ir/kernel_fields.h); one that has loop bodies is added
// to for_each_body().
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "ir/graph.h"

namespace braid::ir {

// Calls field(f, member) for every entry of kFields that has a member.
template <class K, class Fn>
void for_each_field(K& kernel, const Fn& field) {
  if constexpr (requires { K::kFields; }) {
    std::apply(
        [&](const auto&... fields) {
          const auto one = [&](const auto& f) {
            if constexpr (requires { f.member; }) field(f, kernel.*f.member);
          };
          (one(fields), ...);
        },
        K::kFields);
  }
}

// Calls operand(TensorRef&, bool written) for every strided view that the kernel names, first for those that
// it reads. Buffers that a kernel defines without naming a view of them (Loops, RegionKernel) are in
// Operation::outputs.
template <class AnyKernel, class Fn>
void for_each_operand(AnyKernel& kernel, const Fn& operand) {
  const auto views = [&](auto& member, bool written) {
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, TensorRef>) {
      operand(member, written);
    } else if constexpr (std::is_same_v<Member, std::optional<TensorRef>>) {
      if (member) operand(*member, written);
    } else {
      for (auto& ref : member) operand(ref, written);
    }
  };
  std::visit(
      [&](auto& k) {
        for_each_field(k, [&](auto field, auto& member) {
          if constexpr (field.kRole == Role::operand) views(member, false);
          if constexpr (field.kRole == Role::result) views(member, true);
        });
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

// The kernel's kName; "pointwise" or "reduction", the kind of a collective ("all_reduce"), "region".
std::string_view kind_name(const Kernel& kernel);

}  // namespace braid::ir
