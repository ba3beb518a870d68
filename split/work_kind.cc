#include "split/work_kind.h"

#include <algorithm>

#include "ir/id_vector.h"

namespace braid::split {

ir::KernelClass class_of(WorkKind kind) {
  using ir::KernelClass;
  switch (kind) {
    case WorkKind::product:
    case WorkKind::recurrence:
      return KernelClass::gemm;
    case WorkKind::convolution:
      return KernelClass::conv;
    case WorkKind::attention:
      return KernelClass::attention;
    case WorkKind::reduction:
    case WorkKind::softmax:
      return KernelClass::reduction;
    case WorkKind::gather:
    case WorkKind::scatter:
      return KernelClass::gather;
    case WorkKind::pointwise:
      return KernelClass::elementwise;
    case WorkKind::reorder:
    case WorkKind::repeat:
    case WorkKind::join:
    case WorkKind::select:
    case WorkKind::collective:
    case WorkKind::sizes:
    case WorkKind::view:
    case WorkKind::constant:
    case WorkKind::list:
    case WorkKind::control:
      break;
  }
  return KernelClass::copy;
}

double Operand::size(int dim) const {
  const int d = dim < 0 ? dim + rank() : dim;
  return d < 0 || d >= rank() ? 1 : sizes[d];
}

double Operand::elements() const {
  if (!present) return 0;
  double product = 1;
  for (const double size : sizes) product *= size;
  return product;
}

const Operand& Operands::of(const std::vector<Operand>& list, int k) {
  static const Operand absent;
  return k < 0 || k >= ir::count_of(list) ? absent : list[k];
}

double Operands::results() const {
  double sum = 0;
  for (const Operand& output : outputs) sum += output.elements();
  return sum;
}

double Operands::largest_result() const {
  double most = 0;
  for (const Operand& output : outputs) most = std::max(most, output.elements());
  return most;
}

}  // namespace braid::split
