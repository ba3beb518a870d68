// libFuzzer target: whatever the bytes of a model are, the frontend answers with a program or a user error:
// no crash, no hang, no internal error. Start from tests/corpus/bad_models/*/model.onnx.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "analysis/costs/cost_model.h"
#include "frontend/import.h"
#include "frontend/sharding/configuration.h"
#include "frontend/sharding/split.h"
#include "ir/error.h"
#include "split/candidates.h"
#include "split/mesh.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = [] {
    const auto path = std::filesystem::temp_directory_path() / ("braid_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path.string();
  }();
  // A name of its own each time: some file systems wait for the disk where a file is written again.
  static long count = 0;
  const std::string file = folder + "/" + std::to_string(count++) + ".onnx";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  braid::frontend::ImportOptions options;
  options.ranks = 2;
  try {
    braid::frontend::import_model(file, options);
  } catch (const braid::ir::UserError&) {
  }
  try {  // as its annotations for several devices say
    namespace sharding = braid::frontend::sharding;
    auto configuration = sharding::device_configuration(file, "");
    if (configuration && configuration->devices <= 8) {
      braid::split::SearchOptions search;
      search.annotated =
          sharding::annotations_of(std::make_shared<const sharding::DeviceConfiguration>(*configuration));
      braid::frontend::PlainModel model(file, {});
      braid::split::FoundPlans found;
      model.with_graph([&](const braid::split::Graph& graph) {
        found = braid::split::find_plans(graph, {configuration->mesh}, braid::analysis::cost_model_for("cpu"),
                                         search);
      });
      if (!found.plans.empty())
        model.lower(configuration->devices, sharding::plan_request(found.plans.front().text, "").get());
    }
  } catch (const braid::ir::UserError&) {
  }
  std::filesystem::remove(file);
  return 0;
}
