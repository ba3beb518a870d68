// The work of an operator: a column of its row (op_registry.h). It determines the cost of a node of a split,
// whether the node becomes a kernel of its own and which of its inputs are multiplied (split/work.h). So
// nothing is read off an operator's name.
//
//   {"", "Conv", 1, kNewestOpset, kFloats, lower_convolution<false>, work::convolution(0, 1)},
//   {"", "QLinearConv", 10, kNewestOpset, kQuantisedBytes, lower_qlinear_conv, work::convolution(0, 3)},
//   {"", "Erf", 9, kNewestOpset, kFloats, lower<OpCode::erf>, work::pointwise(10)},
//
// Flops are counted as the lowered loops are (analysis/costs/roofline.h): one per instruction of
// ir/op_table.h, ten where it is transcendental or divides. tests/frontend/sharding/work_test.cc holds every
// row to what its operator is lowered to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "split/work_kind.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace braid::frontend {

using split::Folded;
using split::WorkKind;
using WorkOperand = split::Operand;

// A node whose flops are counted.
struct WorkNode : split::Operands {
  const onnx::NodeProto* proto = nullptr;
  int version = 1;

  const onnx::AttributeProto* attribute(const char* name) const;
  std::int64_t int_attribute(const char* name, std::int64_t fallback) const;
  std::string string_attribute(const char* name, const char* fallback) const;
  std::vector<std::int64_t> ints_attribute(const char* name) const;
};

struct Work;
using WorkFormula = double (*)(const WorkNode& node, const Work& work);

// Inputs of attention beside query and key.
struct AttentionInputs {
  int query = 0;
  int key = -1;                  // absent: as many keys as queries
  int weights = -1;              // the input that projects the first one to queries, keys and values
  int past = -1;                 // earlier keys
  const char* causal = nullptr;  // the attribute that hides later keys
  bool causal_unless_said = false;
  const char* window = nullptr;  // the attribute with the number of keys before a query that it sees
};

// A literal; made by the functions of namespace work. It has no default, so a row without one does not
// compile.
struct Work : split::WorkFacts {
  constexpr Work(WorkKind what, WorkFormula formula, double per_element = 0)
      : WorkFacts{what}, flops(formula), each(per_element) {}

  WorkFormula flops;  // of the whole node; null: none
  double each;        // flops per element, of formulas that have it
  AttentionInputs attends = {};
  // Bytes that kernels of one node pass to each other, and bytes of tables that the compiler adds, which no
  // plan cuts. Null: none.
  WorkFormula passed_on = nullptr, tables = nullptr;

  constexpr Work of_inputs(int first, int second = -1) const {
    Work w = *this;
    w.a = first;
    w.b = second;
    return w;
  }
  constexpr Work in_passes(int count) const {
    Work w = *this;
    w.passes = count;
    return w;
  }
  constexpr Work looking_up() const {
    Work w = *this;
    w.looks_up = true;
    return w;
  }
  constexpr Work passing_on(WorkFormula bytes) const {
    Work w = *this;
    w.passed_on = bytes;
    return w;
  }
  constexpr Work folding(Folded what) const {
    Work w = *this;
    w.folded = what;
    return w;
  }
};

