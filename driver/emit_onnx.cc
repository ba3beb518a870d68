#include "driver/emit_onnx.h"

namespace braid {

using frontend::sharding::plan_request;

void emit_onnx(const CompileOptions& options, const SplitReport& report,
               const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write) {
  frontend::ImportOptions import = options.import;
  if (const SplitCandidate* chosen = report.chosen_one()) {
    import.ranks = chosen->ranks;
    if (!report.plan.text.empty()) import.split = plan_request(report.plan.text, "");
  }
  frontend::emit_onnx(options.model, import, emit, write);
}

void emit_annotated(const CompileOptions& options, const SplitReport& report,
                    const frontend::EmitOnnxOptions& emit, const frontend::WriteParts& write) {
  frontend::ImportOptions import = options.import;
  import.ranks = report.chosen_one()->ranks;
  import.split = plan_request(report.plan_text(), "");
  frontend::emit_annotated(options.model, import, emit, write);
}

}  // namespace braid
