#include "tests/cli/cuda_programs.h"

#include <fmt/format.h>

#include <numeric>

#include "tests/paths.h"

namespace braid::test {
namespace {

std::string collectives_text(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return fmt::format(R"(graph collectives
ranks {}
group @all = [{}]
group @pair = [0, 1]
input %x: f32[{}]
%r: f32[{}] = all_reduce sum @all (%x) as reduce
%r.1 mutates %r = wait reduce
release reduce
%g: f32[{}] = all_gather @all (%r.1) as gather
%g.1 mutates %g = wait gather
release gather
%s: f32[{}] = reduce_scatter sum @all (%g.1) as scatter
%s.1 mutates %s = wait scatter
release scatter
%b: f32[{}] = broadcast @all (%s.1) root 0 as spread
%b.1 mutates %b = wait spread
release spread
%d: f32[{}] = all_to_all @all (%b.1) as deal
%d.1 mutates %d = wait deal
release deal
send @pair (%d.1) peer 1 as out
%v: f32[{}] = recv @pair peer 0 as in
wait out
release out
%v.1 mutates %v = wait in
release in
%y: f32[{}] output = pointwise {{ %0 = load %d.1 %1 = add %0, %0 store %1 }}
output %y
)",
                     ranks, fmt::join(all, ", "), 4 * ranks, 4 * ranks, 4 * ranks * ranks, 4 * ranks,
                     4 * ranks, 4 * ranks, 4 * ranks, 4 * ranks);
}

}  // namespace

std::string cuda_collectives(int ranks) {
  const Folder folder;
  return compiled(
      fmt::format("cuda_collectives_{}", ranks),
      {folder.file("collectives.braid", collectives_text(ranks)), "--target", "cuda", "--emit", "source"});
}

std::vector<std::string> cuda_case_arguments() {
  return {model(kCudaCase + "/model.onnx"),
          "--ranks",
          "2",
          "--target",
          "cuda",
          "--dim",
          "batch=1..4",
          "--dim",
          "sequence=1..16"};
}

std::string cuda_case_program() {
  std::vector<std::string> arguments = cuda_case_arguments();
  arguments.insert(arguments.end(), {"--emit", "source"});
  return compiled("cuda_case", arguments);
}

std::vector<std::string> cuda_environment() {
  return {"CXX=c++ -I" + paths::source() + " -DBRAID_EMULATED_DEVICE -include " +
          paths::source("tests/cli/fault.h") + " -include " + paths::source("tests/cli/cuda_fault.h")};
}

}  // namespace braid::test
