// Extern kernels (codegen/extern_call.h).
#include <fmt/format.h>

#include "ir/parser.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/extern_kernels.h"

namespace braid::test {
namespace {

// Strides of a transposed view and a broadcast one, and an operand that is changed in place.
constexpr const char* kViews = R"(graph g
dim n in [0, 9]
input %x: f32[n, 4] input %v: f32[4]
%y: f32[4, n] = extern "blend" reads(%x [4, n] strides [1, 4]) attributes(scale = 2.0, shift = -3, text = "a\"b")
%z: f32[n, 4] = extern "blend" reads(%v [n, 4] strides [0, 1], %x) attributes(scale = 0.5, shift = 0, text = "")
%z.1 mutates %z = extern "blend" reads(%x, %z) writes(%z.1) attributes(scale = 0.25, shift = 1, text = "s")
%s: f32[n, 4] = pointwise { %0 = load %z.1 %1 = load %y [i1 * n + i0] %2 = add %0, %1 store %2 }
output %y
output %s)";

constexpr const char* kFails = R"(graph g
input %x: f32[2]
%y: f32[2] = extern "blend" reads(%x) attributes(scale = 1.0, shift = 13, text = "") from "/layer/Blend"
output %y)";

ir::Schedule parsed(const char* text) {
  register_extern_kernels();
  ir::Schedule schedule = ir::parse_schedule(text, "case");
  passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
  return schedule;
}

// A collective between two calls: events order the collective and the calls' kernels, which the program does
// not see.
ir::Schedule around_a_collective() {
  register_extern_kernels();
  Net net;
  net.graph.ranks = 2;
  const ir::GroupId world = net.graph.add_group("world", {0, 1});
  const ir::Expr n = net.graph.add_dim("n", {1, 6});
  const auto blend = [&](const ir::TensorBox& x, std::int64_t shift) {
    return net.lowering.extern_call("blend", {x}, {{ir::DType::f32, x.sizes()}},
                                    {{"scale", 2.0}, {"shift", shift}, {"text", std::string("xy")}})[0];
  };
  // A kernel that takes any strides reads the transposed view.
  const ir::TensorBox x = net.lowering.permute(net.input("x", ir::DType::f32, {n, 8}), {1, 0});
  const ir::TensorBox sum = net.lowering.all_reduce(blend(x, 1), world, ir::ReduceKind::sum);
  net.lowering.output("y", blend(sum, 2));
  return net.finish();
}

// Ties among few different numbers, and all lengths of a selection.
constexpr const char* kTopK = R"(graph g
dim n in [0, 5] dim k in [0, 9]
input %x: f32[n, 9] input %i: i64[n, 9] input %size: f32[k]
%r: f32[n, 9] = pointwise { %0 = load %x %1 = round %0 store %1 }
%v: f32[n, k], %p: i64[n, k] = extern "top_k" reads(%r) attributes(largest = 1)
%w: i64[n, k], %q: i64[n, k] = extern "top_k" reads(%i) attributes(largest = 0)
output %v output %p output %w output %q output %size)";

// Blocks of 4 and 8 bits, with and without zero points, and a last block that is cut short.
constexpr const char* kBlockProduct = R"(graph g
dim m in [0, 11]
input %x: f32[m, 80] input %q: u8[5, 48] input %e: u8[5, 80] input %s: f32[5, 3] input %u: f32[5, 5] input %z: u8[5, 3]
%y: f32[m, 5], %v: f32[m, 96] = extern "block_product" reads(%x, %q, %s, %z) attributes(bits = 4, block = 32)
%w: f32[m, 5], %t: f32[m, 80] = extern "block_product" reads(%x, %e, %u) attributes(bits = 8, block = 16)
output %y output %w)";

// Several updates of one row, rows without one, and positions that are left out.
constexpr const char* kScatter = R"(graph g
dim n in [0, 9] dim w in [0, 5]
input %x: f32[2, 7, w] input %at: i64[2, n] input %u: f32[2, n, w] input %i: i64[2, 7, 1] input %j: i64[2, n, 1]
%p: i64[2, n] = pointwise { %0 = load %at %1 = constant i64 8 %2 = mod %0, %1 store %2 }
%y: f32[2, 7, w] = extern "scatter" reads(%x, %p, %u) attributes(reduction = "none")
%z: f32[2, 7, w] = extern "scatter" reads(%x, %p, %u) attributes(reduction = "add")
%a: i64[2, 7, 1] = extern "scatter" reads(%i, %p, %j) attributes(reduction = "max")
%b: i64[2, 7, 1] = extern "scatter" reads(%i, %p, %j) attributes(reduction = "mul")
output %y output %z output %a output %b)";

constexpr const char* kCumulative = R"(graph g
dim n in [0, 9] dim w in [0, 5]
input %x: f32[3, n, w] input %i: i32[3, n, w]
%y: f32[3, n, w] = extern "cumulative" reads(%x) attributes(exclusive = 0, product = 0, reverse = 0)
%z: f32[3, n, w] = extern "cumulative" reads(%x) attributes(exclusive = 1, product = 0, reverse = 1)
%p: i32[3, n, w] = extern "cumulative" reads(%i) attributes(exclusive = 1, product = 1, reverse = 0)
output %y output %z output %p)";

ir::Schedule roi_align(bool maximum, std::int64_t sampling_ratio) {
  Net net;
  const ir::TensorBox x = net.input("x", ir::DType::f32, {2, 3, 6, 5}),
                      corners = net.input("corners", ir::DType::f32, {4, 4});
  const ir::TensorBox images = net.lowering.generate(
      {4}, [](ir::BodyBuilder& b, std::span<const ir::Expr> at) { return b.index(ir::mod(at[0], 2)); });
  net.lowering.output(
      "y", net.lowering.extern_call("roi_align", {x, corners, images}, {{ir::DType::f32, {4, 3, 2, 3}}},
                                    {{"half_pixel", std::int64_t{maximum}},
                                     {"maximum", std::int64_t{maximum}},
                                     {"sampling_ratio", sampling_ratio},
                                     {"spatial_scale", 2.0}})[0]);
  return net.finish();
}

}  // namespace

std::string tree_case_name(std::uint64_t seed) { return fmt::format("extern_trees_{}", seed); }
RandomTrees tree_case(std::uint64_t seed) { return {seed, seed % 2 == 1}; }

void add_extern_cases(std::vector<Case>& out) {
  out.push_back({"extern_views", [] { return parsed(kViews); }});
  out.push_back({"extern_around_a_collective", around_a_collective});
  out.push_back({"extern_fails", [] { return parsed(kFails); }});
  out.push_back({"extern_top_k", [] { return parsed(kTopK); }});
  out.push_back({"extern_block_product", [] { return parsed(kBlockProduct); }});
  out.push_back({"extern_scatter", [] { return parsed(kScatter); }});
  out.push_back({"extern_cumulative", [] { return parsed(kCumulative); }});
  for (std::uint64_t seed = 1; seed <= kTreeCases; ++seed)
    out.push_back({tree_case_name(seed), [seed] {
                     static constexpr const char* kAggregates[] = {"sum", "min", "max"};
                     return parsed(tree_case(seed).packed().text(kAggregates[seed % 3]).c_str());
                   }});
  out.push_back({"extern_roi_align_mean", [] { return roi_align(false, 0); }});
  out.push_back({"extern_roi_align_maximum", [] { return roi_align(true, 2); }});
}

}  // namespace braid::test
