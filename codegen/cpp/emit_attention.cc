// Attention: calls of runtime/attention.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/cpp/program_emitter.h"

namespace braid::codegen::cpp {

using namespace ir;

// The fields of runtime/attention.h's AttentionShape.
std::string ProgramEmitter::attention_fields(const Attention& k) const {
  Writer w;
  const auto line = [&](const std::string& field, const std::string& value) {
    w.line(fmt::format("s.{} = {};", field, value));
  };
  const auto set = [&](const std::string& field, Expr value) { line(field, size(value)); };
  const auto type = [&](const std::string& field, const TensorRef& ref) {
    const DType of = s_.graph[ref.buffer].dtype;
    line(field, fmt::format("DType::{}", of == DType::boolean ? "boolean" : to_string(of)));
  };
  const auto strides = [&](const std::string& field, const TensorRef& ref) {
    std::vector<std::string> values;
    for (const Expr& stride : ref.strides) values.push_back(size(stride));
    line(field, fmt::format("{{{}}}", fmt::join(values, ", ")));
  };
  type("type", k.query);
  set("batch", k.query.sizes[0]);
  set("heads", k.query.sizes[1]);
  set("key_heads", k.key.sizes[1]);
  set("queries", k.query.sizes[2]);
  set("keys", k.key.sizes[2]);
  set("head_size", k.query.sizes[3]);
  set("value_size", k.value.sizes[3]);
  strides("query", k.query);
  strides("key", k.key);
  strides("value", k.value);
  strides("out", k.out);
  if (k.scale != 1) line("scale", literal(DType::f64, k.scale));
  if (k.softcap != 0) line("softcap", literal(DType::f64, k.softcap));
  if (k.mask) {
    line("has_mask", "true");
    type("mask_type", *k.mask);
    strides("mask", *k.mask);
    if (k.fill != Attention().fill) line("fill", literal(DType::f64, k.fill));
    if (k.adds_fill) line("adds_fill", "true");
  }
  if (k.valid_keys) {
    line("has_valid_keys", "true");
    type("valid_keys_type", *k.valid_keys);
    set("valid_keys", k.valid_keys->strides[0]);
  }
  if (k.positions) {
    line("has_positions", "true");
    type("positions_type", *k.positions);
    set("positions", k.positions->strides[0]);
  } else if (!k.first_position.is_constant(0)) {
    set("first_position", k.first_position);
  }
  if (k.before) {
    line("has_before", "true");
    set("before", *k.before);
  }
  if (k.after) {
    line("has_after", "true");
    set("after", *k.after);
  }
  if (k.undefined != UndefinedRows::zero_if_masked)
    line("undefined", fmt::format("UndefinedRows::{}", to_string(k.undefined)));
  return w.text();
}

void ProgramEmitter::emit(OpId id, const Attention& k) {
  note({id}, "attention");
  const auto operand = [&](const std::optional<TensorRef>& ref) {
    return ref ? address(ref->buffer, ref->offset) : "nullptr";
  };
  step_.push_back(fmt::format("attention({}, {{{}, {}, {}, {}, {}, {}, {}}});", attentions_.size(),
                              operand(k.query), operand(k.key), operand(k.value), operand(k.mask),
                              operand(k.valid_keys), operand(k.positions),
                              address(k.out.buffer, k.out.offset, false)));
  attentions_.push_back({shape({"AttentionShape", attention_fields(k)}), label(id)});
}

}  // namespace braid::codegen::cpp
