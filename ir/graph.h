// The program: buffers over storages, and the operations that fill them.
//
// A Graph holds tables of everything, addressed by ids. It says *what* is computed; order, fusion and
// grouping of the operations are in a Schedule (ir/schedule.h). Names are unique within their table and
// stable: the text format prints them.
//
// Memory model. A Storage is a contiguous range of bytes with one owner. A Buffer is a typed, strided view of
// one storage: either owning (its layout decides where the storage's elements lie), a view of another buffer
// (NonOwningLayout), or the name of the same memory after an operation changed it (MutationOutput). All
// questions of whether two buffers share bytes go through `region()`.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/comm_group.h"
#include "ir/dtype.h"
#include "ir/expr.h"
#include "ir/ids.h"
#include "ir/kernel_class.h"
#include "ir/kernel_fields.h"
#include "ir/loop_body.h"

namespace braid::ir {

// --------------------------------------------------------------------------------------------------------
// storages

enum class StorageKind : std::uint8_t {
  input,       // the caller's memory, read (or, when mutated, written) in place
  output,      // the caller's memory, written
  constant,    // weights
  activation,  // the arena
  comm,        // the communication segment
};

// The kind of a communication buffer, as the communication library is told.
enum class CommBufferKind : std::uint8_t {
  symmetric,   // peers read or write it directly
  registered,  // the library works on it
};

// The bytes of a constant: one entry for all ranks, or one per rank (per-rank weights). Empty if the data is
// unknown (a text that elides it); such a graph can be scheduled but not run.
struct ConstantData {
  std::vector<std::span<const std::byte>> per_rank;
  std::shared_ptr<const void> owner;  // keeps the spans alive (a mapped file, a vector)
  std::string file;                   // the file that holds them, if any; "{rank}" stands for the rank
  std::int64_t file_offset = 0;
  // For a text without the bytes: the FNV-1a hash (64 bits) of each entry that per_rank would hold.
  std::vector<std::uint64_t> elided;

