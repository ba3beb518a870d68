#include "frontend/traces/import_trace.h"

#include <filesystem>
#include <fstream>

#include "frontend/external_data.h"
#include "frontend/traces/chakra.h"
#include "frontend/traces/kineto.h"
#include "frontend/traces/make_schedule.h"
#include "frontend/traces/recorded_op.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum class Format { kineto, chakra, chakra_json, gzip, host, other };

// The format, recognised by the beginning of the file. Chakra's binary form has no mark: its first message is
// GlobalMetadata, an empty one or one whose first field is the version, "0.0.4".
Format format_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Format::gzip;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (head[first] == '{' || head[first] == '[')) {
    const auto has = [&](std::string_view key) { return head.find(key) != std::string_view::npos; };
    if (has("\"traceEvents\"") || (has("\"ph\"") && has("\"pid\""))) return Format::kineto;
    if (has("\"workload_graph\"")) return Format::chakra_json;
    if (has("\"schema\"") && has("\"nodes\"")) return Format::host;
    if (has("_NODE\"") && (has("\"id\"") || has("\"name\""))) return Format::chakra_json;
    // A long preamble (device properties) may push the events out of sight.
    if (has("\"deviceProperties\"") || has("\"schemaVersion\"") || has("\"baseTimeNanoseconds\""))
      return Format::kineto;
    return head[first] == '[' && head.size() < 8 ? Format::kineto : Format::other;
  }
  if (head.size() >= 2) {
    const auto length = static_cast<unsigned char>(head[0]);
    const auto byte = [&](std::size_t k) {
      return k < head.size() ? static_cast<unsigned char>(head[k]) : 0;
    };
    if (length < 128) {
      // After the metadata: the length of a node (one or two bytes), then its first field: id (0x08) or name
      // (0x12).
      const std::size_t node = 1U + length;
      const bool version = length == 0 || (byte(1) == 0x0a && (length < 3 || byte(2) + 2U <= length));
      for (std::size_t skip = 1; version && skip <= 3; ++skip) {
        const unsigned tag = byte(node + skip);
        if (node + skip < head.size() && (tag == 0x08 || tag == 0x12)) return Format::chakra;
      }
      if (version && node == head.size()) return Format::chakra;  // no nodes
    }
  }
  return Format::other;
}

constexpr std::size_t kHead = 16 * 1024;

}  // namespace

bool looks_like_trace(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // a pipe can be read only once
  std::ifstream in(path, std::ios::binary);
  std::string head(kHead, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  // IR text and ONNX files begin otherwise: "graph", and a field of ModelProto (ir_version, 0x08).
  if (head.empty()) return false;
  const Format f = format_of(head);
  return f != Format::other;
}

ImportedTrace import_trace(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  switch (format_of(text.substr(0, kHead))) {
    case Format::kineto:
      return make_schedule(read_kineto(text, path));
    case Format::chakra_json:
      return make_schedule(read_chakra_json(text, path));
    case Format::chakra:
      return make_schedule(read_chakra(text, path));
    case Format::gzip:
      ir::user_error(errors::kNotATrace, {.file = path}, "the file is compressed", "unpack it with gunzip");
    case Format::host:
      ir::user_error(errors::kNotATrace, {.file = path},
                     "this is a host execution trace of PyTorch, which has no device times",
                     "turn it and the Kineto trace into a Chakra trace (chakra_trace_link, "
                     "chakra_converter), or give the "
                     "Kineto trace");
    case Format::other:
      break;
  }
  ir::user_error(errors::kNotATrace, {.file = path},
                 "this is neither a trace of the PyTorch profiler nor a Chakra trace",
                 "give a Chrome trace (JSON with 'traceEvents') or an .et file");
}

}  // namespace braid::frontend
