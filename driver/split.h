// Splits a plain model over devices: candidates of the search are compiled through all passes and simulated
// with overlap, and the one with the shortest step is taken.
#pragma once

#include <string>

#include "driver/compile.h"
#include "driver/split_report.h"
#include "frontend/emit_onnx.h"

namespace braid {

// Lowers the model as options.split asks: with the plan given, on exactly the ranks given, or on as many of
// the devices as make the step shortest. Throws the UserErrors of the import; BR0484 if the options
// contradict each other or the plan; BR0487 if the ranks do not divide the model; BR0488 if no plan fits the
// memory; BR0489 if the chosen plan is not strict.
ir::Schedule lower_split(const CompileOptions& options, SplitReport& report);

// Writes the model that was lowered with that report as files of its ranks (frontend/emit_onnx.h): with the
// plan that was chosen, or as it is.
void emit_onnx(const CompileOptions& options, const SplitReport& report,
               const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);

// Writes the plain model with that plan as ONNX annotations. Throws BR0492 if they cannot express it.
void emit_annotated(const CompileOptions& options, const SplitReport& report,
                    const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);

}  // namespace braid
