// Outputs of classifiers that no tensor of numbers can hold: strings, and lists of maps.
#pragma once

#include <functional>
#include <string>

#include "frontend/load.h"

namespace braid::frontend {

// Replaces every ZipMap by its input, and declares strings that follow from tables of labels as int64: they
// are positions in these tables. Model::classes gets the names of classes of graph outputs, and `note`, which
// may be null, what users should know.
void leave_out_maps_and_strings(Model& model, const std::function<void(const std::string& text)>& note);

}  // namespace braid::frontend
