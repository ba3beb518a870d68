// Writes split models as ONNX files.
#pragma once

#include "driver/compile_options.h"
#include "driver/split_report.h"
#include "frontend/emit_onnx.h"

namespace braid {

// Writes the model that was lowered with that report as files of its ranks (frontend/emit_onnx.h): with the
// plan that was chosen, or as it is.
void emit_onnx(const CompileOptions& options, const SplitReport& report,
               const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);
// Writes the plain model with that plan as ONNX annotations. Throws BR0492 if they cannot express it.
void emit_annotated(const CompileOptions& options, const SplitReport& report,
                    const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write);

}  // namespace braid
