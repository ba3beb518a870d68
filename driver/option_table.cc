#include "driver/option_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace braid {
namespace {

// The member at the end of a path of members.
template <auto... path>
OptionValue at(ModelOptions& options) {
  return &(options.*....*path);
}

using M = ModelOptions;
using C = CompileOptions;
using S = SplitOptions;
using Run = passes::RunOptions;
constexpr auto kSplit = &C::split;
constexpr auto kRun = &C::run;

constexpr OptionTraits number(double least, double most) { return {.least = least, .most = most}; }
constexpr OptionTraits choice(std::string_view choices) { return {.choices = choices}; }
constexpr OptionTraits python(std::string_view keyword, bool same = true) {
  return {.python = keyword, .keyword = same};
}
constexpr OptionTraits kBytes{.bytes = true}, kCommas{.commas = true}, kNotPython{.keyword = false},
    kCommasNotPython{.commas = true, .keyword = false};

constexpr std::string_view kModel = "Model", kPasses = "Passes and costs";

// In the order of --help.
constexpr Option kOptions[] = {
    {"name", "", at<&C::name>, "Name of the program (default: from the file's name)"},
    {"checked", "", at<&C::checked>, "Make the program check its buffers' lifetimes against the plan (slow)"},
    {"standalone", "", at<&C::standalone>,
     "Also write a CMakeLists.txt and Braid's sources, so that the folder of a CUDA program builds alone"},

    {"ranks", kModel, at<&C::import, &frontend::ImportOptions::ranks>, "Number of ranks (world size)",
     number(1, 1024)},
    {"devices", kModel, at<kSplit, &S::devices>,
     "Split a plain model over as many of N devices as make a step shortest", number(1, 1024)},
    {"tp", kModel, at<kSplit, &S::tensor_ranks>, "Split a plain model over exactly N devices",
     number(1, 1024)},
    {"mesh", kModel, at<kSplit, &S::mesh>,
     "Split a plain model over exactly the devices of a mesh, such as dp=2,tp=4: ranks along the last axis "
     "are neighbours"},
    {"plan", kModel, at<kSplit, &S::plan_file>,
     "Split a plain model as the plan in this file says (compile --emit plan)"},
    {"configuration", kModel, at<kSplit, &S::configuration>,
     "Split a model by ONNX's annotations for this configuration of devices"},
    {"at", kModel, at<&M::at>,
     "NAME=SIZE,...[*STEPS], with {devices}, {tp}, {mesh} or {plan}: a step is priced at these sizes of "
     "bounded dimensions instead of their upper bounds; several: one plan is chosen for all, each with its "
     "number of steps, such as {at sequence=128,past=0} {at sequence=1,past=512*100}"},
    {"with", kModel, at<&M::with>,
     "FILE[:NAME=SIZE,...][*STEPS], with {devices}, {tp} or {mesh}: another model of the same weights, such "
     "as one for single tokens beside one for prompts; one layout of the weights is chosen for the steps of "
     "all. {at} '*STEPS' says how many the model itself has",
     python("with_")},
    {"split-caches", kModel, at<kSplit, &S::caches>,
     "With {devices}, {tp} or {mesh}: caches may stay split, each rank takes and returns its part"},
    {"memory-limit", kModel, at<kSplit, &S::memory_limit>,
     "With {devices}, {tp} or {mesh}: bytes of a device that weights, inputs, outputs and planned memory may "
     "take (default: what the machine has, if its description says): 40GB (10^9 bytes each), 32GiB (2^30)",
     kBytes},
    {"keep", kModel, at<kSplit, &S::keep_file>,
     "With {devices}, {tp} or {mesh}: lines of a partial plan in this file are fixed, the rest is chosen"},
    {"strict", kModel, at<kSplit, &S::strict>,
     "With {devices}, {tp} or {mesh}: an error if an operator without a rule stays whole, or if one "
     "conversion takes more than {conversion-share} of the step"},
    {"conversion-share", kModel, at<kSplit, &S::conversion_share>,
     "With {strict}: percent of the step that one conversion may take", number(0, 100)},
    {"dim", kModel, at<&M::dims>, "NAME=SIZE fixes a dimension, NAME=MIN..MAX bounds it",
     python("dims", false)},
    {"default-dim", kModel, at<&M::default_dim>,
     "MAX or MIN..MAX for all dimensions without {dim} (a MAX alone: 1..MAX)"},
    {"capacity", kModel, at<&M::capacities>,
     "NAME=N: the most that a size may be that only the data of a step tell (the error that asks for it "
     "names "
     "it), N: that of all others; memory is planned for as much"},
    {"alias", kModel, at<&M::aliases>, "OUT=IN: the output shares the input's memory",
     python("aliases", false)},
    {"bind", kModel, at<&M::binds>,
     "INPUT=VALUE: the input becomes a constant: a number, nested lists such as [1,2], or FILE.npy",
     python("bind", false)},
    {"seed", kModel, at<&C::import, &frontend::ImportOptions::seed>,
     "Gives random operators without a seed one that follows from this number; otherwise they are refused"},
    {"target", kModel, at<&C::target>, "cpu, cuda, or cuda:sm_80,sm_90"},

    {"precision", kPasses, at<&C::precision>,
     "Type in which products compute, where it pays: f32 (as the model says); with constant weights bf16, "
     "f16, int8; tf32 on CUDA",
     choice("f32,tf32,bf16,f16,int8")},
    {"precise", kPasses, at<&C::precise>,
     "CUDA: every operation is computed as IEEE says; otherwise quotients, roots, exp and erf have cheaper "
     "forms with stated errors"},
    {"passes", kPasses, at<&C::passes>,
     "Comma-separated pass list instead of the default one; with options: name:a=1:b=2, or quoted "
     "'name{a=1,b=2}'"},
    {"disable", kPasses, at<kRun, &Run::disable>, "Passes to skip", kCommas},
    {"print-after", kPasses, at<kRun, &Run::print_after>, "Passes after which to print the IR, or 'all'",
     kCommasNotPython},
    {"plugin", kPasses, at<&M::plugins>, "Shared libraries with additional passes, operators and kernels",
     python("plugins")},
    {"bisect", kPasses, at<kRun, &Run::bisect>, "Run only the first N passes of the list",
     number(0, 1'000'000)},
    {"machine", kPasses, at<&C::machine>,
     "Machine for costs: see opt --list-machines, or a .json file; default: cpu, or h100 for CUDA"},
    {"costs", kPasses, at<&C::cost_file>,
     "Cost file: measured times by operation, which take precedence over the machine's"},
    {"memory-cap", kPasses, at<&C::memory_cap>,
     "Planned bytes that no pass may exceed: 1000000, 40GB (10^9 bytes each), 32GiB (2^30)", kBytes},
    {"force-kernel", kPasses, at<&M::forced_kernels>,
     "COLLECTIVE=KERNEL: the kernel of a collective (its name, a kind, or *): one_shot, two_shot, library, "
     "automatic; KERNEL:blocking also drops the wait",
     python("force_kernels")},
    {"link", kPasses, at<&M::link_text>,
     "Link between ranks as LATENCY,GB/s, for example 100us,1.5: used for costs and, if the program runs, "
     "for pacing its ranks"},
    {"no-verify", kPasses, at<&M::no_verify>, "Do not run the verifier after each pass", kNotPython},
};

const Option* find(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &Option::name);
  return found == std::end(kOptions) ? nullptr : found;
}

