// The arithmetic that a model asks for, of which a timing's lower limit is made.
//
// It is not the work of the program that is run: passes and legalisation write convolutions as loops with a
// comparison per tap of the padding, copy windows, and convert between types. Such instructions are our way
// to compute the model, so a limit must not grow with them.
#pragma once

#include "analysis/costs/roofline.h"
#include "ir/graph.h"

namespace braid::test {

// Returns the operations of a graph before passes, at these sizes:
//
//   products, convolutions,                2 per multiply-add: including those with a padding's zeros,
//   attention, recurrences                 excluding those of keys outside of attention's bounds
//   elements of loops                      1 per floating-point instruction that computes: no loads,
//                                          conversions, comparisons, selections, minima, maxima, negations,
//                                          absolute values and signs, and none of integers
//   sums, products and means of elements   1 per element
double model_flops(const ir::Graph& graph, const analysis::SizeOf& size);

}  // namespace braid::test
