// Targets make programs of planned schedules. A target is one value in a table, like a pass; driver, manifest
// and command line know its name and nothing else about it. A new target is a folder in codegen/ and a row in
// target.cc, or a plug-in that calls register_target.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/legalise.h"
#include "codegen/program_folder.h"
#include "ir/schedule.h"
#include "passes/kernel_choice.h"
#include "passes/pass.h"
#include "passes/target_kernels.h"

namespace braid::codegen {

struct EmitRequest {
  std::string name;         // of the program; made a C identifier
  bool checked = false;     // the program checks itself against its memory plan as it runs
  bool precise = false;     // every operation is computed as IEEE says
  bool standalone = false;  // with all that its folder needs to be built without Braid
};
struct Emitted {
  std::string name;
  std::uint64_t id = 0;  // of the compilation
};

struct BuildRequest {
  std::vector<std::string> architectures;  // of GPUs: "sm_90", ...; empty: the target's choice
  bool emulated = false;                   // for the emulated device, if the target has one
  std::string cpu;                         // for -march of the host compiler; empty: this machine's
};

// The interface that the target's libraries export.
enum class ProgramAbi : std::uint8_t {
  host,  // runtime/program_abi.h
  cuda,  // runtime/cuda_abi.h
};

struct Target {
  std::string name;           // of --target and in manifests
  std::string machine;        // default of the passes' costs
  passes::CommEngine engine;  // executes the collectives
  passes::TargetKernels kernels = {};
  ProgramAbi abi;
  std::vector<std::string>
      files;                   // kinds of files that a program may have: ".cc", ".h", ".so"; the source first
  std::string library;         // the one among them that runs here, with or without a GPU
  std::string device_library;  // the one for GPUs, if the target has one
  bool has_architectures = false;   // --target NAME:ARCHITECTURE,...
  bool has_checked = false;         // EmitRequest::checked
  bool has_precise = false;         // EmitRequest::precise: without it some operations are cheaper
  bool has_standalone = false;      // EmitRequest::standalone
  std::vector<passes::Pass> first;  // run before all other passes
  std::vector<passes::Pass>
      after_layouts;    // run after choose_layouts, or first where the list has no such pass
  KernelLimits limits;  // of the target's kernels, for legalise()
  // Returns why a simple kernel of the target computes the product of a legalised schedule; empty if its
  // matrix library does. Null: the library always does.
  std::function<std::string(const ir::Graph&, const ir::Product&)> why_not_library = {};
  // Emits source, header, weights and manifest into the folder, unpublished. Throws user errors if the target
  // has no code for something in the schedule.
  std::function<Emitted(const ir::Schedule&, const EmitRequest&, ProgramFolder&)> emit;
  // Makes the library of the source DIR/NAME and returns its path.
  std::function<std::string(const std::string& dir, const std::string& name, const BuildRequest&)> build;
};

// Adds a target; a plug-in does so from a static object. Internal error if the name is taken.
void register_target(Target target);

// All targets, the built-in ones first. References to them stay valid.
const std::deque<Target>& targets();
// Null if there is none of that name.
const Target* find_target(std::string_view name);
// User error BR0003 if there is none of that name; the hint lists all.
const Target& target_named(std::string_view name);

}  // namespace braid::codegen
