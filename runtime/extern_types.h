// Chooses the instance of an extern kernel's template for the element type that it is called with.
#pragma once

#include <cstdint>

#include "runtime/extern_kernel.h"

namespace braid::rt {

template <class T>
struct ElementType {
  using type = T;
};

// Returns f(ElementType<T>()) for numbers of 4 and 8 bytes and integers of 1 and 2, and `unsupported` for
// others.
template <class F>
const char* for_element_type(BraidDType dtype, const char* unsupported, const F& f) {
  switch (dtype) {
    case BRAID_F32:
      return f(ElementType<float>());
    case BRAID_F64:
      return f(ElementType<double>());
    case BRAID_I8:
      return f(ElementType<int8_t>());
    case BRAID_U8:
      return f(ElementType<uint8_t>());
    case BRAID_I16:
      return f(ElementType<int16_t>());
    case BRAID_U16:
      return f(ElementType<uint16_t>());
    case BRAID_I32:
      return f(ElementType<int32_t>());
    case BRAID_U32:
      return f(ElementType<uint32_t>());
    case BRAID_I64:
      return f(ElementType<int64_t>());
    case BRAID_U64:
      return f(ElementType<uint64_t>());
    default:
      return unsupported;
  }
}

}  // namespace braid::rt
