// Probabilities of classes from those of pairs of classes.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// `pairs` [n, classes, classes] (f32) has at i, j the probability of class i if it is i or j, and 0 at i, i.
// Returns [n, classes]: the second method of Wu, Lin and Weng, "Probability Estimates for Multi-class
// Classification by Pairwise Coupling" (JMLR 5, 2004), which ends a row's iteration as LIBSVM does.
TensorBox coupled_probabilities(ir::Lowering& l, const TensorBox& pairs, std::int64_t classes);

}  // namespace braid::frontend
