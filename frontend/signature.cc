#include "frontend/signature.h"

#include <fmt/format.h>

#include "frontend/dims.h"
#include "frontend/load.h"

namespace braid::frontend {

std::vector<SignatureInput> read_signature(const std::string& path) {
  std::string first = path;
  if (const std::size_t at = first.find("{rank}"); at != std::string::npos) first.replace(at, 6, "0");
  const Model model = load_model(first);
  std::vector<SignatureInput> inputs;
  for (const onnx::ValueInfoProto* input : true_inputs(model)) {
    SignatureInput s{input->name(), {}};
    int axis = 0;
    for (const auto& dim : input->type().tensor_type().shape().dim()) {
      s.dims.push_back(dim.has_dim_value()        ? fmt::format("{}", dim.dim_value())
                       : !dim.dim_param().empty() ? dim.dim_param()
                                                  : fmt::format("{}_{}", input->name(), axis));
      ++axis;
    }
    inputs.push_back(std::move(s));
  }
  return inputs;
}

}  // namespace braid::frontend
