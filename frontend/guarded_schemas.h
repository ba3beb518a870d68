// ONNX's schemas, made safe for models that nobody vouches for.
#pragma once

#include <onnx/defs/schema.h>

#include <map>
#include <memory>

namespace braid::frontend {

// What ONNX's inference is given instead of its own registry. Its functions index and allocate by what
// attributes and sizes say; here
//  - attributes are held to attribute_problem() first (a negative batch_dims makes ONNX read before an
//    array),
//  - sizes that are negative or beyond 32 bits, which ONNX computes with as int, count as unknown,
//  - values are followed only through short integer tensors: ONNX makes an object per element of every
//    one-dimensional operand, also of a gradient bucket of fifty million floats.
// One object serves one run of inference; it is no slower than the registry where nothing is out of range.
class GuardedSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& name, int version,
                                  const std::string& domain) const override;

 private:
  // By the schema that is guarded. Filled as inference asks.
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> guarded_;
  mutable std::int64_t elements_left_ = 1 << 20;  // that values may still be followed through, all in all
};

}  // namespace braid::frontend
