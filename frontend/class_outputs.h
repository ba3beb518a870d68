// Outputs of classifiers that no tensor of numbers can hold: strings, and lists of maps.
#pragma once

#include "frontend/load.h"

namespace braid::frontend {

// Replaces every ZipMap by its input, and declares strings that follow from tables of labels as int64: they
// are positions in these tables. Model::classes gets the names of classes of graph outputs, and Model::notes
// what users should know.
void leave_out_maps_and_strings(Model& model);

}  // namespace braid::frontend