bool takes_text(const Option& option) {
  ModelOptions any;
  const OptionValue value = option.value(any);
  return std::holds_alternative<std::string*>(value) ||
         std::holds_alternative<std::optional<std::string>*>(value) ||
         std::holds_alternative<std::vector<std::string>*>(value);
}

}  // namespace

std::string Option::keyword() const {
  std::string own(traits.python.empty() ? name : traits.python);
  std::replace(own.begin(), own.end(), '-', '_');
  return own;
}

std::span<const Option> option_table() { return kOptions; }

const Option& option_named(std::string_view name) {
  const Option* found = find(name);
  ir::internal_check(found != nullptr, "there is no option '{}'", name);
  return *found;
}

std::string help_text(const Option& option, OptionStyle style) {
  CompileOptions caller;
  caller.style = style;
  std::string text;
  for (std::string_view rest = option.help; !rest.empty();) {
    const std::size_t begin = std::min(rest.find('{'), rest.size()), end = rest.find('}', begin);
    text += rest.substr(0, begin);
    if (begin == rest.size()) break;
    const std::string_view mark = rest.substr(begin + 1, end - begin - 1);
    const std::size_t space = mark.find(' ');
    if (find(mark.substr(0, space)) == nullptr) {
      text += rest.substr(begin, end + 1 - begin);
    } else {
      text += space == std::string_view::npos ? caller.option(mark)
                                              : caller.option(mark.substr(0, space), mark.substr(space + 1));
    }
    rest.remove_prefix(end + 1);
  }
  return text;
}

std::string CompileOptions::option(std::string_view name) const {
  const Option& option = option_named(name);
  return style == OptionStyle::python ? option.keyword() + "=" : fmt::format("--{}", option.name);
}

std::string CompileOptions::option(std::string_view name, std::string_view given) const {
  if (style == OptionStyle::command_line) return fmt::format("{} {}", option(name), given);
  const char* quote = takes_text(option_named(name)) ? "'" : "";
  return fmt::format("{}{}{}{}", option(name), quote, given, quote);
}

}  // namespace braid
