/* The C interface of a generated program.
 *
 * A program exports one function, `const BraidProgram* braid_program_<name>(void)`; everything else is
 * reached from the table it returns, which is constant data. Instances are independent of each other; one
 * instance may be used by one thread at a time. No call throws. A failing call returns a BraidStatus and
 * leaves a message for last_error. After a failed step with collectives the instance's world is aborted, so
 * the other ranks do not wait for it.
 *
 * Life of an instance:
 *     create(memory, weights, world)  ->  [ prepare(dims) -> run(inputs, outputs)* ]*  ->  destroy
 * prepare makes what depends on the actual sizes, and caches it for every set of sizes. run allocates
 * nothing.
 *
 * runtime/program.h is the C++ wrapper that maps the weights and owns the memory.
 */
#ifndef BRAID_RUNTIME_PROGRAM_ABI_H_
#define BRAID_RUNTIME_PROGRAM_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_ABI_VERSION 7u

typedef enum BraidStatus {
  BRAID_OK = 0,
  BRAID_INVALID_ARGUMENT = 1, /* null or misaligned memory, wrong table, not prepared */
  BRAID_BAD_SIZE = 2,         /* a dimension out of bounds, or a guard that does not hold */
  BRAID_BAD_INDEX = 3,        /* an index tensor holds an index out of range */
  BRAID_COMM_ERROR = 4,       /* a collective failed: dead, stalled or disagreeing rank */
  BRAID_LIBRARY_ERROR = 5,    /* a vendor library or an extern kernel failed */
  BRAID_OUT_OF_MEMORY = 6,
  BRAID_INTERNAL_ERROR = 7
} BraidStatus;

/* In the order of braid::rt::DType. */
typedef enum BraidDType {
  BRAID_F32,
  BRAID_F64,
  BRAID_F16,
  BRAID_BF16,
  BRAID_I8,
  BRAID_U8,
  BRAID_I16,
  BRAID_U16,
  BRAID_I32,
  BRAID_U32,
  BRAID_I64,
  BRAID_U64,
  BRAID_BOOL
} BraidDType;

/* A named dimension; bounds are inclusive. measured: 1 if the data of a step decide its value, as the number
 * of elements that NonZero finds. Then `max` is its capacity, prepare ignores what it is given for it, and
 * outputs of such sizes need memory for `BraidSize::max`. */
typedef struct BraidDim {
  const char* name;
  int64_t min;
  int64_t max;
  int32_t measured;
} BraidDim;

/* One size of a tensor. dim: index into `dims` if the size is that dimension itself, else -1. constant: the
 * size if it is constant, else -1, and BraidProgram::sizes computes it. max: the largest size. */
typedef struct BraidSize {
  int64_t constant;
  int64_t max;
  int32_t dim;
  int32_t measured; /* 1: it depends on measured dimensions, and may be anything up to `max` before a run */
} BraidSize;

/* Tensors are row-major and dense, except those with capacities: caches that grow in place (docs/abi.md). */
typedef struct BraidTensorInfo {
  const char* name;
  BraidDType dtype;
  int32_t rank;
  const BraidSize* sizes;
  int64_t max_bytes; /* of the memory, at the upper bounds of all dimensions */
  /* Outputs: the input with which it must share its memory (declared alias), or -1. Inputs: -1. */
  int32_t alias_of_input;
  /* Inputs: 1 if a step writes this memory, because the model changes the input in place or an output is an
   * alias of it. It must then be writable, and a run changes its contents. Outputs: 0. */
  int32_t written;
  /* Null, or `rank` sizes of the row-major tensor in whose memory this one lies, from its first element
   * on: element (i0, i1, ...) of the one is element (i0, i1, ...) of the other. They are the same for an
   * input and the outputs that are aliases of it, so that an output with more elements finds those of the
   * input in their places. A step reads and writes only elements of the actual sizes; of the outermost
   * dimension, memory is needed only for the actual sizes of the input and of its aliases. */
  const int64_t* capacities;
} BraidTensorInfo;

/* Parts run the group's collectives each for itself. A rank is in one part at most. */
typedef struct BraidGroup {
  const char* name;
  int32_t size; /* ranks of one part */
  int32_t parts;
  const int32_t* ranks; /* part after part */
} BraidGroup;

/* A collective as the program issues it, in order. Group members compare these before the first step. */
typedef struct BraidCollective {
  const char* kind;  /* "all_reduce", ... */
  const char* label; /* ONNX node */
  int32_t group;
  int32_t detail;     /* root or peer, else -1 */
  const char* reduce; /* "sum", ... or "" */
  BraidDType dtype;
  int64_t max_bytes;    /* of the input, at the upper bounds of all dimensions */
  int64_t input_offset; /* in the communication segment, or -1 if it lies elsewhere */
  int64_t output_offset;
  const char* algorithm; /* "automatic", "one_shot", "two_shot" */
} BraidCollective;

