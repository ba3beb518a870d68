// The program: buffers over storages, and the operations that fill them.
//
// A Graph is one table of everything, addressed by ids. It says *what* is computed; the order, fusion and
// grouping of the operations is a Schedule (ir/schedule.h). All names are unique within their table and
// stable: they are what the text format prints.
//
// Memory model. A Storage is a run of bytes with one owner. A Buffer is a typed, strided view of one storage,
// either owning (its layout decides where the storage's elements lie), a view of another buffer
// (NonOwningLayout), or the name of the same memory after an operation changed it (MutationOutput). Everybody
// who asks "may these two touch the same bytes?" asks `region()`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/expr.h"
#include "ir/ids.h"
#include "ir/loop_body.h"

namespace braid::ir {

// ----------------------------------------------------------------------------------------------------------
// groups

inline constexpr int kMaxRanks = 65536;

// A communicator: a named, ordered list of ranks. Position in the list is the rank within the group.
struct CommGroup {
  std::string name;
  std::vector<int> ranks;
  // What is wrong with it in a world of so many ranks: none in it, one twice, one from outside. Or empty.
  std::string fault(int world) const;
  friend bool operator==(const CommGroup&, const CommGroup&) = default;
};

// --------------------------------------------------------------------------------------------------------
// storages

enum class StorageKind : std::uint8_t {
  input,       // the caller's memory, read (or, when mutated, written) in place
  output,      // the caller's memory, written
  constant,    // weights
  activation,  // the arena
  comm,        // the communication segment
};

// What is promised to the communication library about a comm buffer.
enum class CommBufferKind : std::uint8_t {
  symmetric,   // peers read or write it directly
  registered,  // the library works on it
};

// The bytes of a constant. One entry serves all ranks; otherwise one entry per rank (per-rank weights).
// Empty: not known to this process (a text that elides its data); such a graph can be scheduled but not run.
struct ConstantData {
  std::vector<std::span<const std::byte>> per_rank;
  std::shared_ptr<const void> owner;  // keeps the spans alive (a mapped file, a vector)
  std::string file;  // where they lie, when in a file of their own; "{rank}" stands for the rank
  std::int64_t file_offset = 0;
  // Of a text that leaves the bytes out: the hash (FNV-1a, 64 bits) of what each entry of per_rank would
  // hold.
  std::vector<std::uint64_t> elided;

  bool same_on_all_ranks() const { return per_rank.size() <= 1; }
  std::span<const std::byte> of_rank(int rank) const;
};
ConstantData own_bytes(std::vector<std::byte> bytes);

struct Storage {
  std::string name;
  StorageKind kind = StorageKind::activation;
  Expr bytes = 0;
  CommBufferKind comm_kind = CommBufferKind::symmetric;  // comm only
  std::vector<GroupId> groups;                           // comm only: whose collectives use it; by name
  ConstantData data;                                     // constant only
  // Declared by the user: the same memory as another storage (a KV cache that grows in place).
  StorageId alias_of;
};

// ---------------------------------------------------------------------------------------------------------
// buffers

// Strides count elements, sizes.size() of them.
struct FlexibleLayout {  // strides may still be chosen; row-major until then
  friend bool operator==(const FlexibleLayout&, const FlexibleLayout&) = default;
};
struct FixedLayout {
  std::vector<Expr> strides;
  friend bool operator==(const FixedLayout&, const FixedLayout&) = default;
};
struct NonOwningLayout {  // a view: its first element is `offset` elements after the base's first
  BufferId base;
  Expr offset = 0;
  std::vector<Expr> strides;
  friend bool operator==(const NonOwningLayout&, const NonOwningLayout&) = default;
};
struct NoneLayout {  // an operation without memory of its own; size 0 for every memory calculation
  friend bool operator==(const NoneLayout&, const NoneLayout&) = default;
};
struct MultiOutputLayout {  // stands for several outputs; the children hold the bytes
  friend bool operator==(const MultiOutputLayout&, const MultiOutputLayout&) = default;
};
struct CommBufferLayout {  // a fixed layout in the communication segment
  std::vector<Expr> strides;
  CommBufferKind kind = CommBufferKind::symmetric;
  std::vector<GroupId> groups;  // by name
  friend bool operator==(const CommBufferLayout&, const CommBufferLayout&) = default;
};
struct MutationOutput {  // the memory of `of` after the operation that defines this buffer
  BufferId of;
  friend bool operator==(const MutationOutput&, const MutationOutput&) = default;
};
using Layout = std::variant<FlexibleLayout, FixedLayout, NonOwningLayout, NoneLayout, MultiOutputLayout,
                            CommBufferLayout, MutationOutput>;

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Expr> sizes;
  Layout layout;
  StorageId storage;  // of owning layouts; views and mutations find theirs through `region()`
  OpId producer;      // invalid: graph input or constant
};

