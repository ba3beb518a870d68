#include "cli/tensor_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/element.h"

namespace braid::cli {
namespace {

constexpr std::int64_t kAll = 1000, kEdge = 3;

// The elements from `first` on, along `axis` and the later ones.
std::string part(const ir::Tensor& t, std::size_t axis, std::int64_t first, std::int64_t stride) {
  if (axis == t.sizes.size()) return ir::element_text(t.dtype, t.bytes.data() + first * ir::size_of(t.dtype));
  const std::int64_t size = t.sizes[axis], inner = size > 0 ? stride / size : 0;
  const bool shortened = t.numel() > kAll && size > 2 * kEdge;
  std::string text = "[";
  for (std::int64_t k = 0; k < size; ++k) {
    if (shortened && k == kEdge) {
      text += ", ...";
      k = size - kEdge;
    }
    text += (k > 0 ? ", " : "") + part(t, axis + 1, first + k * inner, inner);
  }
  return text + "]";
}

}  // namespace

std::string values_text(const ir::Tensor& tensor) { return part(tensor, 0, 0, tensor.numel()); }

nlohmann::ordered_json values_json(const ir::Tensor& tensor) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const std::int64_t item = ir::size_of(tensor.dtype);
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    const std::byte* at = tensor.bytes.data() + k * item;
    const ir::Literal value = ir::read_element(tensor.dtype, at);
    if (tensor.dtype == ir::DType::boolean) {
      all.push_back(std::get<std::int64_t>(value) != 0);
    } else if (tensor.dtype == ir::DType::u64) {
      all.push_back(static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      all.push_back(*integer);
    } else if (const double number = std::get<double>(value); std::isfinite(number)) {
      all.push_back(number);
    } else {
      all.push_back(ir::element_text(tensor.dtype, at));
    }
  }
  return all;
}

}  // namespace braid::cli
