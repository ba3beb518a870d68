// ONNX's schemas, made safe for untrusted models.
#pragma once

#include <onnx/defs/schema.h>

#include <map>
#include <memory>

namespace braid::frontend {

// Replaces the registry of ONNX's inference, whose functions trust attributes and sizes when they index and
// allocate. Here
//  - attributes must pass attribute_problem() first (a negative batch_dims makes ONNX read before an array),
//  - sizes that are negative or beyond 32 bits, with which ONNX computes as int, count as unknown,
//  - values are propagated only through short integer tensors: ONNX makes an object per element of every
//    one-dimensional operand, even of a gradient bucket of fifty million floats.
// Use one object per run of inference. If nothing is out of range, it is as fast as the registry.
class GuardedSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& name, int version,
                                  const std::string& domain) const override;

 private:
  // By the schema that is guarded; filled on demand.
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> guarded_;
  mutable std::int64_t elements_left_ = 1 << 20;  // total budget of elements for value propagation
};

}  // namespace braid::frontend