// A strided view used as an operand: element (i0, i1, ...) lies at offset + sum(ik * strides[k]) elements
// from the buffer's first element.
struct TensorRef {
  BufferId buffer;
  Expr offset = 0;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  friend bool operator==(const TensorRef&, const TensorRef&) = default;
};

// ------------------------------------------------------------------------------------------------------
// operations

enum class ReduceKind : std::uint8_t { sum, prod, max, min, avg };  // avg: collectives only

// Time and work that an operation is charged with; what is unknown is negative.
struct Cost {
  double ns = -1;
  double flops = -1;
  double bytes = -1;
  friend bool operator==(const Cost&, const Cost&) = default;
};

// A (fused) loop nest with one output. Index k runs over [0, sizes[k]), outermost first. The last `reduced`
// indices are folded with `reduce`, in any order, starting from its neutral element; store_index is over the
// others. Inductor's Pointwise is reduced == 0, its Reduction is reduced > 0.
struct Loops {
  std::vector<Expr> sizes;
  int reduced = 0;
  ReduceKind reduce = ReduceKind::sum;
  LoopBody body;
  Expr store_index = 0;  // element offset in the output buffer

  bool is_reduction() const { return reduced > 0; }
  std::size_t kept() const { return sizes.size() - static_cast<std::size_t>(reduced); }
  friend bool operator==(const Loops&, const Loops&) = default;
};

// A step of an epilogue as matrix libraries have it: what it makes of the value before it, which is the
// accumulator or the result of the step before, is value `result` of the epilogue's body. It says so up to
// rounding: values in between may be kept in float32 or better and rounded once.
struct PostOp {
  enum class Kind : std::uint8_t {
    identity,  // rounds; only where the epilogue does nothing else
    relu,
    gelu_tanh,
    gelu_erf,
    tanh,
    sigmoid,
    scale,       // times `factor`, a normal float32
    add_vector,  // `operand`, the same in every row
    add_matrix,  // `operand`, laid out as the result
  };
  Kind kind = Kind::identity;
  ValueId result;
  double factor = 1;
  ValueId operand;  // the load
  friend bool operator==(const PostOp&, const PostOp&) = default;
};

// out[..., m, n] = epilogue(sum_k a[..., m, k] * b[..., k, n]); leading dimensions are batch dimensions of
// equal extent (a broadcast one has stride 0). Accumulates in f32 (f64 for f64, i32 for integers). The
// epilogue's indices are those of `out`, its `acc` the accumulator.
struct Gemm {
  TensorRef a, b, out;
  std::optional<LoopBody> epilogue;
  // The steps with which the epilogue begins, as ir/post_ops.h finds them; empty until a pass has named them.
  std::vector<PostOp> post_ops = {};
  friend bool operator==(const Gemm&, const Gemm&) = default;
};

