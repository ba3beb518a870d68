// Changes of the element type.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

void lower_cast(OpContext& c) {
  c.set_output(0, c.lowering().cast(c.input(0), c.dtype_of(c.int_attribute("to"))));
}

void lower_cast_like(OpContext& c) { c.set_output(0, c.lowering().cast(c.input(0), c.dtype(1))); }

const OpSpec kOps[] = {
    {"", "Cast", 6, kNewestOpset, kAllTypes, lower_cast},
    {"", "CastLike", 15, kNewestOpset, kAllTypes, lower_cast_like},
};

}  // namespace

std::span<const OpSpec> cast_ops() { return kOps; }

}  // namespace braid::frontend
