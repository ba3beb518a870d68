#include "frontend/traces/recorded_class.h"

namespace braid::frontend {

std::optional<ir::KernelClass> recorded_class(std::string_view name) {
  using ir::KernelClass;
  struct Word {
    std::string_view word;
    KernelClass kernel_class;
  };
  static constexpr Word kWords[] = {{"attention", KernelClass::attention},
                                    {"flash", KernelClass::attention},
                                    {"gemm", KernelClass::gemm},
                                    {"matmul", KernelClass::gemm},
                                    {"conv", KernelClass::conv},
                                    {"copy", KernelClass::copy},
                                    {"cast", KernelClass::copy},
                                    {"norm", KernelClass::reduction},
                                    {"softmax", KernelClass::reduction},
                                    {"reduc", KernelClass::reduction},
                                    {"entropy", KernelClass::reduction},
                                    {"loss", KernelClass::reduction},
                                    {"topk", KernelClass::reduction},
                                    {"gather", KernelClass::gather},
                                    {"scatter", KernelClass::gather},
                                    {"embedding", KernelClass::gather},
                                    {"permute", KernelClass::gather},
                                    {"elementwise", KernelClass::elementwise},
                                    {"pointwise", KernelClass::elementwise},
                                    {"add", KernelClass::elementwise},
                                    {"glu", KernelClass::elementwise},
                                    {"gelu", KernelClass::elementwise},
                                    {"relu", KernelClass::elementwise},
                                    {"silu", KernelClass::elementwise},
                                    {"rope", KernelClass::elementwise},
                                    {"adam", KernelClass::elementwise},
                                    {"sgd", KernelClass::elementwise}};
  for (const Word& w : kWords) {
    if (name.find(w.word) != std::string_view::npos) return w.kernel_class;
  }
  return std::nullopt;
}

}  // namespace braid::frontend