// A kernel without a body: effects and a cost. `callee` names a runtime function, or nothing that can be run
// (graphs that only exist to be scheduled). A barrier's effects are unknown: nothing moves across it.
struct ExternKernel {
  std::string callee;
  std::vector<TensorRef> reads;
  std::vector<TensorRef> writes;  // of the operation's outputs, or of mutated buffers
  std::map<std::string, std::variant<std::int64_t, double, std::string>> attributes;
  bool barrier = false;
  friend bool operator==(const ExternKernel&, const ExternKernel&) = default;
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,      // output is the group's inputs one after the other
  reduce_scatter,  // input is one slab per rank of the group
  broadcast,
  all_to_all,  // slab k of the input goes to rank k
  send,
  recv,
};

// How a collective runs. Which of them a kind and an engine have is in ir/collective_table.h.
enum class Algorithm : std::uint8_t {
  unasked,    // nobody has asked for anything yet: passes may choose, and if none does, the engine
  automatic,  // the engine chooses at run time; passes leave it so
  one_shot,   // every member reads the inputs of all others where they lie, once
  two_shot,   // every member reduces one slab of the inputs of all others, then hands it to them
  ring,       // slabs go round from neighbour to neighbour
  library,    // the communication library's own choice
};

// Starts a collective. Inputs are read, outputs written, by peers too, until the matching WaitKernel
// (outputs) and ReleaseKernel (inputs, and outputs that peers write). In place where outputs[k] names the
// same elements as inputs[k]. Operands are contiguous.
struct CollectiveKernel {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupId group;
  ReduceKind reduce = ReduceKind::sum;
  int root = -1;  // broadcast: root; send, recv: peer; as a rank within the group
  std::vector<TensorRef> inputs;
  std::vector<TensorRef> outputs;
  Algorithm algorithm = Algorithm::unasked;
  bool blocking = false;  // complete when issued: has no wait
  friend bool operator==(const CollectiveKernel&, const CollectiveKernel&) = default;
};

// The results of `start` are there. A second mutation of its outputs; also reads its inputs (they stay
// pinned).
struct WaitKernel {
  OpId start;
  friend bool operator==(const WaitKernel&, const WaitKernel&) = default;
};

// Every peer has finished with this rank's memory of `start`: its bytes may be written again.
struct ReleaseKernel {
  OpId start;
  friend bool operator==(const ReleaseKernel&, const ReleaseKernel&) = default;
};

// A body with its own schedule. Operations of a region are in the graph's table like all others.
struct Region {
  std::vector<OpId> ops;         // in order
  std::vector<BufferId> yields;  // results, one per output of the RegionKernel
  friend bool operator==(const Region&, const Region&) = default;
};
enum class RegionKind : std::uint8_t {
  call,    // one region, run once
  branch,  // two regions, chosen by a bool scalar in operands[0]; no collective inside
  repeat,  // one region, run `trips` times
};
struct RegionKernel {
  RegionKind kind = RegionKind::call;
  std::vector<BufferId> operands;  // what the regions read from outside
  std::vector<Region> regions;
  Expr trips = 1;
  friend bool operator==(const RegionKernel&, const RegionKernel&) = default;
};

using Kernel =
    std::variant<Loops, Gemm, ExternKernel, CollectiveKernel, WaitKernel, ReleaseKernel, RegionKernel>;

struct Operation {
  std::string name;
  Kernel kernel;
  std::vector<BufferId> outputs;     // what it defines: owning buffers, or MutationOutputs of what it changes
  std::vector<std::string> origins;  // ONNX nodes that it came from, in graph order
  std::optional<Cost> cost;          // overrides the cost model

  template <class K>
  const K* as() const {
    return std::get_if<K>(&kernel);
  }
  template <class K>
  K* as() {
    return std::get_if<K>(&kernel);
  }
};

// -----------------------------------------------------------------------------------------------------------
// graph

// Something that lowering took for granted about dynamic sizes; checked when a step begins.
struct Guard {
  enum class Relation : std::uint8_t { equal, less_equal };
  Expr lhs, rhs;
  Relation relation = Relation::equal;
  std::string origin;  // ONNX node, or what it is good for
  friend bool operator==(const Guard&, const Guard&) = default;
};

