// One cell of a schedule as text.
//
//   cell       := blank | action | container          blanks (space, tab) around it are skipped
//   action     := STAGE KIND [MICROBATCH]             "2SEND_F0"; KIND says whether a micro-batch follows
//   container  := "(" action {";" action} ")" KIND    two members at least, no blanks inside
//
// Numbers are decimal without leading zeros or sign and fit 32 bits. Printing is the exact inverse of
// parsing, so any other text ("0F0junk", "2F", "0BW0", "00F0") is rejected.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/schedule.h"

namespace braid::pipeline {

// The position of the text, for messages.
struct TextLocation {
  std::string_view file;
  int rank = -1;   // -1: a single cell outside a table
  int cell = 0;    // from 0, as in every message about rows
  int column = 1;  // from 1, of the cell's first character in its line
};

// Parses a cell and appends it to the row: one entry, or a container with its members. Throws BR0800 to
// BR0802 with the column of the first wrong character.
void parse_cell(std::string_view text, Row& row, const TextLocation& location = {});

// Parses one action that is neither a container nor idle.
Action parse_action(std::string_view text);

// "F", "SEND_B", "OVERLAP_F_B"; empty for idle.
std::string_view kind_name(ActionKind kind);

// Append the text of an action without members, or of the cell that begins at `position`.
void append_action(std::string& text, Action action);
void append_cell(std::string& text, const Row& row, std::size_t position);

}  // namespace braid::pipeline