  bool same_on_all_ranks() const { return per_rank.size() <= 1; }
  std::span<const std::byte> of_rank(int rank) const;
};
ConstantData own_bytes(std::vector<std::byte> bytes);
ConstantData own_bytes_of_ranks(std::vector<std::vector<std::byte>> per_rank);

struct Storage {
  std::string name;
  StorageKind kind = StorageKind::activation;
  Expr bytes = 0;
  CommBufferKind comm_kind = CommBufferKind::symmetric;  // comm only
  std::vector<GroupId> groups;                           // comm only: the groups that use it, sorted by name
  ConstantData data;                                     // constant only
  // The storage whose memory this one shares, as the user declared (a KV cache that grows in place).
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
struct NoneLayout {  // an operation without memory of its own: size 0
  friend bool operator==(const NoneLayout&, const NoneLayout&) = default;
};
struct MultiOutputLayout {  // stands for several outputs; the children hold the bytes
  friend bool operator==(const MultiOutputLayout&, const MultiOutputLayout&) = default;
};
struct CommBufferLayout {  // a fixed layout in the communication segment
  std::vector<Expr> strides;
  CommBufferKind kind = CommBufferKind::symmetric;
  std::vector<GroupId> groups;  // sorted by name
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
// operations. A kernel defines what an operation does. kName is its word in texts and reports, kFields the
// list of its members (ir/kernel_fields.h).

enum class ReduceKind : std::uint8_t { sum, prod, max, min, avg, last = avg };  // avg: collectives only

// The time and work attributed to an operation; negative values are unknown.
struct Cost {
  double ns = -1;
  double flops = -1;
  double bytes = -1;
  std::optional<KernelClass> kernel_class = std::nullopt;  // of a kernel without a body
  friend bool operator==(const Cost&, const Cost&) = default;
};

// A (fused) loop nest with one output. Index k runs over [0, sizes[k]), outermost first. The last `reduced`
// indices are folded with `reduce`, in any order, starting from its neutral element; store_index uses only
// the others. Inductor's Pointwise has reduced == 0, its Reduction reduced > 0.
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

// A step of an epilogue in the form of matrix libraries. Its operand is the accumulator or the result of the
// previous step; its result is value `result` of the epilogue's body, up to rounding: intermediate values may
// be kept in float32 or better and rounded once.
struct PostOp {
  enum class Kind : std::uint8_t {
    identity,  // rounds; only if the epilogue does nothing else
    relu,
    gelu_tanh,
    gelu_erf,
    tanh,
    sigmoid,
    swish,       // x * sigmoid(x)
    relu6,       // limited to [0, 6]
    hard_swish,  // x * relu6(x + 3) / 6
    scale,       // times `factor`, a normal float32
    mul_vector,  // times `operand`, the same in every row
    add_vector,  // `operand`, the same in every row
    add_matrix,  // `operand`, with the layout of the result
    last = add_matrix
  };
  static constexpr bool takes_operand(Kind kind) { return kind >= Kind::mul_vector; }
  Kind kind = Kind::identity;
  ValueId result;
  double factor = 1;
  ValueId operand;  // the load
  friend bool operator==(const PostOp&, const PostOp&) = default;
};

// The common part of matrix products and convolutions: out = epilogue(sum of products of a and b).
// Accumulates in f32 (f64 for f64, i32 for integers). The epilogue's indices are those of `out`, its `acc`
// the accumulator.
struct Product {
  TensorRef a, b, out;
  std::optional<LoopBody> epilogue;
  // The steps with which the epilogue begins, as ir/post_ops.h finds them; empty until a pass has named them.
  std::vector<PostOp> post_ops = {};
  // Operands, in f32, may be rounded to tf32: 11 significant bits, which tensor cores take. Sums stay f32.
  bool tf32 = false;
  friend bool operator==(const Product&, const Product&) = default;
};

// out[..., m, n] = epilogue(sum_k a[..., m, k] * b[..., k, n]); leading dimensions are batch dimensions of
// equal extent (a broadcast one has stride 0).
struct Gemm : Product {
  static constexpr std::string_view kName = "gemm";
  static constexpr auto kFields = std::tuple(attribute(&Product::tf32, "tf32"), operand(&Product::a),
                                             operand(&Product::b), OneResult{"a gemm"}, result(&Product::out),
                                             body(&Product::epilogue), body(&Product::post_ops));
  friend bool operator==(const Gemm&, const Gemm&) = default;
};

// How a window moves along one spatial dimension: tap t of position p is element p*stride + t*dilation - pad.
struct Window {
  std::int64_t taps = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  Expr pad = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

// Channels are the last dimension of every operand, wherever the strides put them in memory:
//
//   a   [n, spatial..., groups * c]      out [n, spatial..., groups * m]
//   b   [groups, taps..., c, m]
//   out[n, p, g*m + j] = epilogue(sum over taps t and channels i of a[n, q, g*c + i] * b[g, t, i, j])
//
// where q is the element that tap t of the window at p reads; elements outside of `a` are 0. Transposed: the
// windows are over `out`, and tap t of the window at q writes p (a convolution's gradient).
struct Convolution : Product {
  std::vector<Window> windows;  // one per spatial dimension
  bool transposed = false;
  static constexpr std::string_view kName = "convolution";
  static constexpr auto kFields =
      std::tuple(attribute(&Convolution::transposed, "transposed"), attribute(&Product::tf32, "tf32"),
                 operand(&Product::a), operand(&Product::b), OneResult{"a convolution"},
                 attribute(&Convolution::windows), result(&Product::out), body(&Product::epilogue),
                 body(&Product::post_ops));
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

enum class PoolKind : std::uint8_t {
  max,      // of no element: the lowest value
  arg_max,  // i64: row-major position of the first maximum in the spatial dimensions of x; -1: nowhere
  sum,
  average,  // of the elements inside of x
  last = average
};

// out[n, p, c] = what the window at p covers of x[n, ..., c]. Dimensions are those of a convolution.
struct Pooling {
  PoolKind kind = PoolKind::max;
  TensorRef x, out;
  std::vector<Window> windows;
  static constexpr std::string_view kName = "pool";
  static constexpr auto kFields =
      std::tuple(OneResult{"a pool"}, attribute(&Pooling::kind), operand(&Pooling::x),
                 attribute(&Pooling::windows), result(&Pooling::out));
  friend bool operator==(const Pooling&, const Pooling&) = default;
};

enum class CellKind : std::uint8_t { rnn, gru, lstm, last = lstm };

// A recurrent layer in one direction, t = 0, 1, ... (or backwards), h hidden values per element of the batch,
// and g = 1, 3, 4 gates in ONNX's order: rnn; gru z r h; lstm i o f c. The products of the input are computed
// before, for all t at once.
//
//   gates    [t, batch, g * h]  input times weights, and what is added to it
//   weights  [h, g * h]         recurrent
//   bias     [g * h]            added to the recurrent product
//   results  y [t, batch, h], the last h [batch, h], lstm: the last c [batch, h], and work
//            [batch, g * h], whose contents are undefined; its type is that of the sums
//
// All but the weights are row-major. From position lengths[batch] on (backwards: before it), y is 0 and the
// state stays.
struct Recurrence {
  CellKind cell = CellKind::rnn;
  bool reverse = false;
  bool linear_before_reset = false;  // gru: the reset gate scales the recurrent product instead of h
  bool coupled = false;              // lstm: the forget gate is 1 - the input gate
  TensorRef gates, weights, initial_h;
  std::optional<TensorRef> bias, initial_c, peepholes /* [3, h]: i, o, f */, lengths /* i32 [batch] */;
  std::vector<TensorRef> results;
  std::vector<LoopBody> activations;  // of `acc`: rnn f; gru f g; lstm f g h
  double clip = 0;                    // operands of activations are limited to [-clip, clip]; 0: not at all
  static constexpr std::string_view kName = "recurrence";
  static constexpr auto kFields =
      std::tuple(attribute(&Recurrence::cell), attribute(&Recurrence::reverse, "reverse"),
                 attribute(&Recurrence::linear_before_reset, "linear_before_reset"),
                 attribute(&Recurrence::coupled, "coupled"), attribute(&Recurrence::clip, "clip"),
                 operand(&Recurrence::gates), operand(&Recurrence::weights), operand(&Recurrence::initial_h),
                 operand(&Recurrence::bias, "bias"), operand(&Recurrence::initial_c, "cell_state"),
                 operand(&Recurrence::peepholes, "peepholes"), operand(&Recurrence::lengths, "lengths"),
                 result(&Recurrence::results), body(&Recurrence::activations));
  friend bool operator==(const Recurrence&, const Recurrence&) = default;
};

// The weights of a row of scores that has no softmax: all scores are -inf, or one of them is NaN or +inf. A
// row without keys is 0 in any case.
enum class UndefinedRows : std::uint8_t {
  zero_if_masked,  // zeros if all scores are -inf, else NaN: ONNX's and com.microsoft's attention
  nan,             // NaN: a softmax and a product
  zero,            // zeros: a softmax whose NaN are replaced by zeros
  last = zero
};
std::string_view to_string(UndefinedRows rows);

// Scaled dot-product attention; head h of the query reads head h * key_heads / heads of key and value:
//
//   query [batch, heads, queries, d]    key [batch, key_heads, keys, d]    value [batch, key_heads, keys, e]
//   score[b, h, i, j] = scale * (sum over k of query[b, h, i, k] * key[b, h', j, k])
//                       with a softcap c: c * tanh(score / c)
//   out[b, h, i] = sum over attended j of softmax(score[b, h, i])[j] * value[b, h', j]
//
// Any strides, all of one float type; scores and sums are f32 (f64 for f64). `undefined` gives the weights of
// a row whose scores have no softmax. Which keys a query attends to:
//
//   mask        [batch, heads, queries, keys], of a float type: added to the score; of bool: where it is
//               false, a score becomes `fill`, or `fill` is added to it. The weight of a key whose score is
//               -inf is 0.
//   valid_keys  [batch], i32 or i64: only the keys before this one
//   before, after  for the query at position p only keys in [p - before, p + after]; causal attention is
//               `after` 0. Query i is at positions[batch] + i (i32 or i64), without these at
//               first_position + i.
//
// A key that the last two exclude has the score -inf; it may be read or not. If its value is not finite and
// it is read, the row is NaN.
struct Attention {
  TensorRef query, key, value, out;
  std::optional<TensorRef> mask, valid_keys, positions;
  double scale = 1;
  double softcap = 0;  // 0: none
  double fill = -std::numeric_limits<double>::infinity();
  bool adds_fill = false;
  Expr first_position = 0;
  std::optional<Expr> before, after;  // over dimensions, like first_position
  UndefinedRows undefined = UndefinedRows::zero_if_masked;
  bool tf32 = false;  // Product::tf32 of both products
  static constexpr std::string_view kName = "attention";
  static constexpr auto kFields = std::tuple(
      OneResult{"an attention"}, operand(&Attention::query), operand(&Attention::key),
      operand(&Attention::value), attribute(&Attention::scale, "scale"),
      attribute(&Attention::softcap, "softcap"), operand(&Attention::mask, "mask"),
      Either{&Attention::fill, "fill", &Attention::adds_fill, "add"},
      operand(&Attention::valid_keys, "valid_keys"), operand(&Attention::positions, "positions"),
      attribute(&Attention::first_position, "first_position"), attribute(&Attention::before, "before"),
      attribute(&Attention::after, "after"), attribute(&Attention::undefined, "undefined"),
      attribute(&Attention::tf32, "tf32"), result(&Attention::out));
  friend bool operator==(const Attention&, const Attention&) = default;
};

using ExternAttributes = std::map<std::string, std::variant<std::int64_t, double, std::string>>;

// A kernel without a body: it has effects and a cost. `callee` names a runtime function, or nothing
// executable (graphs that exist only to be scheduled). A barrier's effects are unknown: nothing moves across
// it.
struct ExternKernel {
  std::string callee;
  std::vector<TensorRef> reads;
  std::vector<TensorRef> writes;  // of the operation's outputs, or of mutated buffers
  ExternAttributes attributes;
  bool barrier = false;
  static constexpr std::string_view kName = "extern";
  static constexpr bool kAnyOrder = true;  // of fields with a word
  static constexpr auto kFields =
      std::tuple(attribute(&ExternKernel::callee), operand(&ExternKernel::reads, "reads"),
                 result(&ExternKernel::writes, "writes"), attribute(&ExternKernel::attributes, "attributes"),
                 attribute(&ExternKernel::barrier, "barrier"));
  friend bool operator==(const ExternKernel&, const ExternKernel&) = default;
};

// Gives a dimension that only a run tells its value for the rest of the step: that of an i64 scalar. A
// value beyond the dimension's bounds, for which memory is planned, is an error of the step. Operations
// that mention the dimension come after it (ir/measured_dims.h).
struct Measure {
  Expr dim;
  TensorRef value;
  static constexpr std::string_view kName = "measure";
  static constexpr auto kFields = std::tuple(attribute(&Measure::dim), operand(&Measure::value));
  friend bool operator==(const Measure&, const Measure&) = default;
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,      // output is the concatenation of the group's inputs
  reduce_scatter,  // input is one slab per rank of the group
  broadcast,
  all_to_all,  // slab k of the input goes to rank k
  send,
  recv,
};

// How a collective runs. ir/collective_table.h lists what each kind and engine supports.
enum class Algorithm : std::uint8_t {
  unasked,    // not requested: passes may choose, otherwise the engine does
  automatic,  // the engine chooses at run time; passes keep it
  one_shot,   // every member reads the inputs of all others directly, once
  two_shot,   // every member reduces one slab of all inputs, then sends it to the others
  ring,       // slabs travel from neighbour to neighbour
  library,    // the communication library's own choice
};

// Starts a collective. Outputs are written until the matching WaitKernel; inputs, and outputs that peers
// access, are in use until the ReleaseKernel. It is in place where outputs[k] names the same elements as
// inputs[k]. Operands are contiguous.
struct CollectiveKernel {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupId group;
  ReduceKind reduce = ReduceKind::sum;
  int root = -1;  // broadcast: root; send, recv: peer; as a rank within the group
  std::vector<TensorRef> inputs;
  std::vector<TensorRef> outputs;
  Algorithm algorithm = Algorithm::unasked;
  bool blocking = false;                   // complete when issued: has no wait
  static constexpr bool kAnyOrder = true;  // of fields with a word
  static constexpr auto kFields =
      std::tuple(attribute(&CollectiveKernel::kind), attribute(&CollectiveKernel::reduce),
                 attribute(&CollectiveKernel::group), operand(&CollectiveKernel::inputs),
                 result(&CollectiveKernel::outputs), attribute(&CollectiveKernel::root, "root"),
                 attribute(&CollectiveKernel::algorithm, "algorithm"),
                 attribute(&CollectiveKernel::blocking, "blocking"));
  friend bool operator==(const CollectiveKernel&, const CollectiveKernel&) = default;
};

// The results of `start` are complete. This is a second mutation of its outputs; it also reads its inputs
// (they stay pinned).
struct WaitKernel {
  OpId start;
  static constexpr std::string_view kName = "wait";
  static constexpr auto kFields = std::tuple(attribute(&WaitKernel::start));
  friend bool operator==(const WaitKernel&, const WaitKernel&) = default;
};

// Every peer has finished with this rank's memory of `start`: its bytes may be written again.
struct ReleaseKernel {
  OpId start;
  static constexpr std::string_view kName = "release";
  static constexpr auto kFields = std::tuple(attribute(&ReleaseKernel::start));
  friend bool operator==(const ReleaseKernel&, const ReleaseKernel&) = default;
};

// A body with its own order. Its operations are in the graph's table like all others.
struct Region {
  std::vector<OpId> ops;         // in order
  std::vector<BufferId> yields;  // results, one per output of the RegionKernel
  friend bool operator==(const Region&, const Region&) = default;
};
enum class RegionKind : std::uint8_t {
  call,    // one region, run once
  branch,  // two regions, chosen by a bool scalar in operands[0]; no collective inside
  repeat,  // one region, run `trips` times
  // One region without collectives, run as long as the bool scalar in operands[0], which result 0 mutates, is
  // true.
  while_true,
  last = while_true
};
// Whether values computed at run time decide what runs, so that ranks may decide differently.
constexpr bool depends_on_data(RegionKind kind) {
  return kind == RegionKind::branch || kind == RegionKind::while_true;
}
struct RegionKernel {
  RegionKind kind = RegionKind::call;
  std::vector<BufferId> operands;  // what the regions read from outside
  std::vector<Region> regions;
  Expr trips = 1;
  friend bool operator==(const RegionKernel&, const RegionKernel&) = default;
};

using Kernel = std::variant<Loops, Gemm, Convolution, Pooling, Recurrence, Attention, ExternKernel, Measure,
                            CollectiveKernel, WaitKernel, ReleaseKernel, RegionKernel>;

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

// An assumption of lowering about dynamic sizes. It is checked when a step begins or, if it mentions measured
// dimensions, after the last of them is measured.
struct Guard {
  enum class Relation : std::uint8_t { equal, less_equal };
  Expr lhs, rhs;
  Relation relation = Relation::equal;
  std::string origin;  // the ONNX node or the purpose
  friend bool operator==(const Guard&, const Guard&) = default;
};

// The part that each rank has of a tensor that is whole in the plain model from which a split program was
// made.
struct Part {
  std::string state;        // on the axes of the mesh, as plans write it (docs/sharding.md): "S(1) on tp"
  std::vector<Expr> whole;  // sizes of the whole tensor
};

struct GraphOutput {
  std::string name;  // ONNX name
  BufferId buffer;
  std::optional<Part> part = std::nullopt;  // of what is not whole
  // The names of a classifier's classes: an integer tensor has positions in the list, a real one a column for
  // each name. For callers; nothing is computed from it.
  std::vector<std::string> classes = {};
};
struct GraphInput {
  std::string name;
  BufferId buffer;
  std::optional<Part> part = std::nullopt;
};

// The names used in one table. Adding a name is O(1), so a graph of 100,000 nodes is built in linear time.
class NameTable {
 public:
  std::string unique(const std::string& wanted, const char* fallback);  // "x", or "x.1", "x.2", ...
 private:
  std::unordered_map<std::string, int> next_suffix_;
};

// Bytes of which the addresses of padded rows are multiples: what matrix libraries move at once.
inline constexpr std::int64_t kRowUnit = 16;

struct Graph {
  std::string name = "main";
  std::shared_ptr<ExprPool> pool = std::make_shared<ExprPool>();
  std::vector<Expr> dims;  // declared dimensions, in order of declaration
  std::vector<Guard> guards;
  int ranks = 1;  // world size
  Mesh mesh;      // empty: none was given
  std::vector<CommGroup> groups;
  std::vector<Storage> storages;
  std::vector<Buffer> buffers;
  std::vector<Operation> ops;
  std::vector<OpId> measures;  // the operations that are a Measure, in order of creation; kept by add_op
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
  GroupId add_group(std::string name, std::vector<int> ranks);  // of one part
  GroupId add_partition(std::string name, Parts parts);         // returns an existing group with equal parts
  StorageId add_storage(Storage storage);                       // makes the name unique
  BufferId add_buffer(Buffer buffer);                           // makes the name unique
  // Adds the operation (name made unique) and sets the producer of its outputs.
  OpId add_op(Operation op);

