// C++ errors as Python's: user errors and those of programs become braid.Error, broken invariants
// braid.InternalError.
#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "python/bindings.h"
#include "runtime/program.h"

namespace braid::python {
namespace {

void raise(const char* type, const nb::object& error) {
  PyErr_SetObject(nb::module_::import_("braid._errors").attr(type).ptr(), error.ptr());
}

// "error BR0723: text" -> "text", also without the hint that follows it.
std::string without_number(std::string_view text, std::string_view hint) {
  if (text.starts_with("error BR")) text.remove_prefix(std::string_view("error BR0000: ").size());
  const std::string tail = fmt::format("\n  hint: {}", hint);
  if (!hint.empty() && text.ends_with(tail)) text.remove_suffix(tail.size());
  return std::string(text);
}

const char* hint_for(int code) {
  switch (code) {
    case rt::kCannotOpen:
      return "compile the model again with this version of Braid";
    case rt::kWrongInput:
    case errors::kWrongInputs:
      return "program.inputs and program.outputs list types and shapes";
    case rt::kWrongSize:
    case errors::kSizeOutOfBounds:
    case errors::kGuardViolated:
    case errors::kSizesDiffer:
      return "program.dims lists the bounds; compile with others to run other sizes";
    case rt::kCommFailed:
      return "a rank has ended, stalled or runs another program; docs/errors.md says more";
    default:
      return "";
  }
}

// A message may quote bytes of a file or of a library's error.
nb::object readable(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

void raise_error(int code, const std::string& message, const std::string& hint) {
  raise("Error", nb::make_tuple(code, readable(message), readable(hint)));
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ir::UserError& error) {
    raise_error(error.code(), without_number(error.what(), error.hint()),
                error.hint().empty() ? hint_for(error.code()) : error.hint());
  } catch (const rt::ProgramError& error) {
    raise_error(error.code(), without_number(error.what(), ""), hint_for(error.code()));
  } catch (const std::filesystem::filesystem_error& error) {
    raise_error(errors::kCannotWrite, error.what(), "check the path, its permissions and the disk");
  } catch (const ir::InternalError& error) {
    raise("InternalError", readable(error.what()));
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(&translate); }

}  // namespace braid::python
