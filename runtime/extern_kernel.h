/* The C interface of an extern kernel: a function from outside that a generated program calls as one
 * operation of its step. A plug-in registers it for the compiler (ir/extern_registry.h), together with the
 * source text that defines it and becomes part of the generated source:
 *
 *     static const char* row_sort(const BraidExternCall* call) {
 *       ...
 *       return NULL;
 *     }
 *
 * On CUDA the data is device memory, and the function enqueues its work on `stream` without waiting for it.
 */
#ifndef BRAID_RUNTIME_EXTERN_KERNEL_H_
#define BRAID_RUNTIME_EXTERN_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#include "runtime/program_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_EXTERN_MAX_RANK 8

/* Element (i0, i1, ...) lies at data + (i0 * strides[0] + i1 * strides[1] + ...) elements. A stride may be 0.
 * Any size may be 0. */
typedef struct BraidTensorView {
  void* data;
  BraidDType dtype;
  int32_t rank; /* at most BRAID_EXTERN_MAX_RANK */
  int64_t sizes[BRAID_EXTERN_MAX_RANK];
  int64_t strides[BRAID_EXTERN_MAX_RANK]; /* in elements */
} BraidTensorView;

typedef enum BraidAttributeKind { BRAID_INTEGER, BRAID_REAL, BRAID_TEXT } BraidAttributeKind;

/* The member of its kind is set, the others are 0. */
typedef struct BraidAttribute {
  const char* name;
  BraidAttributeKind kind;
  int64_t integer;
  double real;
  const char* text;
} BraidAttribute;

/* Everything belongs to the caller and is valid during the call. The kernel writes every element of `writes`,
 * which are undefined before, and nothing else. What it changes in place is among both: two views of the same
 * memory. */
typedef struct BraidExternCall {
  const BraidTensorView* reads;
  size_t read_count;
  const BraidTensorView* writes;
  size_t write_count;
  const BraidAttribute* attributes; /* in order of their names */
  size_t attribute_count;
  void* stream; /* a cudaStream_t; NULL on the host */
} BraidExternCall;

/* Returns NULL, or why it failed: a text that stays valid. The step then fails with BRAID_LIBRARY_ERROR. Must
 * neither throw nor allocate device memory. */
typedef const char* (*BraidExternKernel)(const BraidExternCall* call);

/* Null if there is none of that name and kind. */
static inline const BraidAttribute* braid_find_attribute(const BraidExternCall* call, const char* name,
                                                         BraidAttributeKind kind) {
  for (size_t k = 0; k < call->attribute_count; ++k) {
    const BraidAttribute* attribute = &call->attributes[k];
    const char *a = attribute->name, *b = name;
    while (*a != '\0' && *a == *b) {
      ++a;
      ++b;
    }
    if (*a == *b && attribute->kind == kind) return attribute;
  }
  return NULL;
}

#ifdef __cplusplus
}

#include <initializer_list>

namespace braid::rt {

/* What generated source writes the operands of a call with. */
inline BraidTensorView tensor_view(BraidDType dtype, const void* data, std::initializer_list<int64_t> sizes,
                                   std::initializer_list<int64_t> strides) {
  BraidTensorView view = {};
  view.data = const_cast<void*>(data);
  view.dtype = dtype;
  for (int64_t stride : strides) view.strides[view.rank++] = stride;
  view.rank = 0;
  for (int64_t size : sizes) view.sizes[view.rank++] = size;
  return view;
}
inline BraidAttribute attribute(const char* name, int64_t value) {
  return {name, BRAID_INTEGER, value, 0, nullptr};
}
inline BraidAttribute attribute(const char* name, double value) {
  return {name, BRAID_REAL, 0, value, nullptr};
}
inline BraidAttribute attribute(const char* name, const char* value) {
  return {name, BRAID_TEXT, 0, 0, value};
}

/* NULL, or why the kernel failed. */
inline const char* call_extern(BraidExternKernel kernel, std::initializer_list<BraidTensorView> reads,
                               std::initializer_list<BraidTensorView> writes,
                               std::initializer_list<BraidAttribute> attributes, void* stream) {
  const BraidExternCall call = {reads.begin(),      reads.size(),      writes.begin(), writes.size(),
                                attributes.begin(), attributes.size(), stream};
  return kernel(&call);
}

}  // namespace braid::rt
#endif

#endif