  // An owning buffer with a row-major FixedLayout over a new storage of the given kind.
  BufferId add_owned(std::string name, DType dtype, std::vector<Expr> sizes,
                     StorageKind kind = StorageKind::activation);
  // The same with rows, of the last dimension, that begin at multiples of kRowUnit.
  BufferId add_padded(std::string name, DType dtype, std::vector<Expr> sizes,
                      StorageKind kind = StorageKind::activation);
  // Adds a name for `of`'s memory after an operation.
  BufferId add_mutation(BufferId of, std::string name);
};

// Row-major strides.
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);
bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides);
Expr numel(std::span<const Expr> sizes);

// The strides of a buffer (through mutations; a flexible layout counts as row-major).
std::vector<Expr> strides_of(const Graph& graph, BufferId buffer);
TensorRef whole(const Graph& graph, BufferId buffer);

// Where a buffer lies: its root storage (aliases resolved), the byte offset of its first element, and the
// byte range [begin, end) that its elements may touch.
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
// The buffer before all mutations; views are kept.
BufferId unmutated(const Graph& graph, BufferId buffer);
// False only if provably disjoint.
bool may_overlap(const MemoryRegion& a, const MemoryRegion& b);

std::string_view to_string(ReduceKind kind);
std::string_view to_string(PostOp::Kind kind);
std::string_view to_string(PoolKind kind);
std::string_view to_string(CellKind kind);
std::string_view to_string(CollectiveKind kind);
std::string_view to_string(Algorithm algorithm);  // "" for `unasked`
std::string_view to_string(StorageKind kind);
std::string_view to_string(CommBufferKind kind);
std::string_view to_string(RegionKind kind);

}  // namespace braid::ir
