// Another rule in the rows of an operator, until the object is gone.
#pragma once

#include <string>
#include <vector>

#include "frontend/op_registry.h"

namespace braid::frontend::sharding {

class ReplacedRule {
 public:
  template <class Change>
  ReplacedRule(const std::string& domain, const std::string& name, const Change& change) {
    for (const OpSpec& row : all_ops()) {
      if (row.domain == domain && row.name == name) rows_.push_back(row);
    }
    for (OpSpec row : rows_) {
      change(row.rule);
      register_op(row);
    }
  }
  ~ReplacedRule() {
    for (const OpSpec& row : rows_) register_op(row);
  }
  ReplacedRule(const ReplacedRule&) = delete;
  ReplacedRule& operator=(const ReplacedRule&) = delete;

 private:
  std::vector<OpSpec> rows_;  // as they were
};

}  // namespace braid::frontend::sharding
