// The state of emitting one program. Private to codegen/cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/cpp/cpp_text.h"
#include "codegen/cpp/emit.h"
#include "codegen/cpp/kernel_emit.h"
#include "codegen/slots.h"

namespace braid::codegen::cpp {

// The steps of the epilogue as statements that fill in the shape `s`.
void write_epilogue(Writer& w, const ir::Product& product);

// Whether the operands are 8-bit integers, whose sums are i32 (runtime/integer_gemm.h).
bool is_byte_product(const ir::Graph& graph, const ir::Product& product);
// Whether f32 rows meet 8-bit weights (runtime/byte_weights.h).
bool has_byte_weights(const ir::Graph& graph, const ir::Gemm& gemm);
// Whether it is a gemm of f16 or bf16 for which the runtime has kernels that apply an epilogue
// (runtime/half_gemm.h).
bool has_half_kernel(const ir::Graph& graph, const ir::Product& product);
// Whether the right-hand side is a constant that is one matrix.
bool is_packed_matrix(const ir::Graph& graph, const ir::TensorRef& b);
// Whether its epilogue, if any, is one that is applied to tiles of sums as it is written.
bool can_finish(const ir::Product& product);

class ProgramEmitter {
 public:
  ProgramEmitter(const ir::Schedule& schedule, const EmitOptions& options);
  EmittedProgram emit();

 private:
  struct KernelFunction {
    std::string name;
    KernelText text;
    std::vector<std::string> users;  // names of operations
  };
  struct Collective {
    ir::OpId op;
    std::size_t operand = 0;
    ir::CollectiveKind kind;
    ir::GroupId group;
    int detail = -1;
    ir::ReduceKind reduce;
    ir::Algorithm algorithm;
    ir::DType dtype;
    ir::TensorRef input, output;
    std::string label;
  };
  struct Packed {
    ir::BufferId b;
    std::string call;  // of Instance::pack
    std::int64_t elements = 0;
  };
  // A function of the sizes that returns the shape of a product, convolution, pool or attention.
  struct Shape {
    std::string type;  // of runtime/: GemmShape, ConvolutionShape, PoolShape, AttentionShape
    std::string body;
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  struct GemmUse {
    std::size_t shape = 0;
    std::optional<std::size_t> packed;
    std::string label;
  };
  struct WindowUse {
    std::size_t shape = 0;
    std::string weights;  // constant ones of a convolution: their address
    bool packs = false;   // at creation: the shape depends on no dimension
    std::string label;
  };

  struct AttentionUse {
    std::size_t shape = 0;
    std::string label;
  };

  // A row of the table of nodes.
  struct Node {
    std::string name, label;
    const char* kind = "KERNEL";  // of BraidNodeKind
    ir::OpId start;               // of its collective
  };

  // emit.cc: checks and tables
  void refuse_unsupported() const;
  void index_interface();
  std::string source_text() const;
  void write_tables(Writer& w) const;
  void write_tensor_tables(Writer& w) const;
  void write_collective_table(Writer& w) const;
  void write_node_table(Writer& w) const;
  void write_sizes(Writer& w) const;
  void write_kernels(Writer& w) const;
  void write_shapes(Writer& w) const;
  void write_class(Writer& w) const;
  void write_packing(Writer& w) const;
  void write_guards(Writer& w) const;
  std::string guard_call(const ir::Guard& guard, const char* dims) const;
  void write_choices(Writer& w) const;
  void write_step(Writer& w) const;
  void write_program_table(Writer& w) const;
  std::string header_text() const;
  nlohmann::ordered_json manifest(std::uint64_t id) const;

  // emit_lifecycle.cc: checks against the plan
  void find_lifecycle();
  void write_lifecycle(Writer& w) const;

  // emit_step.cc: operations
  void emit_nodes(const std::vector<ir::ScheduleNode>& nodes);
  void emit_loops(const std::vector<ir::OpId>& ops);
  void emit_op(ir::OpId op);
  // Emits an operation; one overload per kind of kernel.
  void emit(ir::OpId op, const ir::Loops&) { emit_loops({op}); }
  void emit(ir::OpId op, const ir::ExternKernel& kernel);
  void emit(ir::OpId op, const ir::Measure& kernel);
  void emit(ir::OpId op, const ir::CollectiveKernel& kernel);
  void emit(ir::OpId op, const ir::WaitKernel& wait) { emit_finish(op, wait.start, "wait"); }
  void emit(ir::OpId op, const ir::ReleaseKernel& release) { emit_finish(op, release.start, "release"); }
  void emit_finish(ir::OpId op, ir::OpId start, const char* call);
  void emit_copy(ir::BufferId from, ir::BufferId to, const std::string& why, bool own_node = false);
  void begin_node(const std::string& name, ir::OpId op);
  void note(const std::vector<ir::OpId>& ops, const std::string& what);
  std::string label(ir::OpId op) const;  // the ONNX node, otherwise the operation's name