namespace work {

// ---- formulas, which the functions below choose; flops unless they say bytes

double per_result(const WorkNode& node, const Work& work);  // `each` per element of the largest output
double per_input(const WorkNode& node, const Work& work);   // per element of input a
double variadic_flops(const WorkNode& node, const Work& work);
double product_flops(const WorkNode& node, const Work& work);
double einsum_flops(const WorkNode& node, const Work& work);
double transform_flops(const WorkNode& node, const Work& work);
double short_transform_flops(const WorkNode& node, const Work& work);
double convolution_flops(const WorkNode& node, const Work& work);
double transposed_convolution_flops(const WorkNode& node, const Work& work);
double deformable_convolution_flops(const WorkNode& node, const Work& work);
double causal_convolution_flops(const WorkNode& node, const Work& work);
double attention_flops(const WorkNode& node, const Work& work);
double recurrence_flops(const WorkNode& node, const Work& work);
double pool_flops(const WorkNode& node, const Work& work);
double channel_window_flops(const WorkNode& node, const Work& work);
double column_flops(const WorkNode& node, const Work& work);
double region_flops(const WorkNode& node, const Work& work);
double resize_flops(const WorkNode& node, const Work& work);
double sample_flops(const WorkNode& node, const Work& work);
double best_flops(const WorkNode& node, const Work& work);
double draw_flops(const WorkNode& node, const Work& work);
double determinant_flops(const WorkNode& node, const Work& work);
double tree_flops(const WorkNode& node, const Work& work);
double tree_key_bytes(const WorkNode& node, const Work& work);
double attribute_product_flops(const WorkNode& node, const Work& work);
double attribute_product_bytes(const WorkNode& node, const Work& work);
double vector_kernel_bytes(const WorkNode& node, const Work& work);
double tree_table_bytes(const WorkNode& node, const Work& work);
double scatter_flops(const WorkNode& node, const Work& work);
double transform_bytes(const WorkNode& node, const Work& work);
double transform_table_bytes(const WorkNode& node, const Work& work);
double short_transform_bytes(const WorkNode& node, const Work& work);
double short_transform_table_bytes(const WorkNode& node, const Work& work);
double sampled_column_bytes(const WorkNode& node, const Work& work);
double attention_bytes(const WorkNode& node, const Work& work);
double spelled_attention_bytes(const WorkNode& node, const Work& work);
double widened_bytes(const WorkNode& node, const Work& work);
double widened_pool_bytes(const WorkNode& node, const Work& work);
double resize_bytes(const WorkNode& node, const Work& work);
double draw_bytes(const WorkNode& node, const Work& work);
double position_bytes(const WorkNode& node, const Work& work);

// ---- nothing at run time

constexpr Work sizes() { return {WorkKind::sizes, nullptr}; }
constexpr Work view() { return {WorkKind::view, nullptr}; }
constexpr Work constant() { return {WorkKind::constant, nullptr}; }
constexpr Work list() { return {WorkKind::list, nullptr}; }
constexpr Work control() { return {WorkKind::control, nullptr}; }

// ---- fused loops, with flops per element of the result

constexpr Work reorder() { return {WorkKind::reorder, nullptr}; }
constexpr Work repeat() { return {WorkKind::repeat, nullptr}; }
constexpr Work join() { return {WorkKind::join, nullptr}; }
constexpr Work select(double each = 0) { return {WorkKind::select, per_result, each}; }
constexpr Work gather(double each) { return {WorkKind::gather, per_result, each}; }
constexpr Work pointwise(double each) { return {WorkKind::pointwise, per_result, each}; }
// Per element of the result and input but one.
constexpr Work variadic(double each) { return {WorkKind::pointwise, variadic_flops, each}; }
// Resize and Upsample: by their mode, and the axes that change.
constexpr Work resize() { return Work(WorkKind::gather, resize_flops).of_inputs(0).passing_on(resize_bytes); }
// GridSample: by its mode, and the axes of an image.
constexpr Work sample() { return Work(WorkKind::gather, sample_flops).of_inputs(0); }

// ---- folds

// Flops per element of the first input, which is read so many times.
constexpr Work reduction(double each, int passes = 1) {
  return Work(WorkKind::reduction, per_input, each).of_inputs(0).in_passes(passes);
}
// Per element of the result.
constexpr Work reduction_of_result(double each) { return {WorkKind::reduction, per_result, each}; }
// The same where loops fold the axes that the result lacks, or the last dimension (Folded).
constexpr Work fold(double each, int passes = 1) { return reduction(each, passes).folding(Folded::rest); }
constexpr Work row_fold(double each, int passes) { return reduction(each, passes).folding(Folded::rows); }
constexpr Work softmax(double each, int passes) {
  return Work(WorkKind::softmax, per_input, each).of_inputs(0).in_passes(passes);
}
// Windows of attribute kernel_shape: flops per element of each.
constexpr Work pool(double each) { return {WorkKind::reduction, pool_flops, each}; }
// The same of elements that are computed before and after it.
constexpr Work widened_pool(double each) { return pool(each).passing_on(widened_pool_bytes); }
// LRN: windows of attribute `size` over channels.
constexpr Work channel_window() {
  return Work(WorkKind::reduction, channel_window_flops).of_inputs(0).in_passes(2);
}
// Col2Im: each element of the image from the columns over it.
constexpr Work columns() { return {WorkKind::reduction, column_flops}; }
// RoiAlign: samples of each bin.
constexpr Work regions() { return {WorkKind::reduction, region_flops}; }
// TopK: a heap of as many elements.
constexpr Work best() { return Work(WorkKind::reduction, best_flops).of_inputs(0); }
// Tree ensembles: steps of the descents, and a key for each feature.
constexpr Work trees() {
  Work w = Work(WorkKind::reduction, tree_flops).of_inputs(0).passing_on(tree_key_bytes);
  w.tables = tree_table_bytes;
  return w;
}
// Rows times coefficients or support vectors, which are attributes.
constexpr Work attribute_product() {
  Work w = Work(WorkKind::reduction, attribute_product_flops).of_inputs(0).passing_on(vector_kernel_bytes);
  w.tables = attribute_product_bytes;
  return w;
}
// Multinomial: probabilities, and the first sum of them that exceeds each number.
constexpr Work draws() { return Work(WorkKind::reduction, draw_flops).of_inputs(0).passing_on(draw_bytes); }
constexpr Work determinant() { return Work(WorkKind::reduction, determinant_flops).of_inputs(0); }

// ---- writes: a kernel goes through updates, input 2, at positions that are computed from indices, input 1

constexpr Work scatter(double each) {
  return Work(WorkKind::scatter, scatter_flops, each).of_inputs(1, 2).passing_on(position_bytes);
}
// An index for each element of the updates, or a vector of indices for each slice.
constexpr Work scatter_elements() { return scatter(1); }
constexpr Work scatter_slices() { return scatter(0); }
// The indices, input 1, are positions of the elements of input 0: nothing is computed.
constexpr Work unpool() {
  return Work(WorkKind::scatter, nullptr, 1).of_inputs(1, 0).passing_on(position_bytes);
}

// ---- products, of these inputs

constexpr Work product(int a, int b) { return Work(WorkKind::product, product_flops).of_inputs(a, b); }
constexpr Work matrix_product(int a, int b) {
  Work w = product(a, b);
  w.exact = true;
  return w;
}
constexpr Work einsum() { return Work(WorkKind::product, einsum_flops).of_inputs(0, 1); }
// DFT and STFT: products with a matrix of sines and cosines.
constexpr Work transform() {
  Work w = Work(WorkKind::product, transform_flops).of_inputs(0).passing_on(transform_bytes);
  w.tables = transform_table_bytes;
  return w;
}
constexpr Work short_transform() {
  Work w = Work(WorkKind::product, short_transform_flops).of_inputs(0).passing_on(short_transform_bytes);
  w.tables = short_transform_table_bytes;
  return w;
}
constexpr Work convolution(int x, int filters) {
  return Work(WorkKind::convolution, convolution_flops).of_inputs(x, filters);
}
constexpr Work transposed_convolution(int x, int filters) {
  return Work(WorkKind::convolution, transposed_convolution_flops).of_inputs(x, filters);
}
// A product with columns that are sampled first.
constexpr Work deformable_convolution(int x, int filters) {
  return Work(WorkKind::convolution, deformable_convolution_flops)
      .of_inputs(x, filters)
      .passing_on(sampled_column_bytes);
}
// Each channel alone, as a fold.
constexpr Work causal_convolution(int x, int filters) {
  return Work(WorkKind::reduction, causal_convolution_flops).of_inputs(x, filters);
}
// Layers of input, its weights and the recurrent ones.
constexpr Work recurrence() { return Work(WorkKind::recurrence, recurrence_flops).of_inputs(0, 1); }

constexpr Work attention(const AttentionInputs& inputs) {
  Work w = Work(WorkKind::attention, attention_flops)
               .of_inputs(inputs.query, inputs.key)
               .passing_on(attention_bytes);
  w.attends = inputs;
  w.weights = inputs.weights;
  return w;
}

// With quantised operands: its scores are in memory.
constexpr Work spelled_attention(const AttentionInputs& inputs) {
  return attention(inputs).passing_on(spelled_attention_bytes);
}

constexpr Work collective() { return {WorkKind::collective, nullptr}; }

}  // namespace work

}  // namespace braid::frontend
