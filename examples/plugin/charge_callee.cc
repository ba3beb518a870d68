#include "charge_callee.h"

// Loading the plug-in adds the pass to the program's own.
static const braid::passes::RegisterPass<example::ChargeCallee> registered;
