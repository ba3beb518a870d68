# Filled by the set-up work: install rules and the package configuration.
