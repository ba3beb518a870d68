#include "frontend/microsoft_schemas.h"

#include "frontend/schemas.h"

namespace braid::frontend {

onnx::OpSchema microsoft_operator(const char* name) {
  onnx::OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain(kMicrosoftDomain).SinceVersion(1);
  return schema;
}

}  // namespace braid::frontend
