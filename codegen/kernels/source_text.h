// The source of an extern kernel that comes with Braid: its function is in a header of the runtime, below
// runtime/host and runtime/device, and the generated program calls it. The text may occur in a file several
// times, if several programs are compiled together.
#pragma once

#include <map>
#include <string>

namespace braid::codegen {

inline std::string runtime_source(const std::string& symbol, const std::string& folder,
                                  const std::string& space) {
  const std::string defined = "BRAID_EXTERN_" + symbol;
  return "#ifndef " + defined + "\n#define " + defined + "\n#include \"runtime/" + folder + "/" + symbol +
         ".h\"\n\nstatic const char* " + symbol + "(const BraidExternCall* call) { return " + space +
         "::" + symbol + "(call); }\n#endif\n";
}

inline std::map<std::string, std::string> host_sources(const std::string& symbol) {
  return {{"cpu", runtime_source(symbol, "host", "braid::rt")}};
}

inline std::map<std::string, std::string> runtime_sources(const std::string& symbol) {
  std::map<std::string, std::string> sources = host_sources(symbol);
  sources["cuda"] = runtime_source(symbol, "device", "braid::rt::cuda");
  return sources;
}

}  // namespace braid::codegen