  // emit_region.cc
  void emit(ir::OpId op, const ir::RegionKernel& given);
  void emit_body(ir::OpId op, const ir::Region& region);

  // emit_gemm.cc
  void emit(ir::OpId op, const ir::Gemm& gemm);
  std::size_t shape(const Shape& shape);
  std::string shape_name(std::size_t shape) const;  // of its function
  std::optional<std::size_t> packed_weight(const ir::Gemm& gemm);
  struct GemmCall {
    std::size_t index;
    std::string packed;  // last argument of the call: ", &packed_[0]", or nothing
  };
  GemmCall use_gemm(const ir::Gemm& gemm, const std::string& label, bool by_columns = false);

  // emit_finish.cc
  // `one_product`: not one product for each of several groups of columns.
  std::string finish_tile(const ir::Product& product, bool one_product);

  // emit_window.cc
  void emit(ir::OpId op, const ir::Convolution&) { emit_window(op); }
  void emit(ir::OpId op, const ir::Pooling&) { emit_window(op); }
  struct WindowFields;
  void emit_window(ir::OpId op);
  void emit_convolution(ir::OpId op, WindowFields& shape, const std::string& from, const std::string& into);
  std::vector<std::string> post_op_operands(const ir::Product& product);

  // emit_attention.cc
  void emit(ir::OpId op, const ir::Attention& k);
  std::string attention_fields(const ir::Attention& k) const;

  // emit_recurrence.cc
  void emit(ir::OpId op, const ir::Recurrence& k);
  // The number of parts of the recurrent product, and the text that computes one.
  std::pair<std::size_t, std::string> recurrent_products(ir::OpId op, const ir::Recurrence& k);
  std::string activation_functor(const ir::LoopBody& body);  // its name

  // emit_address.cc
  std::string address(ir::BufferId buffer, ir::Expr elements = 0, bool constant = true);
  std::string bytes_at(ir::BufferId buffer, ir::Expr elements = 0);  // as std::byte*
  bool overlap(ir::BufferId a, ir::BufferId b) const;
  bool has_memory(ir::BufferId buffer) const;
  std::string size(ir::Expr e) const { return c_expr(e, expr_style(names_)); }

  ir::Schedule s_;  // a copy: copies and epilogues become operations of their own
  ir::MemoryPlan plan_;
  std::string name_;
  bool checked_ = false;
  std::map<ir::OpId, ir::Expr>
      copies_;  // if `checked`: loops that only copy communication buffers, and their bytes
  std::vector<std::string> planned_buffers_, planned_touches_, planned_steps_;  // rows of tables
  SymbolText names_;
  std::map<std::string, ir::Expr> coordinates_;  // of the rank, by the name of the member that holds it
  Overlap overlap_;
  WeightLayout weights_;
  std::map<ir::StorageId, int> inputs_, outputs_;
  std::vector<bool> written_;      // per input: whether a step writes it
  std::vector<int> output_alias_;  // per output: the input whose memory it is, or -1
  std::vector<std::pair<ir::BufferId, ir::BufferId>> final_copies_;

  Slots slots_;
  std::map<std::string, std::size_t> kernel_index_;
  std::vector<KernelFunction> kernels_;
  std::vector<Collective> collectives_;
  std::map<ir::OpId, std::vector<std::size_t>> collective_of_;
  std::map<Shape, std::size_t> shape_index_;
  std::vector<Shape> shapes_;
  std::vector<Packed> packed_;
  std::vector<GemmUse> gemms_;
  std::vector<WindowUse> windows_;
  std::vector<AttentionUse> attentions_;
  std::map<std::string, std::size_t> functor_index_;
  std::vector<std::string> functors_;
  std::map<std::string, std::size_t> finish_index_;
  std::vector<std::string> finishes_;
  std::size_t recurrences_ = 0;
  std::set<std::string> headers_;  // of runtime/, beyond those of every program
  std::vector<std::string> sites_;
  std::vector<Node> nodes_;
  std::optional<Node> begun_;  // not emitted yet
  std::vector<std::string> step_;
  int region_depth_ = 0;
  std::map<int, bool> used_inputs_, used_outputs_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace braid::codegen::cpp