typedef enum BraidNodeKind {
  BRAID_NODE_KERNEL,
  BRAID_NODE_START,
  BRAID_NODE_WAIT,
  BRAID_NODE_RELEASE,
  BRAID_NODE_BLOCKING /* a collective that is started and awaited in one node */
} BraidNodeKind;

/* What a step does, in order: a kernel or one end of a collective. */
typedef struct BraidNode {
  const char* name;  /* of the operation or fused node, as in the IR */
  const char* label; /* ONNX node */
  BraidNodeKind kind;
  int32_t
      collective; /* the first of the BraidCollectives that it starts, waits for or releases; kernels: -1 */
  int32_t collectives; /* how many from there on; kernels: 0 */
} BraidNode;

/* When a node of a step began; it lasts until the next one begins. Nanoseconds of the monotonic clock, which
 * all processes of a machine share. */
typedef struct BraidNodeTimes {
  int64_t begin_ns;
  int64_t due_ns;   /* waits over a paced link: when the link delivered; others: 0 */
  int64_t slept_ns; /* how long the wait slept until then */
} BraidNodeTimes;

/* A braid::rt::World of the library version with this BRAID_ABI_VERSION. May be null for a program with one
 * rank: an instance with collectives then makes its own. */
typedef struct BraidWorld BraidWorld;
typedef struct BraidInstance BraidInstance;

/* The caller owns the memory, which must outlive the instance; a field may be null if the program needs 0
 * bytes of it. */
typedef struct BraidCreateInfo {
  uint32_t abi_version;
  uint32_t struct_size; /* sizeof(BraidCreateInfo) */
  int32_t rank;
  BraidWorld* world;
  const void* weights; /* the file weights.bin */
  uint64_t weights_bytes;
  const void* rank_weights; /* the file weights.rank<r>.bin */
  uint64_t rank_weights_bytes;
  /* 1: `weights` and `rank_weights` are private mappings of the files. The program returns pages of
   * which it holds a packed copy to the system; they are read again from the files if needed. 0: other
   * memory. */
  int32_t weights_mapped;
  void* arena; /* 64-byte aligned */
  uint64_t arena_bytes;
} BraidCreateInfo;

typedef struct BraidProgram {
  uint32_t abi_version;
  uint32_t struct_size; /* sizeof(BraidProgram) */
  const char* name;
  uint64_t compilation_id; /* hash of source and weights; weight files, manifest and library carry it */
  int32_t ranks;

  int32_t dim_count;
  const BraidDim* dims;
  int32_t input_count;
  const BraidTensorInfo* inputs;
  int32_t output_count;
  const BraidTensorInfo* outputs;

  uint64_t arena_bytes;
  uint64_t comm_bytes;         /* communication segment of each rank's world */
  uint64_t weights_bytes;      /* of weights.bin; 0: there is none */
  uint64_t rank_weights_bytes; /* of each weights.rank<r>.bin; 0: there are none */

  int32_t group_count;
  const BraidGroup* groups;
  int32_t collective_count;
  const BraidCollective* collectives;
  int32_t node_count;
  const BraidNode* nodes;

  /* Computes every size of every input, then of every output, for the given dimensions. */
  void (*sizes)(const int64_t* dims, int64_t* out);

  BraidStatus (*create)(const BraidCreateInfo* info, BraidInstance** out);
  BraidStatus (*prepare)(BraidInstance* instance, const int64_t* dims);
  /* Pointers in the order of `inputs` and `outputs`, aligned for their element type. Sizes are those of the
   * last prepare. Inputs are read only, except those marked as `written`. */
  BraidStatus (*run)(BraidInstance* instance, const void* const* inputs, void* const* outputs);
  /* The dimensions of the last run, with those that it has measured, or else those of the last prepare, with
   * capacities. Valid until the next call. */
  const int64_t* (*dims_of_run)(const BraidInstance* instance);
  /* From now on each run records the times of its nodes: node_count entries, then one whose begin_ns is the
   * end of the step. Null stops recording. */
  void (*record)(BraidInstance* instance, BraidNodeTimes* times);
  /* The message of the last failed call on this instance or, for null, of the last failed create on this
   * thread. Valid until the next call. */
  const char* (*last_error)(const BraidInstance* instance);
  void (*destroy)(BraidInstance* instance);
} BraidProgram;

typedef const BraidProgram* (*BraidProgramFunction)(void);

#ifdef __cplusplus
}
#endif

#endif