struct GraphOutput {
  std::string name;  // ONNX name, as the user knows it
  BufferId buffer;
};
struct GraphInput {
  std::string name;
  BufferId buffer;
};

// Names in use in one table. Adding a name is O(1), so a graph of 100,000 nodes is built in linear time.
class NameTable {
 public:
  std::string unique(const std::string& wanted, const char* fallback);  // "x", or "x.1", "x.2", ...
 private:
  std::unordered_map<std::string, int> next_suffix_;
};

struct Graph {
  std::string name = "main";
  std::shared_ptr<ExprPool> pool = std::make_shared<ExprPool>();
  std::vector<Expr> dims;  // declared dimensions, in order of declaration
  std::vector<Guard> guards;
  int ranks = 1;  // world size
  std::vector<CommGroup> groups;
  std::vector<Storage> storages;
  std::vector<Buffer> buffers;
  std::vector<Operation> ops;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  NameTable storage_names, buffer_names, op_names;  // kept by add_*

  Buffer& operator[](BufferId id) { return buffers[static_cast<std::size_t>(id.index)]; }
  const Buffer& operator[](BufferId id) const { return buffers[static_cast<std::size_t>(id.index)]; }
  Storage& operator[](StorageId id) { return storages[static_cast<std::size_t>(id.index)]; }
  const Storage& operator[](StorageId id) const { return storages[static_cast<std::size_t>(id.index)]; }
  Operation& operator[](OpId id) { return ops[static_cast<std::size_t>(id.index)]; }
  const Operation& operator[](OpId id) const { return ops[static_cast<std::size_t>(id.index)]; }
  CommGroup& operator[](GroupId id) { return groups[static_cast<std::size_t>(id.index)]; }
  const CommGroup& operator[](GroupId id) const { return groups[static_cast<std::size_t>(id.index)]; }

  Expr add_dim(std::string_view name, Bounds bounds);
  GroupId add_group(std::string name, std::vector<int> ranks);  // or the one of that name, if its ranks agree
  StorageId add_storage(Storage storage);                       // makes the name unique
  BufferId add_buffer(Buffer buffer);                           // makes the name unique
  // Adds the operation (name made unique) and sets the producer of its outputs.
  OpId add_op(Operation op);

  // An owning buffer with a row-major FixedLayout over a new storage of the given kind.
  BufferId add_owned(std::string name, DType dtype, std::vector<Expr> sizes,
                     StorageKind kind = StorageKind::activation);
  // The name of `of`'s memory after an operation.
  BufferId add_mutation(BufferId of, std::string name);
};

// Row-major strides.
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);
bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides);
Expr numel(std::span<const Expr> sizes);

// The strides of a buffer (through mutations; a flexible layout counts as row-major).
std::vector<Expr> strides_of(const Graph& graph, BufferId buffer);
TensorRef whole(const Graph& graph, BufferId buffer);

// Where a buffer lies: the root storage (aliases resolved), the byte offset of its first element in it, and
// the byte range [begin, end) that any of its elements may touch.
struct MemoryRegion {
  StorageId storage;
  Expr offset = 0;
  Expr begin = 0;
  Expr end = 0;
};
MemoryRegion region(const Graph& graph, BufferId buffer);
MemoryRegion region(const Graph& graph, const TensorRef& ref);
StorageId root_storage(const Graph& graph, BufferId buffer);
StorageId root_storage(const Graph& graph, StorageId storage);
// The first name of the memory: mutations undone, views kept.
BufferId unmutated(const Graph& graph, BufferId buffer);
// False only when provably disjoint.
bool may_overlap(const MemoryRegion& a, const MemoryRegion& b);

std::string_view to_string(ReduceKind kind);
std::string_view to_string(PostOp::Kind kind);
std::string_view to_string(CollectiveKind kind);
std::string_view to_string(Algorithm algorithm);  // "" for `unasked`
std::string_view to_string(StorageKind kind);
std::string_view to_string(CommBufferKind kind);
std::string_view to_string(RegionKind kind);

}  // namespace braid::ir
