// Kernels as text: the builder that collects parameters and lines, and the table that merges equal kernels.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/c_expr.h"
#include "codegen/c_text.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

struct Kernel {
  std::string parameters;  // "const float* in0, float* out0, int dim_batch"
  std::string body;        // lines, indented by two spaces
  std::string varies;      // its template parameter: "int pack"; empty: it is no template
  std::string header;      // of runtime/device/, if cuda_instance.h does not include it
};

// One way to launch a kernel. All texts are C expressions over the step's dims (`dim_batch`, int64_t), the
// launch's count and its locals.
struct Variant {
  std::string argument;   // of the template
  std::string condition;  // for this variant, if those before do not apply; the last one has none
  std::string grid;
  std::string block;
  std::string shared = "0";  // bytes
  std::int64_t max_shared = 0;
};

// How the step function launches a kernel: by the first variant whose condition holds.
struct Launch {
  std::string wanted_name;
  Kernel kernel;
  std::vector<std::string> arguments;  // one per parameter; buffers as "$k", the k-th of `buffers`
  std::vector<ir::BufferId> buffers;
  std::string count;  // of points or rows; there is no launch for 0
  std::vector<std::pair<std::string, std::string>>
      locals;  // int64_t names for conditions and sizes: {"rows", "64"}
  std::vector<Variant> variants;
  bool spills = false;  // rows of `rows` bytes lie in the workspace if they do not fit in shared memory
  bool checks_indices = false;  // has the parameters `error` and `site`; the arguments hold "$site"
};

// "le_kernel<8>", or the name of a kernel that is no template.
std::string instance_name(const std::string& name, const std::string& argument);

// Kernels by text: those that differ only in their name are emitted once, under the first one's name.
class KernelTable {
 public:
  struct Entry {
    std::string name;
    Kernel kernel;
    std::vector<std::string> users;                  // operations, in order
    std::map<std::string, std::int64_t> max_shared;  // bytes, by the template's argument
  };
  // Returns the kernel's name: `wanted_name`, made a unique identifier.
  std::string add(const Launch& launch, const std::string& user);
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_text_;
  CNames names_;
};

// A size as C on the host.
std::string host_expr(ir::Expr e);
std::string host_operand(ir::Expr e);

// Builds one kernel.
class KernelBuilder {
 public:
  // `wide`: index arithmetic in 64 bits.
  KernelBuilder(const ir::Graph& graph, bool wide) : graph_(graph), wide_(wide) {}

  const ir::Graph& graph() const { return graph_; }
  const char* index_type() const { return wide_ ? "int64_t" : "int"; }

  // The parameter that points to the buffer's first element.
  std::string input(ir::BufferId buffer);
  std::string output(ir::BufferId buffer);

  // Returns an expression in the kernel. Dimensions become parameters, and so does a part that divides or
  // compares dimensions alone: the host computes it once. `value` returns the text of %k.
  std::string expr(ir::Expr e, ir::Extents extents, const std::function<std::string(int)>& value = {});
  std::string operand(ir::Expr e, ir::Extents extents, const std::function<std::string(int)>& value = {});

  void line(const std::string& text);
  void open(const std::string& text) { line(text.empty() ? "{" : text + " {"), ++depth_; }
  void close(const char* end = "}") { --depth_, line(end); }

  // Computes the indices of `dims`, outermost first, from the flat index over them, if they are in `used`.
  // `sizes` has the sizes of all dimensions.
  void decompose(const std::string& flat, const std::vector<std::size_t>& dims,
                 std::span<const ir::Expr> sizes, const std::vector<bool>& used);

  // Returns the text that replaces a load from its buffer; nullopt: read the buffer.
  using LoadText = std::function<std::optional<std::string>(const ir::Instr&)>;
  // Writes the body's instructions, one line each, and returns the text of the result.
  std::string body(const ir::LoopBody& body, ir::Extents extents, const LoadText& load = {},
                   const std::string& acc = {});
  // Writes instruction k, unless it is a literal, which is written where it is used.
  void define(const ir::LoopBody& body, std::size_t k, ir::Extents extents, const LoadText& load = {},
              const std::string& acc = {});
  // The text of a value of the body.
  static std::string value(const ir::LoopBody& body, ir::ValueId v);

  // The kernel is one that spills, and has its rows at `shared`.
  void spill_rows();
  // The kernel gets the parameters `error` and `site`. A body with a check has them anyway.
  void check_indices() { checks_indices_ = true; }

  // Fills in parameters and arguments; the caller fills in the rest.
  Launch finish();

 private:
  std::string instruction(const ir::LoopBody& body, std::size_t k, ir::Extents extents, const LoadText& load,
                          const std::string& acc);
  std::optional<std::string> size_parameter(ir::Expr e);

  const ir::Graph& graph_;
  bool wide_;
  int depth_ = 1;
  std::string text_;
  std::vector<std::pair<std::string, std::string>> buffers_, dims_;  // declaration, argument
  std::map<ir::BufferId, std::string> inputs_, outputs_;
  std::vector<ir::BufferId> buffer_ids_;
  std::vector<std::string> dim_names_;
  std::vector<ir::Expr> sizes_;  // that are parameters
  bool checks_indices_ = false;
  bool spills_ = false;
};

// Whether the index arithmetic of these loops needs 64 bits.
bool needs_wide_index(const ir::Graph& graph, const ir::Loops& loops);
bool needs_wide_index(ir::Expr e, const ir::LoopBody& body, std::span<const ir::Expr> sizes,
                      ir::ExprPool& pool);
// Which indices the expressions of the body and the store use.
std::vector<bool> used_indices(const ir::Loops& loops);
std::vector<bool> used_indices(const ir::LoopBody& body, std::size_t count);

}  // namespace braid::codegen::cuda
