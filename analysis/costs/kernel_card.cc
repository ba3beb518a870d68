#include "analysis/costs/kernel_card.h"

#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/json_document.h"

namespace braid::analysis {
namespace {

using ir::JsonDocument;
using ir::JsonObject;
using ir::JsonValue;
using ir::NumberRange;

constexpr NumberRange kCount{0, 1e9};

// Keys that no model needs are left unread.
KernelCard card_of(JsonObject object) {
  KernelCard card;
  card.program = object.string("program");
  card.kernel = object.string("kernel");
  card.instructions = object.number("instructions", kCount);
  card.barriers = object.number("barriers", kCount);
  card.resident_threads = object.number("resident", kCount);
  for (const JsonValue& value : object.value("regions").array()) {
    JsonObject region(value);
    CardLoop loop;
    loop.instructions = region.number("instructions", kCount);
    loop.loads = region.number("loads", kCount);
    loop.stores = region.number("stores", kCount);
    loop.loads_ahead = region.number("loads_ahead", kCount);
    const std::string& kind = region.string("kind");
    loop.tail = kind == "tail";
    if (kind == "kernel")
      card.loads = loop.loads, card.loads_ahead = loop.loads_ahead;
    else
      card.loops.push_back(loop);
  }
  return card;
}

}  // namespace

std::vector<KernelCard> parse_kernel_cards(const std::string& text, const std::string& file) {
  const JsonDocument doc(text, file, errors::kCardsNotJson, errors::kBadCards);
  std::vector<KernelCard> cards;
  JsonObject root = doc.object();
  for (const JsonValue& value : root.value("cards").array()) cards.push_back(card_of(JsonObject(value)));
  return cards;
}

std::vector<KernelCard> read_kernel_cards(const std::string& path) {
  return parse_kernel_cards(ir::read_text_file(path), path);
}

}  // namespace braid::analysis
