#include "analysis/costs/gpu_description.h"

#include <fmt/format.h>

#include <cctype>

namespace braid::analysis {
namespace {

using ir::JsonObject;
using ir::JsonValue;
using ir::NumberRange;

ConstantOrigin origin(const JsonValue& value) {
  if (value.string() == "data_sheet") return ConstantOrigin::data_sheet;
  if (value.string() == "measured") return ConstantOrigin::measured;
  if (value.string() == "fitted") return ConstantOrigin::fitted;
  value.fail(fmt::format("'{}' is not known", value.string()), "one of: data_sheet, measured, fitted");
}

GpuConstant constant(JsonObject object, NumberRange range) {
  GpuConstant result;
  result.value = object.number("value", range);
  result.origin = origin(object.value("origin"));
  if (const auto note = object.maybe("note")) result.note = note->string();
  object.finish();
  return result;
}

// "sm_90", "sm_90a": what nvcc's option -arch takes.
std::string architecture(const JsonValue& value) {
  const std::string& text = value.string();
  std::size_t digits = 3;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) ++digits;
  const std::string suffix = digits <= text.size() ? text.substr(digits) : "";
  if (!text.starts_with("sm_") || digits < 5 || digits > 6 ||
      !(suffix.empty() || suffix == "a" || suffix == "f"))
    value.fail(fmt::format("'{}' is not a GPU architecture", text), "for example sm_90");
  return text;
}

}  // namespace

GpuDescription gpu_description(JsonObject object) {
  constexpr NumberRange kCount{1, 1e9}, kRate{1e-3, 1e6};
  GpuDescription gpu;
  gpu.architecture = architecture(object.value("architecture"));
  const auto required = [&](const char* key, NumberRange range) {
    return constant(object.object(key), range);
  };
  const auto measured = [&](const char* key) -> std::optional<GpuConstant> {
    if (const auto value = object.maybe(key)) return constant(JsonObject(*value), kRate);
    return std::nullopt;
  };
  gpu.multiprocessors = required("multiprocessors", kCount);
  gpu.clock_mhz = required("clock_mhz", kRate);
  gpu.threads = required("threads", kCount);
  gpu.blocks = required("blocks", kCount);
  gpu.registers = required("registers", kCount);
  gpu.shared_bytes = required("shared_bytes", kCount);
  gpu.block_shared_bytes = required("block_shared_bytes", kCount);
  gpu.issue_per_cycle = required("issue_per_cycle", kRate);
  gpu.l1_wavefronts_per_cycle = required("l1_wavefronts_per_cycle", kRate);
  gpu.copy_gb_s = measured("copy_gb_s");
  gpu.l2_gb_s = measured("l2_gb_s");
  gpu.dram_latency_us = measured("dram_latency_us");
  gpu.l2_latency_us = measured("l2_latency_us");
  gpu.l1_latency_us = measured("l1_latency_us");
  object.finish();
  return gpu;
}

}  // namespace braid::analysis
