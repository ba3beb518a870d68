// The values of a tensor for people and for JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/tensor.h"

namespace braid::cli {

// "[[1, 2], [3, 4]]". A tensor with more than 1,000 elements is shortened to the first and last three along
// each axis, as in NumPy.
std::string values_text(const ir::Tensor& tensor);
// All of them, in one list: numbers, or text where JSON has none ("nan", "-inf").
nlohmann::ordered_json values_json(const ir::Tensor& tensor);

}  // namespace braid::cli
