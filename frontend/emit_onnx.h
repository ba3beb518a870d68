// Models as ONNX files, one per rank, as load_ranks reads them again.
//
//   NAME.rank0.onnx, NAME.rank1.onnx, ...   one graph; small weights
//   NAME.weights                            large weights that all ranks share
//   NAME.rank0.weights, ...                 large weights that differ: each rank has its own part
//
// The same model gives the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontend/import.h"

namespace braid::frontend {

// The operators by which an emitted model communicates: "ai.braid", "com.microsoft", "DistCollective"
// (collective_forms.h).
enum class CollectiveForm : std::uint8_t { braid, microsoft, dist };
const char* to_string(CollectiveForm form);
// By those names; nullopt for others.
std::optional<CollectiveForm> collective_form_named(std::string_view name);

struct EmitOnnxOptions {
  std::string name;  // of the files
  CollectiveForm form = CollectiveForm::braid;
  std::int64_t external_bytes = 65536;  // weights of at least so many bytes go into data files
};

// Writes a file, the parts one after another. They are valid during the call.
using WriteParts = std::function<void(const std::string& name, std::span<const std::string_view> parts)>;

// Writes the model as import_model takes it, split if the options ask for it. Throws the UserErrors of
// rank_model and rewrite_collectives.
void emit_onnx(const std::string& path, const ImportOptions& options, const EmitOnnxOptions& emit,
               const WriteParts& write);

// Writes the plain model as one file, NAME.onnx, with the plan of the options' split as ONNX's annotations
// (sharding/annotate.h). Throws the UserErrors of rank_model and annotate.
void emit_annotated(const std::string& path, const ImportOptions& options, const EmitOnnxOptions& emit,
                    const WriteParts& write);

}  // namespace braid::frontend
