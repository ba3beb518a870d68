// ONNX's parser of models as text.
#pragma once

#undef MAP_TYPE  // a macro of <sys/mman.h>, and an enumerator of the parser's
#include <onnx/defs/parser.h>
