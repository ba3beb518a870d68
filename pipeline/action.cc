#include "pipeline/action.h"

#include "pipeline/text.h"

namespace braid::pipeline {

std::string to_string(Action action) {
  std::string text;
  append_action(text, action);
  return text;
}

}  // namespace braid::pipeline
