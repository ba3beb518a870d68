// The arithmetic that a model asks for, of which a timing's lower limit is made.
//
// Why not the work of the program that is run: passes and legalisation write convolutions as loops with a comparison per tap of the padding,
// copy windows, and convert between types. Such instructions are our way to compute the model, so a limit must not grow with them.
#pragma once

#include "analysis/costs/roofline.h"
#include "ir/graph.h"

namespace braid::test {

// Of a graph before passes, at these sizes:
//
//   products, convolutions, attention, recurrences   2 per multiply-add: those with a padding's zeros included, those of keys outside of
//                                                    attention's bounds not
//   elements of loops                                1 per floating-point instruction that computes: no loads, conversions, comparisons,
//                                                    selections, minima and maxima, nor what is of integers
//   sums, products and means of elements             1 per element
double model_flops(const ir::Graph& graph, const analysis::SizeOf& size);

}  // namespace braid::test
