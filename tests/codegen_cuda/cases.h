// The programs of these tests. They are emitted into a .cu while building (emit_cases.cc), so that the
// compiler runs once for many; the tests build the same schedules again, for the reference.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "ir/lowering.h"
#include "tests/support/collective_forms.h"
#include "tests/support/random_collectives.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_trees.h"
#include "tests/support/random_windows.h"

namespace braid::test {

// A fault planted in a source: the first `from` after `after` becomes `to`.
struct Edit {
  std::string after, from, to;
};
struct Case {
  std::string name;
  std::function<ir::Schedule()> build;  // planned
  codegen::cuda::CudaOptions options = {};
  std::string source = "cases";  // the .cu that holds it
  std::vector<Edit> edits = {};
  bool faulty = false;  // its results mean nothing
};
// The program of a case, as its source has it. Throws if an edit does not apply.
codegen::cuda::CudaProgram emitted(const Case& c);
// All of them, in a fixed order.
std::vector<Case> cases();
Case find_case(const std::string& name);

// Appended to `cases()` by one function per subject.
void add_elementwise_cases(std::vector<Case>& out);
void add_arithmetic_cases(std::vector<Case>& out);
void add_reduction_cases(std::vector<Case>& out);
void add_gemm_cases(std::vector<Case>& out);
void add_collective_cases(std::vector<Case>& out);
void add_random_cases(std::vector<Case>& out);
void add_form_cases(std::vector<Case>& out);
void add_peer_cases(std::vector<Case>& out);
void add_extern_cases(std::vector<Case>& out);
void add_recurrence_cases(std::vector<Case>& out);
void add_attention_cases(std::vector<Case>& out);
void add_tile_product_cases(std::vector<Case>& out);
void add_plan_fault_cases(std::vector<Case>& out);
void add_size_cases(std::vector<Case>& out);
void add_lost_peer_cases(std::vector<Case>& out);

inline constexpr std::uint64_t kCollectiveCases = 2;
RandomCollectives random_collective_case(std::uint64_t seed);  // as written

inline constexpr std::uint64_t kTreeCases = 6;
std::string tree_case_name(std::uint64_t seed);
RandomTrees tree_case(std::uint64_t seed);

inline constexpr int kFormRanks[] = {1, 2, 3, 4, 8};
std::vector<CollectiveCase> cuda_form_cases(int ranks);

// Above what the blocks of one kernel move at once (196,608 bytes of f32).
inline constexpr std::int64_t kMostPeerElements = 60'001;
inline constexpr ir::DType kPeerTypes[] = {
    ir::DType::f64, ir::DType::f16, ir::DType::bf16, ir::DType::i8,  ir::DType::i16, ir::DType::i32,
    ir::DType::i64, ir::DType::u8,  ir::DType::u16,  ir::DType::u32, ir::DType::u64, ir::DType::boolean};

inline constexpr std::uint64_t kRandomCases = 40;
RandomProgram random_case(std::uint64_t seed);                            // planned
inline constexpr std::uint64_t kEpilogueCases = 2;                        // of each type
ir::Schedule epilogue_case(std::uint64_t seed, const std::string& type);  // planned

struct RecurrenceCase {
  std::string name;
  std::uint64_t seed = 0;
  ir::DType dtype = ir::DType::f32;
  bool wide = false;
};
std::vector<RecurrenceCase> recurrence_cases();
RandomWindows planned_recurrence(const RecurrenceCase& c);

// A program for every choice of these sizes for each of its dimensions.
struct SizeCase {
  std::string name;
  std::vector<std::int64_t> sizes;
  double tolerance = 0;
  std::function<ir::Schedule()> build;
};
inline std::ostream& operator<<(std::ostream& out, const SizeCase& c) { return out << c.name; }
std::vector<SizeCase> size_cases();

struct AttentionCase {
  std::string name;
  std::uint64_t seed = 0;
  ir::DType dtype = ir::DType::f32;
};
std::vector<AttentionCase> attention_cases();
RandomWindows planned_attention(const AttentionCase& c);

// A schedule in program order with a memory plan. Each list in `fused` becomes one node.
ir::Schedule planned(ir::Graph graph, const std::vector<ir::OpId>& order,
                     const std::vector<std::vector<ir::OpId>>& fused = {});

struct TileProductCase {
  std::string name;
  std::uint64_t seed = 0;  // even: f16, odd: bf16
};
std::vector<TileProductCase> tile_product_cases();
ir::Schedule planned_tile_product(const TileProductCase& c);  // of dims `rows` and `batch`
std::vector<TileProductCase> tile_convolution_cases();
ir::Schedule planned_tile_convolution(const TileProductCase& c);  // of dims `images` and `width`

// Lowering with shorthands.
class Net {
 public:
  ir::Graph graph;
  ir::Lowering lowering{graph};

  ir::TensorBox input(const std::string& name, ir::DType dtype, std::vector<ir::Expr> sizes) {
    return lowering.input(name, dtype, std::move(sizes));
  }
  ir::TensorBox unary(ir::OpCode code, ir::TensorBox x);
  ir::TensorBox binary(ir::OpCode code, ir::TensorBox x, ir::TensorBox y);
  ir::TensorBox constant(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes, int seed);
  ir::Schedule finish(const std::vector<std::vector<ir::OpId>>& fused = {});
  // Everything in one fused node.
  ir::Schedule finish_fused();
};

}  // namespace braid::test
