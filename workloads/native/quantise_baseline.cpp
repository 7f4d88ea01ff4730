// The quantiser's loops for any processor.
#define NETFOLD_ISA baseline
#include "quantise_kernels.hpp"
